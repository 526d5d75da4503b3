package pgxstore

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

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
type pool struct {
	*pgxpool.Pool
	renewed atomic.Int64 // when all connections were given up last
}

// between is the shortest time between two times that a pool gives up its connections: a standby
// that goes on refusing writes still serves reads.
const between = time.Second

// renew gives up all connections if err says that a server takes no writes: the address may lead to
// another one by now, and the connections of before would refuse for as long as they live.
func (p *pool) renew(err error) {
	var coded interface{ SQLState() string }
	if !errors.As(err, &coded) || !pgstore.TakesNoWrites(coded.SQLState()) {
		return
	}
	last, now := p.renewed.Load(), time.Now().UnixNano()
	if now-last >= int64(between) && p.renewed.CompareAndSwap(last, now) {
		p.Reset()
	}
}

func (p *pool) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return nil, &pgstore.NoConnection{Err: err}
	}
	cuts.take(conn.Conn()) // of a statement that was not the store's
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		conn.Release()
		p.renew(err)
		return nil, err
	}
	return &pooledRows{Rows: rows, conn: conn, pool: p}, nil
}

// pooledRows looks, before it gives its connection back, whether the commit was cut short: the
// server says so behind the last row.
type pooledRows struct {
	pgx.Rows
	conn *pgxpool.Conn // nil: given back
	pool *pool
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
	r.pool.renew(r.Rows.Err())
	r.conn = nil
}

func (r *pooledRows) Err() error { return cmp.Or(r.Rows.Err(), r.err) }
