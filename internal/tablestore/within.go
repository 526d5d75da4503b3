package tablestore

import (
	"context"
	"fmt"

	"github.com/stet-dev/stet"
)

// Bound is a store within a transaction. It marks the transaction with a savepoint, which ends with
// it: the session goes on after that, and what it is sent then happens by itself, or in another
// transaction. So no write is sent where the mark is gone (Q01).
type Bound[W Item] struct {
	Reading
	Verbs[W]
	tx     Tx
	marked bool
	last   bool // the mark was released for a result, which the commit follows
	ended  error
}

// Tx is how a caller's transaction is told from what comes after it on its session.
type Tx struct {
	Exec func(ctx context.Context, statement string) error
	// Unmarked reports whether an error of Exec says that the session has no such savepoint.
	Unmarked func(err error) bool
	// Undone reports whether an error of a statement says that the database has undone the
	// transaction, which is over then.
	Undone func(err error) bool
}

// The statements are the same in the SQL standard, Postgres, MySQL and SQLite.
const (
	mark   = "SAVEPOINT stet"
	unmark = "RELEASE SAVEPOINT stet" // an error where the mark is gone
	undo   = "ROLLBACK TO SAVEPOINT stet"
)

// Within returns the store within a transaction, which begins here as far as the store knows.
func Within[W Item](ctx context.Context, tx Tx, r Reading, d Driver[W]) (*Bound[W], error) {
	b := &Bound[W]{Reading: r, tx: tx}
	if err := b.mark(ctx); err != nil {
		return nil, err
	}
	do, tell := d.Do, d.Append
	d.Do = func(w W) error {
		last := w.write().Head.State == stet.Completed // what follows is the commit
		if err := b.same(w.write().Ctx, !last); err != nil {
			return err
		}
		return do(w)
	}
	d.Append = func(ctx context.Context, c *stet.Change) error {
		if err := b.same(ctx, true); err != nil {
			return err
		}
		return tell(ctx, c)
	}
	b.Verbs = NewVerbs(d)
	return b, nil
}

func (b *Bound[W]) mark(ctx context.Context) error {
	err := b.tx.Exec(ctx, mark)
	b.marked, b.last = err == nil, false
	return err
}

// same returns nil if the session is in the transaction still, and sees to it that this can be
// asked again.
func (b *Bound[W]) same(ctx context.Context, again bool) error {
	if b.ended != nil {
		return b.ended
	}
	if b.marked {
		if err := b.tx.Exec(ctx, unmark); err != nil {
			return b.failed(err)
		}
		b.marked, b.last = false, true
	}
	if again {
		return b.mark(ctx)
	}
	return nil
}

func (b *Bound[W]) failed(err error) error {
	if b.tx.Unmarked(err) {
		b.ended = fmt.Errorf("%w: %w", stet.ErrTxEnded, err)
		return b.ended
	}
	return err
}

// Undoable implements [stet.Undoer].
func (b *Bound[W]) Undoable(ctx context.Context, cause error) error {
	err := b.ended
	switch {
	case err != nil:
	case b.last: // its write has looked, and nothing of the caller's comes after it
		return nil
	default:
		if err = b.tx.Exec(ctx, undo); err != nil {
			err = b.failed(err)
		}
	}
	if b.ended != nil && b.tx.Undone(cause) {
		return nil
	}
	return err
}
