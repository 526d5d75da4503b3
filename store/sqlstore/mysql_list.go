package sqlstore

import (
	"context"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

func readMySQL(c querier) *sqltext.Reader {
	return &sqltext.Reader{Dialect: sqltext.MySQLDialect,
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			q := new(sqltext.MySQL).Fill(statement, args...)
			rows, err := c.QueryContext(ctx, string(q.Text), q.Args...)
			return fault(sqltext.EachRow(rows, err, row))
		}}
}

// Due pages through the Heads whose DueAt has passed, earliest first, and by `id` where that is the same instant. The cursor
// tells nothing of keys. Records that cannot be read are left out.
func (s *mysql) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := readMySQL(s.db).Due(ctx, q)
	return heads, next, wrap("due", err)
}

// List pages through records, newest first. The cursor tells nothing of keys. Records that cannot be read are left out.
func (s *mysql) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := readMySQL(s.db).List(ctx, q)
	return heads, next, wrap("list", err)
}

// Count counts records, and stops at q.Limit, which may be above [stet.MaxLimit] here.
func (s *mysql) Count(ctx context.Context, q stet.Query) (int, error) {
	n, err := readMySQL(s.db).Count(ctx, q)
	return n, wrap("count", err)
}

// Find returns the records that have a downstream name, the newest first. Records that cannot be read are left out.
func (s *mysql) Find(ctx context.Context, name string) ([]stet.Head, error) {
	heads, err := readMySQL(s.db).Find(ctx, name)
	return heads, wrap("find", err)
}

// History pages through the changes that had a note and what was appended, newest first.
func (s *mysql) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	changes, next, err := readMySQL(s.db).History(ctx, q)
	return changes, next, wrap("history", err)
}
