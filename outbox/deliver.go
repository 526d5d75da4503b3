package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// claimed is a message that this run has claimed.
type claimed struct {
	Stored
	box *Box
	db  *sql.DB
}

// write changes the message, if the claim still holds it.
func (c *claimed) write(ctx context.Context, statement string, args ...any) error {
	res, err := c.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return fmt.Errorf("outbox: message %d: %w", c.ID, err)
	}
	switch n, err := res.RowsAffected(); {
	case err != nil:
		return fmt.Errorf("outbox: message %d: %w", c.ID, err)
	case n == 0:
		return ErrLost
	}
	return nil
}

// keep stores what the provider calls the effect.
func (c *claimed) keep(ctx context.Context, id string) error {
	return c.write(ctx, c.box.q.downstream, c.box.q.text(id), c.ID, c.version)
}

// deliver makes one attempt, and stores what became of it.
func (r *run) deliver(d *claimed) {
	defer func() { r.ended <- struct{}{} }()
	if d.Attempt > r.MaxAttempts { // the last one ended with its worker
		r.settle(d, Dead, 0, "attempts exhausted", 0)
		return
	}
	ctx, cancel := context.WithCancel(r.work)
	beating := make(chan struct{})
	go func() { defer close(beating); r.heartbeat(ctx, cancel, d) }()
	began := time.Now()
	result := Handle(ctx, r.Handler, NewDelivery(d.Stored, d.keep))
	took := time.Since(began)
	cancel()
	<-beating // or it would extend what is settled
	to, after, text := r.judge(d.Attempt, result)
	r.settle(d, to, after, text, took)
}

// judge says what becomes of the message, after what pause, and what is kept of the attempt.
func (r *run) judge(attempt int, result Result) (to State, after time.Duration, text string) {
	what, after, text := result.Outcome()
	switch {
	case what == "done":
		return Done, 0, text
	case what == "declined":
		return Dead, 0, text
	case what == "unknown" && !r.KeyHonoured:
		return Unknown, 0, text
	case attempt >= r.MaxAttempts:
		return Dead, 0, text
	}
	return Pending, max(after, r.backoff(attempt)), text
}

// heartbeat extends the lease until ctx ends. Where it cannot, the handler's context ends before the lease does.
func (r *run) heartbeat(ctx context.Context, cancel context.CancelFunc, d *claimed) {
	tick := time.NewTicker(r.Lease / 3)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		call, done := context.WithTimeout(ctx, r.Lease/3)
		err := d.write(call, r.box.q.extend, r.Lease.Microseconds(), d.ID, d.version)
		done()
		switch {
		case err == nil:
			last = began
		case errors.Is(err, ErrLost) || time.Since(last) >= r.Lease*2/3:
			cancel()
			return
		}
	}
}

// settle stores the outcome, and tries for as long as a lease lasts: after that the fencing token has grown, or the sweep makes of
// the message what it makes of those whose worker died.
func (r *run) settle(d *claimed, to State, after time.Duration, text string, took time.Duration) {
	note := line(text)
	call, cancel := context.WithTimeout(context.WithoutCancel(r.work), r.Lease)
	defer cancel()
	event := Event{Result: string(to), ID: d.ID, Topic: d.Topic, Attempt: d.Attempt, Took: took}
	if to == Pending {
		event.Result = "retry"
	}
	write := func() error {
		return d.write(call, r.box.q.settle, note, note, string(to), min(after, MaxDelay).Microseconds(), d.ID, d.version)
	}
	if to == Done {
		write = func() error { return r.group.done(call, d) }
	}
	for pause := minPoll; ; pause *= 2 {
		err := write()
		switch {
		case err == nil:
			r.Observe(event)
			return
		case errors.Is(err, ErrLost):
			event.Result, event.Err = "lost", err
			r.Observe(event)
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-call.Done():
			t.Stop()
			event.Result, event.Err = "error", err
			r.Observe(event)
			return
		}
	}
}
