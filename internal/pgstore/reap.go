package pgstore

import (
	"context"
	"sync"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// reaped are the states of records that are removed when they are due.
var reaped = [...]stet.State{stet.Completed, stet.Retryable, stet.Expired}

// reaping remembers how far each state's index was walked. Its beginning is full of what was removed a moment ago: a batch that
// began there again would pass over all of it, and each batch over more.
type reaping struct {
	mu   sync.Mutex
	upTo [len(reaped)]int64
}

func (r *reaping) from(i int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.upTo[i]
}

func (r *reaping) walked(i int, upTo int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.upTo[i] = upTo
}

// Reap removes records whose time is over, in one statement for each state. Rows that somebody holds are passed over.
func (s *Store) Reap(ctx context.Context, limit int) (n int, err error) {
	if err = s.calls.enter(); err == nil {
		defer s.calls.leave()
		for i := range reaped {
			var gone int
			if gone, err = s.reap(ctx, i, limit-n); err != nil {
				break
			}
			n += gone
		}
	}
	return n, s.wrap("reap", err)
}

// reap walks on from where it was, and where that leads to the end, once more from the beginning.
func (s *Store) reap(ctx context.Context, i, limit int) (n int, err error) {
	for n < limit {
		from := s.reaping.from(i)
		var gone, last int64
		err := each(ctx, s.pool, sqltext.PostgresReap(reaped[i]), []any{from, int64(limit - n)}, func(rows Rows) error { return rows.Scan(&gone, &last) })
		if err != nil {
			return n, err
		}
		n += int(gone)
		if n < limit {
			last = 0
		}
		s.reaping.walked(i, last)
		if n < limit && from == 0 {
			break
		}
	}
	return n, nil
}
