package pgstore

import (
	"context"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

func reader(q Querier) *sqltext.Reader {
	return &sqltext.Reader{Dialect: sqltext.PostgresDialect,
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			return each(ctx, q, sqltext.PostgresPlaces(statement), args, func(rows Rows) error { return row(rows) })
		}}
}

// on makes a call that Close waits for.
func (s *Store) on(call func(q Querier) error) error {
	if err := s.calls.enter(); err != nil {
		return err
	}
	defer s.calls.leave()
	return call(s.pool)
}

// during makes a call that Close waits for, named op.
func (s *Store) during(ctx context.Context, op string, call func(context.Context) error) error {
	return s.wrap(op, s.on(func(Querier) error { return call(ctx) }))
}

func appendTo(ctx context.Context, q Querier, c *stet.Change) error {
	return each(ctx, q, sqltext.PostgresAppend, sqltext.PostgresEncoder.Appended(c), func(Rows) error { return nil })
}
