package pgstore

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

func (s *Store) forgetting() tablestore.Forgetting {
	return tablestore.Forgetting{Wrap: s.wrap,
		Shorten: func(ctx context.Context, age time.Duration, limit int) (int, error) {
			statement, args := s.Reader.Trimming(age, limit)
			return s.forget(ctx, statement, args)
		},
		Clear: func(ctx context.Context, q *stet.HistoryQuery, limit int) (int, error) {
			statement, args := s.Reader.Erasing(q, limit)
			return s.forget(ctx, statement, args)
		}}
}

// forget changes rows of the history in one statement, which tells how many.
func (s *Store) forget(ctx context.Context, statement string, args []any) (n int, err error) {
	err = s.write(ctx, func(q Querier) error {
		return each(ctx, q, sqltext.PostgresPlaces(statement), args, func(rows Rows) error { return scan(ctx, rows, &n) })
	})
	return n, err
}
