package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Handler delivers one message. It has to send d.DownstreamKey along, and to heed ctx, which ends
// with the lease, after [Worker.Timeout], or with the time for draining. A panic counts as [Maybe].
// It is called from several goroutines.
type Handler func(ctx context.Context, d *Delivery) Result

// Result is what became of an attempt: [Delivered], [Retry], [Decline] or [Maybe]. The zero Result
// counts as Maybe.
type Result struct {
	what  string // see Outcome
	after time.Duration
	text  string
}

// Delivered says that the effect has happened.
func Delivered() Result { return Result{what: "done"} }

// Retry says that the effect has not happened, and is to be tried again: after the worker's
// backoff, and not before after, of which no more than ten years count.
func Retry(after time.Duration, cause error) Result {
	return Result{"retry", min(max(after, 0), maxDelay), fmt.Sprint("retry: ", cause)}
}

// Decline says that the system downstream has refused for good. The message is dead.
func Decline(reason string) Result { return Result{"declined", 0, "declined: " + reason} }

// Maybe says that the effect may have happened or not. See [Message].KeyHonoured for what follows.
func Maybe(cause error) Result { return Result{"unknown", 0, fmt.Sprint("unknown: ", cause)} }

// Outcome returns what r says, for programs that deliver by other means than a [Worker]: done,
// retry, declined or unknown; the least time until the next attempt; and the text that is kept with
// the message.
func (r Result) Outcome() (what string, after time.Duration, text string) {
	if r.what == "" {
		r = Maybe(errors.New("the handler returned no result"))
	}
	return r.what, r.after, r.text
}

// Delivery is one attempt at a message.
type Delivery struct {
	Stored
	keep func(ctx context.Context, id string) error
}

// Downstream stores the id by which the system downstream knows the effect, at most 255 bytes. It
// is kept whatever becomes of the attempt. The error is [ErrLost] if another worker may deliver the
// message by now.
func (d *Delivery) Downstream(ctx context.Context, id string) error {
	if len(id) > maxName {
		return fmt.Errorf("%w: the id has more than %d bytes", ErrMessage, maxName)
	}
	if err := d.keep(ctx, id); err != nil {
		return err
	}
	d.DownstreamID = id
	return nil
}

// Deliver makes one attempt at m, whose downstream id goes to keep. A panic, and a Result that says
// nothing, count as [Maybe]. A [Worker] calls it by itself; it is for tests of a handler, and for
// those who deliver by other means.
func (h Handler) Deliver(ctx context.Context, m Stored, keep func(ctx context.Context, id string) error) (result Result) {
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
	result = h(ctx, &Delivery{m, keep})
	normal = true
	return result
}
