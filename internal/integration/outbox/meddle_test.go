package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
)

// meddler stands between a worker and its database. It is called with each statement, and COMMIT,
// and calls do once to have it carried out; what it returns is what the worker is told.
type meddler func(query string, args []driver.NamedValue, do func() error) error

var errCut = errors.New("the connection was cut")

// meddled is the database as a worker sees it.
func (db *database) meddled(t testing.TB, m meddler) *sql.DB {
	t.Helper()
	d := sql.OpenDB(meddledConnector{db.Driver(), db.dsn, m})
	d.SetMaxIdleConns(32)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

type meddledConnector struct {
	inner driver.Driver
	dsn   string
	m     meddler
}

func (c meddledConnector) Driver() driver.Driver { return c.inner }

func (c meddledConnector) Connect(context.Context) (driver.Conn, error) {
	inner, err := c.inner.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &meddledConn{inner, c.m}, nil
}

type meddledConn struct {
	driver.Conn
	m meddler
}

func (c *meddledConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	return meddledTx{tx, c.m}, err
}

// Direct statements go by way of prepared ones, on all drivers.

func (c *meddledConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	return &meddledStmt{s, query, c.m}, err
}

func (c *meddledConn) CheckNamedValue(v *driver.NamedValue) error { return checkValue(c.Conn, v) }

func checkValue(inner any, v *driver.NamedValue) error {
	if d, ok := inner.(driver.NamedValueChecker); ok {
		return d.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type meddledTx struct {
	driver.Tx
	m meddler
}

func (t meddledTx) Commit() error { return t.m("COMMIT", nil, t.Tx.Commit) }

type meddledStmt struct {
	driver.Stmt
	query string
	m     meddler
}

func (s *meddledStmt) CheckNamedValue(v *driver.NamedValue) error { return checkValue(s.Stmt, v) }

func (s *meddledStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	err = s.m(s.query, args, func() (err error) {
		res, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return res, err
}

func (s *meddledStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = s.m(s.query, args, func() (err error) {
		rows, err = s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
		return err
	})
	if err != nil && rows != nil {
		_ = rows.Close() // carried out, but not told
		rows = nil
	}
	return rows, err
}
