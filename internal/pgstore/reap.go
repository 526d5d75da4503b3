package pgstore

import (
	"context"
	"sync"

	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// place is where a record stands among those that are due. The zero place is before all of them.
type place struct{ due, id int64 }

// reaping remembers how far each state's index was walked. Its beginning is full of what was removed a moment ago: a batch that
// began there again would pass over all of it, and each batch over more.
type reaping struct {
	mu   sync.Mutex
	upTo [len(tablestore.Reaped)]place
}

func (r *reaping) from(i int) place {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.upTo[i]
}

func (r *reaping) walked(i int, upTo place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.upTo[i] = upTo
}

// Reap removes records whose time is over, in one statement for each state. Rows that somebody holds are passed over.
func (s *Store) Reap(ctx context.Context, limit int) (n int, err error) {
	err = s.during(ctx, "reap", func(ctx context.Context) error {
		for i := range tablestore.Reaped {
			gone, err := s.reap(ctx, i, limit-n)
			if err != nil {
				return err
			}
			n += gone
		}
		return nil
	})
	return n, err
}

// reap walks on from where it was, and where that leads to the end, once more from the beginning.
func (s *Store) reap(ctx context.Context, i, limit int) (n int, err error) {
	for n < limit {
		from := s.reaping.from(i)
		var gone int64 // no row where none is gone
		var last place
		err := each(ctx, s.pool, sqltext.PostgresReap(tablestore.Reaped[i]), []any{from.due, from.id, int64(limit - n)},
			func(rows Rows) error { return rows.Scan(&gone, &last.due, &last.id) })
		if err != nil {
			return n, err
		}
		if n += int(gone); n < limit {
			last = place{}
		}
		s.reaping.walked(i, last)
		if n < limit && from == (place{}) {
			break
		}
	}
	return n, nil
}
