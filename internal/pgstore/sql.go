package pgstore

import (
	"context"
	"database/sql"
)

// SQL is a pool or a transaction of database/sql.
type SQL struct {
	On interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
}

// BeginSQL is [Config].Begin on a database.
func BeginSQL(ctx context.Context, db *sql.DB, f func(Querier) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return Fault(ctx, err)
	}
	defer func() { _ = tx.Rollback() }() // it has changed nothing
	return f(SQL{On: tx})
}

// Query implements [Querier].
func (q SQL) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	for i, a := range args {
		args[i] = literal(a)
	}
	rows, err := q.On.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return sqlRows{rows}, nil
}

type sqlRows struct{ *sql.Rows }

// Close leaves its error to Err.
func (r sqlRows) Close() { _ = r.Rows.Close() }

// Scan leaves columns unread, which database/sql cannot.
func (r sqlRows) Scan(dest ...any) error {
	for i, d := range dest {
		if d == nil {
			dest[i] = left{}
		}
	}
	return r.Rows.Scan(dest...)
}

// left takes a column that is not read.
type left struct{}

// Scan implements [sql.Scanner].
func (left) Scan(any) error { return nil }
