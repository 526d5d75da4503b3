package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/monotonic"
	"github.com/stet-dev/stet/internal/sqltext"
)

// readers are connections with a prepared look-up, made when first needed. The pool of db would do,
// but by default it keeps two idle connections and opens and closes all others around every use.
type readers struct {
	db    *sql.DB
	slots chan *reader // a nil is a connection to be made
	once  sync.Once
	err   error
}

type reader struct {
	conn *sql.Conn
	get  *sql.Stmt
}

func newReaders(db *sql.DB, n int) *readers {
	r := &readers{db: db, slots: make(chan *reader, n)}
	for range n {
		r.slots <- nil
	}
	return r
}

func (r *readers) connect(ctx context.Context) (*reader, error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	get, err := conn.PrepareContext(ctx, sqltext.SQLiteGet)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &reader{conn, get}, nil
}

func (r *reader) close() error { return errors.Join(closeStatements(r.conn, r.get), r.conn.Close()) }

func (s *sqlite) get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if err := ctx.Err(); err != nil {
		return stet.Record{}, err
	}
	var c *reader
	var open bool
	select {
	case c, open = <-s.readers.slots:
	case <-ctx.Done():
		return stet.Record{}, ctx.Err()
	}
	if !open {
		return stet.Record{}, ErrClosed
	}
	defer func() { s.readers.slots <- c }()
	var err error
	if c == nil {
		if c, err = s.readers.connect(ctx); err != nil {
			return stet.Record{}, err
		}
	}
	have, err := getRecord(c.get, s.clock, id)
	if failed(err) { // another connection may do better
		_ = c.close()
		c = nil
	}
	return have, err
}

// close waits for those that read.
func (r *readers) close() error {
	r.once.Do(func() {
		for range cap(r.slots) {
			if c := <-r.slots; c != nil {
				r.err = errors.Join(r.err, c.close())
			}
		}
		close(r.slots)
	})
	return r.err
}

// getRecord reads the record of id with stmt, which selects all columns.
func getRecord(stmt lookUp, clk *monotonic.Clock, id stet.ID) (stet.Record, error) {
	var row sqltext.Row
	if err := one(stmt, id, row.DestBody()); err != nil {
		return stet.Record{}, err
	}
	return row.Record(clk.Micros())
}

// getHead reads the head of id with stmt, which selects the columns of heads.
func getHead(stmt lookUp, clk *monotonic.Clock, id stet.ID) (stet.Head, error) {
	var row sqltext.Row
	if err := one(stmt, id, row.Dest()); err != nil {
		return stet.Head{}, err
	}
	return row.Head(clk.Micros())
}

// one scans the only row of id into dest, or answers [stet.ErrNotFound]. It takes microseconds and
// never waits, so that it has no context: one that may end costs database/sql and the driver a
// goroutine each.
func one(stmt lookUp, id stet.ID, dest []any) error {
	rows, err := stmt.QueryContext(context.Background(), text.ID(nil, id)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return stet.ErrNotFound
	}
	if err := rows.Scan(dest...); err != nil {
		return sqltext.Unread(context.Background(), err)
	}
	return rows.Close()
}

// source is the pool, or a transaction.
type source interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func readSQLite(from source, clk *monotonic.Clock) *sqltext.Reader {
	return &sqltext.Reader{Dialect: sqltext.SQLiteDialect, Clock: clk.Micros,
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			rows, err := from.QueryContext(ctx, statement, args...)
			return sqltext.EachRow(rows, err, row)
		}}
}
