package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// deliver makes one attempt, and stores what became of it.
func (r *run) deliver(d *Delivery) {
	defer func() { r.ended <- struct{}{} }()
	if d.Attempt > r.MaxAttempts { // the last one ended with its worker
		r.settle(d, Dead, 0, "attempts exhausted", 0)
		return
	}
	ctx, cancel := context.WithCancel(r.work)
	beating := make(chan struct{})
	go func() { defer close(beating); r.heartbeat(ctx, cancel, d) }()
	began := time.Now()
	result := r.handle(ctx, d)
	took := time.Since(began)
	cancel()
	<-beating // or it would extend what is settled
	to, after := r.judge(d, result)
	r.settle(d, to, after, result.text, took)
}

// handle calls the handler. A panic, and a Result that says nothing, are an outcome nobody knows.
func (r *run) handle(ctx context.Context, d *Delivery) (result Result) {
	normal := false
	defer func() {
		p := recover()
		switch {
		case normal:
		case p != nil:
			result = Maybe(fmt.Errorf("the handler panicked: %v", p))
		default: // runtime.Goexit
			result = Maybe(errors.New("the handler ended its goroutine"))
		}
	}()
	result = r.Handler(ctx, d)
	normal = true
	if result == (Result{}) {
		result.text = "unknown: the handler returned no result"
	}
	return result
}

func (r *run) judge(d *Delivery, result Result) (to State, after time.Duration) {
	switch result.verdict {
	case delivered:
		return Done, 0
	case declined:
		return Dead, 0
	case maybe:
		if !r.KeyHonoured {
			return Unknown, 0
		}
	case again:
	}
	if d.Attempt >= r.MaxAttempts {
		return Dead, 0
	}
	return Pending, max(result.after, r.backoff(d.Attempt))
}

// heartbeat extends the lease until ctx ends. Where it cannot, the handler's context ends before the lease does.
func (r *run) heartbeat(ctx context.Context, cancel context.CancelFunc, d *Delivery) {
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
func (r *run) settle(d *Delivery, to State, after time.Duration, text string, took time.Duration) {
	note := line(text)
	call, cancel := context.WithTimeout(context.WithoutCancel(r.work), r.Lease)
	defer cancel()
	event := Event{Result: string(to), ID: d.ID, Topic: d.Topic, Attempt: d.Attempt, Took: took}
	if to == Pending {
		event.Result = "retry"
	}
	for pause := minPoll; ; pause *= 2 {
		err := d.write(call, r.box.q.settle, note, note, string(to), min(after, MaxDelay).Microseconds(), d.ID, d.version)
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
