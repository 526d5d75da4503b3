package pgstore

import (
	"context"

	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// place is where a record stands among those that are due. The zero place is before all of them.
// The store remembers how far each state's index was walked, whose beginning is full of what was
// removed a moment ago: a batch that began there again would pass over all of it, and each batch
// over more.
type place struct{ due, id int64 }

// Reap removes records whose time is over, in one statement for each state. Rows that another
// transaction holds are passed over. It also compares some rows with the index by names.
func (s *Store) Reap(ctx context.Context, limit int) (n int, err error) {
	err = s.during(ctx, "reap", func(ctx context.Context) error {
		if err := s.gate.Write(ctx); err != nil {
			return err
		}
		for i := range tablestore.Reaped {
			gone, err := s.reap(ctx, i, limit-n)
			if err != nil {
				return err
			}
			n += gone
		}
		return s.compare(ctx)
	})
	return n, err
}

// reap walks on from where it was, and where that leads to the end, once more from the beginning.
func (s *Store) reap(ctx context.Context, i, limit int) (n int, err error) {
	for n < limit {
		from, _ := s.reaped[i].Load().(place)
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
		s.reaped[i].Store(last)
		if n < limit && from == (place{}) {
			break
		}
	}
	return n, nil
}
