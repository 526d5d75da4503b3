package sqlstore

import (
	"context"
	"database/sql"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// source is the pool, or a transaction.
type source interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func readSQLite(from source, clk *clock) *sqltext.Reader {
	return &sqltext.Reader{Dialect: sqltext.SQLiteDialect, Clock: clk.micros,
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			rows, err := from.QueryContext(ctx, statement, args...)
			return sqltext.EachRow(rows, err, row)
		}}
}

// Due pages through the Heads whose DueAt has passed, earliest first, and in the order of their rows where that is the same
// instant. Records that cannot be read are left out. The cursor is an instant and a row number, and holds nothing of keys.
func (s *sqlite) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := readSQLite(s.db, s.clock).Due(ctx, q)
	return heads, next, wrap("due", err)
}

// List pages through records, newest first. The cursor is a row number and holds nothing of keys. Records that cannot be
// read are left out.
func (s *sqlite) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := readSQLite(s.db, s.clock).List(ctx, q)
	return heads, next, wrap("list", err)
}

// Count counts records, and stops at q.Limit, which may be above [stet.MaxLimit] here.
func (s *sqlite) Count(ctx context.Context, q stet.Query) (int, error) {
	n, err := readSQLite(s.db, s.clock).Count(ctx, q)
	return n, wrap("count", err)
}

// Find returns the records that have a downstream name, the newest first. Records that cannot be read are left out.
func (s *sqlite) Find(ctx context.Context, name string) ([]stet.Head, error) {
	heads, err := readSQLite(s.db, s.clock).Find(ctx, name)
	return heads, wrap("find", err)
}

// History pages through the changes that had a note and what was appended, newest first. A row that cannot be read is
// [stet.ErrCorrupt]: a history with holes in it is no evidence.
func (s *sqlite) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	changes, next, err := readSQLite(s.db, s.clock).History(ctx, q)
	return changes, next, wrap("history", err)
}
