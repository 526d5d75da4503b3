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
func (s *Store) during(op string, call func() error) error {
	err := s.calls.enter()
	if err == nil {
		defer s.calls.leave()
		err = call()
	}
	return s.wrap(op, err)
}

// Due pages through the Heads whose DueAt has passed, earliest first, and by row number where that is the same instant. The
// cursor is an instant and a row number, and holds nothing of keys. Records that cannot be read are left out.
func (s *Store) Due(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	err = s.during("due", func() (err error) { heads, next, err = reader(s.pool).Due(ctx, q); return err })
	return heads, next, err
}

// List pages through records, newest first. The cursor is a row number and holds nothing of keys. Records that cannot be read
// are left out.
func (s *Store) List(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	err = s.during("list", func() (err error) { heads, next, err = reader(s.pool).List(ctx, q); return err })
	return heads, next, err
}

// Count counts records, and stops at q.Limit, which may be above [stet.MaxLimit] here.
func (s *Store) Count(ctx context.Context, q stet.Query) (n int, err error) {
	err = s.during("count", func() (err error) { n, err = reader(s.pool).Count(ctx, q); return err })
	return n, err
}

// Find returns the records that have a downstream name, the newest first. Records that cannot be read are left out.
func (s *Store) Find(ctx context.Context, name string) (heads []stet.Head, err error) {
	err = s.during("find", func() (err error) { heads, err = reader(s.pool).Find(ctx, name); return err })
	return heads, err
}

// History pages through the changes that had a note and what was appended, newest first. A row that cannot be read is
// [stet.ErrCorrupt]: a history with holes in it is no evidence.
func (s *Store) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	err = s.during("history", func() (err error) { changes, next, err = reader(s.pool).History(ctx, q); return err })
	return changes, next, err
}

// Append adds an entry that tells of no change.
func (s *Store) Append(ctx context.Context, c stet.Change) error {
	return s.during("append", func() error { return appendTo(ctx, s.pool, &c) })
}

func (b bound) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	changes, next, err := reader(b.q).History(ctx, q)
	return changes, next, b.s.wrap("history", err)
}

func (b bound) Append(ctx context.Context, c stet.Change) error {
	return b.s.wrap("append", appendTo(ctx, b.q, &c))
}

func appendTo(ctx context.Context, q Querier, c *stet.Change) error {
	return each(ctx, q, sqltext.PostgresAppend, sqltext.PostgresEncoder.Appended(c), func(Rows) error { return nil })
}
