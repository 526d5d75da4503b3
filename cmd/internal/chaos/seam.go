package chaos

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net"
	"net/http"
)

// openDB is sql.Open with a point before whatever goes to the database.
func openDB(dsn string, p *points) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn)
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

// conn offers what package database/sql looks for, and the driver's connection has.
type conn struct {
	driver.Conn
	p *points
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &stmt{s, query, c.p}, nil
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	defer c.p.pass("BEGIN")()
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
	defer t.p.pass("COMMIT")()
	return t.Tx.Commit()
}

func (t tx) Rollback() error {
	defer t.p.pass("ROLLBACK")()
	return t.Tx.Rollback()
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	defer c.p.pass(name(query))()
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return queried(c.p, query, func() (driver.Rows, error) { return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args) })
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
	defer s.p.pass(name(s.query))()
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return queried(s.p, s.query, func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

// queried ends with the rows: SQLite commits a statement that returns some when the last has been read.
func queried(p *points, query string, ask func() (driver.Rows, error)) (driver.Rows, error) {
	done := p.pass(name(query))
	r, err := ask()
	if err != nil {
		done()
		return nil, err
	}
	return &rows{r, done}, nil
}

type rows struct {
	driver.Rows
	done func()
}

func (r *rows) Close() error {
	defer r.done()
	return r.Rows.Close()
}

// requests is a transport with the points of requests: before each, and when it is on its way to a provider that will carry it out
// while nobody is there to hear the answer. net/http tells of a request before it has left ([httptrace.ClientTrace]), so that the
// second is found below it.
func requests(p *points) http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return line{c, p}, nil
	}
	return transport{t, p}
}

const answerPoint = "the provider's answer"

type line struct {
	net.Conn
	p *points
}

func (l line) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(b)
	l.p.pass(answerPoint)()
	return n, err
}

type transport struct {
	http.RoundTripper
	p *points
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	defer t.p.pass(r.Method + " " + r.URL.Path)()
	return t.RoundTripper.RoundTrip(r)
}
