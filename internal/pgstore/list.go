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

// during makes a call that Close waits for.
func (s *Store) during(ctx context.Context, op string, call func(context.Context) error) error {
	err := s.calls.enter()
	if err == nil {
		defer s.calls.leave()
		err = call(ctx)
	}
	return s.wrap(op, err)
}

// Append adds an entry that tells of no change.
func (s *Store) Append(ctx context.Context, c stet.Change) error {
	return s.during(ctx, "append", func(ctx context.Context) error { return appendTo(ctx, s.pool, &c) })
}

func (b *bound) Append(ctx context.Context, c stet.Change) error {
	return b.s.wrap("append", appendTo(ctx, b.q, &c))
}

func appendTo(ctx context.Context, q Querier, c *stet.Change) error {
	return each(ctx, q, sqltext.PostgresAppend, sqltext.PostgresEncoder.Appended(c), func(Rows) error { return nil })
}
