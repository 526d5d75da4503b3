package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stet-dev/stet/store/sqlstore"
)

// How long a [Worker] keeps messages that are done or discarded.
const (
	DefaultRetention = 7 * 24 * time.Hour
	Forever          = time.Duration(1<<63 - 1)
)

const (
	reapEvery = time.Minute            // of each worker, about, or as often as Retention if that is shorter
	reapBatch = 500                    // rows that a statement looks at
	reapPause = 100 * time.Millisecond // between statements, for others to get at the disk
)

// Reap deletes messages that were done or discarded at least age ago, and returns how many. Dead and unknown ones stay until
// somebody has settled them. While a message is there its effect cannot be added again ([ErrExists]): keep it for as long as the
// execution of its record may be repeated. Reap looks at no more than batch rows at a time, and rests between. Any number
// may reap at once. It stops at the first batch that is all younger than age; those that lie behind are found by a later call.
func (b *Box) Reap(ctx context.Context, db *sql.DB, age time.Duration, batch int) (reaped int64, err error) {
	if age < 0 || batch < 1 {
		return 0, fmt.Errorf("outbox: reap: age is %s and batch %d; they have to be 0 and 1 at least", age, batch)
	}
	for last, more := int64(0), true; more; {
		first, rows, old := last, 0, false
		if err := db.QueryRowContext(ctx, b.q.stretch, age.Microseconds(), first, batch).Scan(&last, &rows, &old); err != nil {
			return reaped, fmt.Errorf("outbox: reap: %w", err)
		}
		if !old {
			return reaped, nil
		}
		n, err := b.remove(ctx, db, first, last, age)
		if reaped += n; err != nil {
			return reaped, fmt.Errorf("outbox: reap: %w", err)
		}
		if more = rows == batch; more {
			pause(ctx, reapPause)
		}
	}
	return reaped, nil
}

// remove deletes what is over of the messages after first, up to last.
func (b *Box) remove(ctx context.Context, db *sql.DB, first, last int64, age time.Duration) (int64, error) {
	statement, args := b.q.reap, []any{first, last, age.Microseconds()}
	if b.q.dialect == sqlstore.MySQL {
		// A DELETE of a stretch would lock all of it, and wait for messages of transactions that are still open, while deliveries
		// wait for it until their leases end. What is over stays so, and can be looked up without a lock.
		ids, err := numbers(db.QueryContext(ctx, b.q.over, args...))
		if err != nil || len(ids) == 0 {
			return 0, err
		}
		statement, args = strings.Replace(b.q.reap, "IDS", strings.Join(ids, ", "), 1), nil
	}
	res, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// reap deletes what has been kept for long enough, again and again until ctx ends; of several workers not all at
// once.
func (r *run) reap(ctx context.Context) {
	every := min(reapEvery, max(r.Retention, minPoll))
	for {
		pause(ctx, every/2+rand.N(every))
		if ctx.Err() != nil {
			return
		}
		if _, err := r.box.Reap(ctx, r.DB, r.Retention, reapBatch); err != nil && ctx.Err() == nil {
			r.Observe(Event{Result: "error", Err: err})
		}
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
