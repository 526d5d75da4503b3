package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/store/sqlstore"
)

const (
	defaultRetention = 7 * 24 * time.Hour

	reapEvery = time.Minute            // roughly, for each worker; Retention if that is shorter
	reapBatch = 500                    // rows that a statement examines
	reapPause = 100 * time.Millisecond // between statements, to leave the disk to others
)

// Reap deletes messages that were done or discarded at least age ago, and returns how many. Dead
// and unknown messages stay until a person has settled them. While a message exists its effect
// cannot be added again ([stet.ErrExists]), so that it has to be kept for as long as the execution
// of its record may be repeated. Reap looks at no more than batch rows at a time, and pauses
// between batches; any number of processes may reap at once. It stops at the first batch in which
// all rows are younger than age: what lies behind is found by a later call. It skips rows that
// cannot be removed or that another transaction holds, and says so by its error.
func (b *Box) Reap(ctx context.Context, db *sql.DB, age time.Duration, batch int) (reaped int64, err error) {
	if age < 0 || batch < 1 {
		return 0, fmt.Errorf("outbox: reap: age is %s and batch %d; they have to be 0 and 1 at least", age, batch)
	}
	for last, more := int64(0), true; more; {
		first, rows, old := last, 0, false
		row := db.QueryRowContext(ctx, b.q.stretch, age.Microseconds(), first, batch)
		if err := row.Scan(&last, &rows, &old); err != nil {
			return reaped, failed("reap", err)
		}
		if !old {
			return reaped, err
		}
		n, removeErr := b.remove(ctx, db, first, last, age)
		if reaped += n; removeErr != nil {
			err = failed("reap", removeErr)
		}
		if more = rows == batch; more {
			rest.For(ctx, reapPause)
		}
	}
	return reaped, err
}

// remove deletes the messages that are over, from after first up to last. If that fails, it deletes
// them one by one, so that one message does not keep the others.
func (b *Box) remove(ctx context.Context, db *sql.DB, first, last int64, age time.Duration) (n int64, err error) {
	args := []any{first, last, age.Microseconds()}
	if n, err = b.removeAll(ctx, db, args); err == nil {
		return n, nil
	}
	ids, lookErr := numbers(db.QueryContext(ctx, b.q.over, args...))
	if lookErr != nil {
		return 0, lookErr
	}
	err = nil
	for _, id := range ids {
		one, oneErr := b.removeAll(ctx, db, []any{id - 1, id, age.Microseconds()})
		if n += one; oneErr != nil {
			err = fmt.Errorf("message %d: %w", id, oneErr)
		}
	}
	return n, err
}

func (b *Box) removeAll(ctx context.Context, db *sql.DB, args []any) (int64, error) {
	if b.q.dialect == sqlstore.MySQL {
		return b.removeMySQL(ctx, db, args)
	}
	return affected(db.ExecContext(ctx, b.q.reap, args...))
}

// reap deletes messages whose retention is over, at intervals, until ctx ends. The intervals are
// random, so that several workers do not reap at once.
func (r *run) reap(ctx context.Context) {
	every := min(reapEvery, max(r.Retention, minPoll))
	for {
		if !rest.For(ctx, every/2+rand.N(every)) {
			return
		}
		if _, err := r.box.Reap(ctx, r.DB, r.Retention, reapBatch); err != nil && ctx.Err() == nil {
			r.Observe(Event{Result: "error", Err: err})
		}
	}
}
