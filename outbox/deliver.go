package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/stet-dev/stet/internal/foreign"
	"github.com/stet-dev/stet/internal/rest"
)

var errOverrun = errors.New("the handler took longer than Timeout")

// handler is the kind of the calls that are made here: see package foreign.
const handler = "handler"

// spare returns when two thirds of a lease are over, counted from before it was requested. Nothing
// is started under the lease after that; the last third is left for what still runs to end.
func (r *run) spare(began time.Time) time.Time { return began.Add(r.Lease * 2 / 3) }

// deliver makes one attempt and stores its outcome.
func (r *run) deliver(d *claimed) {
	defer func() { r.ended <- struct{}{} }()
	var o outcome
	var took time.Duration
	switch began := time.Now(); {
	case d.Damage != "":
		o = outcome{to: Dead, text: "dead: the message " + d.Damage, unbegun: true}
	case d.Attempt > r.MaxAttempts: // another worker allows more attempts
		o = outcome{to: Dead, text: "attempts exhausted", unbegun: true}
	case r.calls.Hangs(foreign.About{Kind: handler, Of: d.ID}): // of an earlier attempt
		o = outcome{to: Pending, after: max(r.backoff(d.Attempt), foreign.Grace), unbegun: true}
	case !began.Before(r.spare(d.began)): // the claim was answered late, or this process was paused
		o = outcome{to: Pending, unbegun: true}
	default:
		o = r.judge(d, r.attempt(d))
		took = time.Since(began)
	}
	r.settle(d, o, took)
}

// attempt calls the handler and extends the lease while it runs. After Timeout the handler's
// context ends. A result that comes within [foreign.Grace] of that still counts; after that the
// handler is left alone, and its outcome is unknown.
func (r *run) attempt(d *claimed) Result {
	held, cancel := context.WithCancel(r.work)
	beating := make(chan struct{})
	go func() { defer close(beating); r.heartbeat(held, cancel, d) }()
	defer func() { cancel(); <-beating }() // a settled message must not be extended

	ctx, stop := context.WithTimeoutCause(held, r.Timeout, errOverrun)
	defer stop()
	result, err := foreign.Do(ctx, &r.calls, foreign.About{Kind: handler, Of: d.ID},
		func(ctx context.Context) (Result, error) { return r.Handler.Deliver(ctx, d.Stored, d.keep), nil })
	if err != nil {
		return Maybe(context.Cause(ctx))
	}
	return result
}

// judge returns what the result of an attempt means for the message.
func (r *run) judge(d *claimed, result Result) outcome {
	what, after, text := result.Outcome()
	switch {
	case what == "done":
		return outcome{to: Done}
	case what == "declined":
		return outcome{to: Dead, text: text}
	case what == "unknown" && !d.KeyHonoured:
		return outcome{to: Unknown, text: text}
	case d.Attempt >= r.MaxAttempts:
		return outcome{to: Dead, text: text}
	}
	return outcome{to: Pending, after: max(after, r.backoff(d.Attempt)), text: text}
}

// heartbeat extends the lease until ctx ends. If it cannot, it cancels the handler's context before
// the lease ends. A lease is counted from before its write was sent, because the server may have
// started to count that early (I13).
func (r *run) heartbeat(ctx context.Context, cancel context.CancelFunc, d *claimed) {
	last := d.began
	for retry := false; ; {
		next := last.Add(r.Lease / 3)
		if retry {
			next = time.Now().Add(r.Lease / 30)
		}
		if !rest.For(ctx, time.Until(next)) {
			return
		}
		began := time.Now()
		call, done := context.WithTimeout(ctx, min(r.Lease/6, time.Until(r.spare(last))))
		err := d.write(call, r.box.q.extend, r.Lease.Microseconds())
		done()
		switch {
		case err == nil:
			last, retry = began, false
			continue
		case errors.Is(err, ErrLost), !time.Now().Before(r.spare(last)):
			cancel()
			return
		}
		retry = true
	}
}

// settle stores the outcome, and retries for as long as a lease lasts. After that another worker
// may have the message, or the sweep treats it like one whose worker has died.
func (r *run) settle(d *claimed, o outcome, took time.Duration) {
	call, cancel := context.WithTimeout(context.WithoutCancel(r.work), r.Lease)
	defer cancel()
	event := Event{Result: string(o.to), ID: d.ID, Topic: d.Topic, Attempt: d.Attempt, Took: took}
	if o.to == Pending {
		event.Result = "retry"
	}
	if o.unbegun {
		event.Attempt--
	}
	write := func() error { return d.settle(call, o) }
	if o.to == Done {
		write = func() error { return r.done(d) }
	}
	for pause := minPoll; ; pause *= 2 {
		switch err := write(); {
		case err == nil:
		case errors.Is(err, ErrLost):
			event.Result, event.Err = "lost", err
		case rest.For(call, pause):
			continue
		default:
			event.Result, event.Err = "error", err
		}
		r.Observe(event)
		return
	}
}
