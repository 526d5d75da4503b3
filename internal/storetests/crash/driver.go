package crash

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5"
)

// openSQL is [sql.Open] with points around whatever goes to the database.
func openSQL(name, dsn string, p *points) (*sql.DB, error) {
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

type connector struct {
	driver driver.Driver
	dsn    string
	p      *points
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
	p *points
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

type tx struct {
	driver.Tx
	p *points
}

func (t tx) Commit() error {
	defer t.p.around("COMMIT")()
	return t.Tx.Commit()
}

func (t tx) Rollback() error {
	defer t.p.around("ROLLBACK")()
	return t.Tx.Rollback()
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	defer c.p.around(label(query))()
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return queried(c.p, query, func() (driver.Rows, error) { return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args) })
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if d, ok := c.Conn.(driver.NamedValueChecker); ok {
		return d.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

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

type stmt struct {
	driver.Stmt
	query string
	p     *points
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	defer s.p.around(label(s.query))()
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return queried(s.p, s.query, func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if d, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return d.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// queried has a third point: SQLite commits a statement that returns rows when the last of them has been read.
func queried(p *points, query string, ask func() (driver.Rows, error)) (driver.Rows, error) {
	name := label(query)
	p.pass(name, before)
	r, err := ask()
	p.pass(name, pending)
	if err != nil {
		return nil, err
	}
	return &rows{r, p, name}, nil
}

type rows struct {
	driver.Rows
	p    *points
	name string
}

func (r *rows) Close() error {
	defer r.p.pass(r.name, after)
	return r.Rows.Close()
}

// tracer has the points of pgx without package database/sql, where transactions begin and end by statements, too.
type tracer struct{ p *points }

type tracing struct{}

func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	name := label(q.SQL)
	t.p.pass(name, before)
	return context.WithValue(ctx, tracing{}, name)
}

func (t tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	name, _ := ctx.Value(tracing{}).(string)
	t.p.pass(name, after)
}

// transport has the points around requests to the provider, whose answer is read to its end before the second.
type transport struct{ p *points }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	name := r.Method + " " + r.URL.Path
	t.p.pass(name, before)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = &answer{res.Body, t.p, name}
	return res, nil
}

type answer struct {
	io.ReadCloser
	p    *points
	name string
}

func (a *answer) Close() error {
	a.p.pass(a.name, after)
	return a.ReadCloser.Close()
}
