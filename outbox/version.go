package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A write of a worker may land although its answer is lost. Versions then tell the worker what
// happened. A claim gives its messages a random version, and the outcome of an attempt increases it
// by one. Every other change of state draws another version. So a message with the version of a
// claim is held by that claim, and one with the next version was settled by its holder.
//
// If a process dies, its messages may have been given to a handler or not. To record that would
// cost every delivery another write, so they count as given to a handler.

// newVersion returns a version that no other write uses; the next one is unused, too.
func newVersion() int64 { return 2 + 2*rand.Int64N(1<<61) }

// claimed is a message that a run has claimed.
type claimed struct {
	Stored
	box   *Box
	db    *sql.DB
	began time.Time // local time just before the claim was sent; the lease ends no earlier than a Lease later
}

// write changes the message if the claim still holds it. The last two placeholders of the statement
// are its id and version.
func (c *claimed) write(ctx context.Context, statement string, args ...any) error {
	switch n, err := affected(c.db.ExecContext(ctx, statement, append(args, c.ID, c.Version)...)); {
	case err != nil:
		return fmt.Errorf("outbox: message %d: %w", c.ID, err)
	case n == 0:
		return ErrLost
	}
	return nil
}

// keep stores the id by which the system downstream knows the effect.
func (c *claimed) keep(ctx context.Context, id string) error {
	return c.write(ctx, c.box.q.downstream, c.box.q.text(id))
}

// outcome is what becomes of a claimed message.
type outcome struct {
	to      State
	after   time.Duration // Pending: the least time until the next attempt
	text    string        // kept with the message; "" adds nothing
	unbegun bool          // the handler was not called, so that the attempt does not count
}

// settle stores the outcome. The error is [ErrLost] if the claim no longer holds the message,
// unless an earlier write of this claim has settled it.
func (c *claimed) settle(ctx context.Context, o outcome) error {
	note, less := line(o.text), 0
	if o.unbegun {
		less = 1
	}
	err := c.write(ctx, c.box.q.settle, note, note, string(o.to), less, o.after.Microseconds())
	if !errors.Is(err, ErrLost) {
		return err
	}
	own, lookErr := c.box.mine(ctx, c.db, c)
	if lookErr == nil && !own[c.ID] {
		return ErrLost
	}
	return lookErr
}

// mine returns the messages that were settled by their holders.
func (b *Box) mine(ctx context.Context, db *sql.DB, all ...*claimed) (map[int64]bool, error) {
	ids, err := numbers(db.QueryContext(ctx, b.q.many(b.q.settled, len(all)), pairs(all, 1)...))
	own := map[int64]bool{}
	for _, id := range ids {
		own[id] = true
	}
	return own, failed("settle", err)
}

// doubt is a claim that got no answer. None of its messages was given to a handler.
type doubt struct {
	version int64
	until   time.Time // after this it cannot land any more
}

// takeBack makes the messages Pending that claims without an answer have taken. Their attempts do
// not count, because none has begun.
func (b *Box) takeBack(ctx context.Context, db *sql.DB, doubts []doubt) error {
	versions := make([]int64, len(doubts))
	for i, d := range doubts {
		versions[i] = d.version
	}
	all, err := grid(db.QueryContext(ctx, fill(b.q.landed, versions)))
	for i := 0; err == nil && i < len(all); i++ {
		c := &claimed{Stored: Stored{ID: all[i][0], Version: all[i][1]}, box: b, db: db}
		if err = c.settle(ctx, outcome{to: Pending, unbegun: true}); errors.Is(err, ErrLost) {
			err = nil
		}
	}
	return failed("a claim without an answer", err)
}
