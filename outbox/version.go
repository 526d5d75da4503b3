package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A write of a worker may land although its answer is lost, and then the worker has to find out.
// Versions tell: a claim takes a random version for its messages, and the outcome of an attempt
// is the version after it. Every other change of a state takes another one. So a message of a
// claim's version is held by that claim, and one of the version after it was settled by its holder,
// whatever became of the answers.
//
// The claims of a process that died are another matter: its messages may have been handed out or
// not, and a mark for that would cost every delivery a write. They are taken for handed out.

// newVersion returns a version that no other write has, nor the one after it.
func newVersion() int64 { return 2 + 2*rand.Int64N(1<<61) }

// claimed is a message that a run has claimed.
type claimed struct {
	Stored
	box   *Box
	db    *sql.DB
	began time.Time // local; just before the claim was sent: its lease is over a Lease later, or after that
}

// write changes the message, if the claim still holds it. The last two places of the statement are
// for its id and version.
func (c *claimed) write(ctx context.Context, statement string, args ...any) error {
	res, err := c.db.ExecContext(ctx, statement, append(args, c.ID, c.version)...)
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
	return c.write(ctx, c.box.q.downstream, c.box.q.text(id))
}

// outcome is what becomes of a claimed message.
type outcome struct {
	to      State
	after   time.Duration // Pending: no attempt before that
	text    string        // is kept with the message, if it is not empty
	unbegun bool          // the handler was not called: the attempt does not count
}

// settle stores the outcome. [ErrLost] if the claim does not hold the message any more, and did not
// settle it in a write before this one.
func (c *claimed) settle(ctx context.Context, o outcome) error {
	note, less := line(o.text), 0
	if o.unbegun {
		less = 1
	}
	err := c.write(ctx, c.box.q.settle, note, note, string(o.to), less, min(o.after, maxDelay).Microseconds())
	if !errors.Is(err, ErrLost) {
		return err
	}
	own, lookErr := c.box.mine(ctx, c.db, c)
	if lookErr == nil && !own[c.ID] {
		return ErrLost
	}
	return lookErr
}

// mine returns which messages were settled by their holders.
func (b *Box) mine(ctx context.Context, db *sql.DB, all ...*claimed) (map[int64]bool, error) {
	ids, err := numbers(db.QueryContext(ctx, b.q.many(b.q.settled, len(all)), pairs(all, 1)...))
	if err != nil {
		return nil, fmt.Errorf("outbox: settle: %w", err)
	}
	own := map[int64]bool{}
	for _, id := range ids {
		own[id] = true
	}
	return own, nil
}

// doubt is a claim that got no answer: none of its messages was handed out.
type doubt struct {
	version int64
	until   time.Time // nothing of it lands after that
}

// takeBack gives the messages back that claims without an answer have got nevertheless. Their
// attempts do not count: none has begun.
func (b *Box) takeBack(ctx context.Context, db *sql.DB, doubts []doubt) error {
	versions := make([]int64, len(doubts))
	for i, d := range doubts {
		versions[i] = d.version
	}
	all, err := grid(db.QueryContext(ctx, fill(b.q.landed, versions)))
	for i := 0; err == nil && i < len(all); i++ {
		c := &claimed{Stored: Stored{ID: all[i][0], version: all[i][1]}, box: b, db: db}
		if err = c.settle(ctx, outcome{to: Pending, unbegun: true}); errors.Is(err, ErrLost) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("outbox: a claim without an answer: %w", err)
	}
	return nil
}
