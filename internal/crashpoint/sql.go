package crashpoint

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// OpenSQL is [sql.Open] with points around whatever goes to the database. The driver has to be of today's kind: its connections
// begin, execute and query with a context.
func OpenSQL(name, dsn string, p *Points) (*sql.DB, error) {
	db, err := sql.Open(name, dsn)
	if err != nil {
		return nil, err
	}
	d := db.Driver()
	if err := db.Close(); err != nil {
		return nil, err
	}
	return sql.OpenDB(connector{d, dsn, p}), nil
}

// query is for statements that return rows: it ends with them.
func (p *Points) query(statement string, ask func() (driver.Rows, error)) (driver.Rows, error) {
	what := label(statement)
	end := p.around(what)
	r, err := ask()
	p.pass(what, Pending)
	if err != nil {
		end()
		return nil, err
	}
	return &rows{r, end}, nil
}

type rows struct {
	driver.Rows
	end func()
}

func (r *rows) Close() error {
	defer r.end()
	return r.Rows.Close()
}

type connector struct {
	driver driver.Driver
	dsn    string
	p      *Points
}

func (c connector) Driver() driver.Driver { return c.driver }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	inner, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &conn{inner, c.p}, nil
}

// conn offers what package database/sql looks for, as far as the driver's connection does.
type conn struct {
	driver.Conn
	p *Points
}

func (c *conn) PrepareContext(ctx context.Context, query string) (s driver.Stmt, err error) {
	if d, ok := c.Conn.(driver.ConnPrepareContext); ok {
		s, err = d.PrepareContext(ctx, query)
	} else {
		s, err = c.Prepare(query)
	}
	if err != nil {
		return nil, err
	}
	return &stmt{s, query, c.p}, nil
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	defer c.p.around("BEGIN")()
	t, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return tx{t, c.p}, nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	defer c.p.Around(query)()
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.p.query(query, func() (driver.Rows, error) { return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args) })
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error { return check(c.Conn, v) }

func (c *conn) ResetSession(ctx context.Context) error {
	if d, ok := c.Conn.(driver.SessionResetter); ok {
		return d.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	d, ok := c.Conn.(driver.Validator)
	return !ok || d.IsValid()
}

// check lets the driver convert what it can, and package database/sql the rest.
func check(inner any, v *driver.NamedValue) error {
	if d, ok := inner.(driver.NamedValueChecker); ok {
		return d.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type tx struct {
	driver.Tx
	p *Points
}

func (t tx) Commit() error {
	defer t.p.around("COMMIT")()
	return t.Tx.Commit()
}

func (t tx) Rollback() error {
	defer t.p.around("ROLLBACK")()
	return t.Tx.Rollback()
}

type stmt struct {
	driver.Stmt
	query string
	p     *Points
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	defer s.p.Around(s.query)()
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.p.query(s.query, func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error { return check(s.Stmt, v) }
