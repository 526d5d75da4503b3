package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Handler delivers one message. It has to send d.DownstreamKey along, and to heed ctx, which ends with the lease or the time for
// draining. A panic is an outcome nobody knows: as [Maybe].
type Handler func(ctx context.Context, d *Delivery) Result

// Result is what became of an attempt. The zero Result says nothing, and so counts as [Maybe].
type Result struct {
	verdict verdict
	after   time.Duration
	text    string
}

type verdict uint8

const (
	maybe verdict = iota
	delivered
	again
	declined
)

// Delivered: the effect has happened.
func Delivered() Result { return Result{verdict: delivered} }

// Retry: the effect has not happened, and is to be tried again, after the worker's backoff or later.
func Retry(after time.Duration, cause error) Result {
	return Result{again, max(after, 0), fmt.Sprint("retry: ", cause)}
}

// Decline: the system downstream has refused for good. The message is dead.
func Decline(reason string) Result { return Result{declined, 0, "declined: " + reason} }

// Maybe: nobody can tell whether the effect has happened. See [Worker.KeyHonoured] for what follows.
func Maybe(cause error) Result { return Result{maybe, 0, fmt.Sprint("unknown: ", cause)} }

// Delivery is one attempt at a message.
type Delivery struct {
	Stored
	box *Box
	db  *sql.DB
}

// Downstream stores the id by which the system downstream knows what the attempt has made. Called before the handler returns, it
// is kept whatever happens next. [ErrLost]: somebody else may be at the message by now.
func (d *Delivery) Downstream(ctx context.Context, id string) error {
	if len(id) > MaxName {
		return fmt.Errorf("%w: the id has more than %d bytes", ErrMessage, MaxName)
	}
	if err := d.write(ctx, d.box.q.downstream, d.box.q.text(id), d.ID, d.version); err != nil {
		return err
	}
	d.DownstreamID = id
	return nil
}

// write changes the message, if the claim still holds it.
func (d *Delivery) write(ctx context.Context, statement string, args ...any) error {
	res, err := d.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return fmt.Errorf("outbox: message %d: %w", d.ID, err)
	}
	switch n, err := res.RowsAffected(); {
	case err != nil:
		return fmt.Errorf("outbox: message %d: %w", d.ID, err)
	case n == 0:
		return ErrLost
	}
	return nil
}
