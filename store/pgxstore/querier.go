package pgxstore

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet/internal/pgstore"
)

// querier is a transaction of pgx.
type querier struct{ tx pgx.Tx }

func (q querier) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	return q.tx.Query(ctx, sql, args...)
}

// pool is a pool of pgx, in which each statement is a transaction of its own.
type pool struct{ *pgxpool.Pool }

func (p pool) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return nil, &pgstore.NoConnection{Err: err}
	}
	cuts.take(conn.Conn()) // of a statement that was not the store's
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &pooledRows{Rows: rows, conn: conn}, nil
}

// pooledRows looks, before it gives its connection back, whether the commit was cut short: the
// server says so behind the last row.
type pooledRows struct {
	pgx.Rows
	conn *pgxpool.Conn // nil: given back
	err  error
}

func (r *pooledRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *pooledRows) Close() {
	if r.conn == nil {
		return
	}
	r.Rows.Close()
	if cuts.take(r.conn.Conn()) {
		r.err = pgstore.ErrCut
	}
	r.conn.Release()
	r.conn = nil
}

func (r *pooledRows) Err() error { return cmp.Or(r.Rows.Err(), r.err) }
