package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stet-dev/stet/internal/groupcommit"
)

// lanes are connections that the store holds on to, made when first needed. They are its own
// because it sets them up in ways that the rest of the program need not share, and because they
// keep prepared statements. Besides, a pool keeps two idle connections by default, and opens and
// closes all others around every use.
type lanes struct {
	db    *sql.DB
	setUp setUp
	slots chan struct{} // as many as there may be connections; closed when the store is

	mu   sync.Mutex
	idle []*lane // the last used is the next used: few callers need few connections
	once sync.Once
}

// setUp prepares a new connection, or refuses it.
type setUp func(ctx context.Context, c *lane) error

// lane is one of these connections. As a [querier] it prepares what it is sent, and keeps that.
type lane struct {
	raw        *sql.Conn
	used       time.Time
	statements map[string]*sql.Stmt
	broken     bool // what it is in cannot be ended: it is of no use to anybody else
}

// querier is a connection, a pool or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (c *lane) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (c *lane) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// maxStatements of a lane: some forms of each verb.
const maxStatements = 32

// statement returns a prepared statement, which costs a server and the wire far less than its text,
// and SQLite the time to compile it.
func (c *lane) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	if s, ok := c.statements[text]; ok {
		return s, nil
	}
	if len(c.statements) >= maxStatements {
		for t, s := range c.statements {
			delete(c.statements, t)
			_ = s.Close() // or the server forgets it with the connection
			break
		}
	}
	s, err := c.raw.PrepareContext(ctx, text)
	if err == nil {
		c.statements[text] = s
	}
	return s, err
}

// stale is how long a connection may rest before it is tried with a ping: a server that was
// restarted would otherwise be noticed by a write, which cannot be told from one that happened.
const stale = time.Second

func newLanes(db *sql.DB, n int, setUp setUp) *lanes {
	l := &lanes{db: db, setUp: setUp, slots: make(chan struct{}, n)}
	for range n {
		l.slots <- struct{}{}
	}
	return l
}

// with calls f with a connection of its own. An error before f is called wraps
// [groupcommit.ErrNothing]. f returns what [fault] has made of its errors, and leaves no
// transaction open, unless its connection is gone.
func (l *lanes) with(ctx context.Context, f func(c *lane) error) (err error) {
	used, err := l.take(ctx)
	switch {
	case err == ErrClosed:
		return err
	case err != nil:
		return groupcommit.Nothing(cause(ctx, err))
	}
	var c *lane
	defer func() { l.leave(c) }() // without a connection after a panic in a driver, too
	switch err = f(used); {
	case gone(err) || used.broken:
		err = cause(ctx, err)
	case unforeseen(err):
	case ctx.Err() != nil && !used.valid(): // in the last instant a driver closes the connection behind an answer that it returns
	default:
		used.used = time.Now()
		c = used
		return err
	}
	used.discard()
	return err
}

// cause names the end of ctx, where a driver only says that the connection it has closed for that
// is bad.
func cause(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

// take waits for a connection, which the caller has to leave.
func (l *lanes) take(ctx context.Context) (c *lane, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case _, open := <-l.slots:
		if !open {
			return nil, ErrClosed
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() {
		if c == nil { // after a panic in a driver, too
			l.leave(nil)
		}
	}()
	return l.ready(ctx, l.last())
}

// leave lets others have c, or make a connection instead where c is nil.
func (l *lanes) leave(c *lane) {
	if c != nil {
		l.mu.Lock()
		l.idle = append(l.idle, c)
		l.mu.Unlock()
	}
	l.slots <- struct{}{}
}

// last returns the connection that was used last, or nil.
func (l *lanes) last() (c *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle); n > 0 {
		c, l.idle = l.idle[n-1], l.idle[:n-1]
	}
	return c
}

// ready returns c if it is well, or a new connection.
func (l *lanes) ready(ctx context.Context, c *lane) (*lane, error) {
	if c != nil && time.Since(c.used) > stale && c.raw.PingContext(ctx) != nil {
		c.discard()
		c = nil
	}
	if c != nil {
		return c, nil
	}
	return openLane(ctx, l.db, l.setUp)
}

func openLane(ctx context.Context, db *sql.DB, setUp setUp) (*lane, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &lane{raw: conn, used: time.Now(), statements: map[string]*sql.Stmt{}}
	if err := setUp(ctx, c); err != nil {
		c.discard()
		return nil, err
	}
	return c, nil
}

// valid asks the driver whether the connection is open; one that cannot say so may have closed it.
func (c *lane) valid() bool {
	return c.raw.Raw(func(conn any) error {
		if v, ok := conn.(driver.Validator); ok && v.IsValid() {
			return nil
		}
		return driver.ErrBadConn
	}) == nil
}

// discard closes the connection itself, and with it whatever transaction it is in: the pool shall
// not have it back. Statements of a connection that database/sql has closed by itself are left
// alone: modernc.org/sqlite panics on them.
func (c *lane) discard() {
	if c.raw.Raw(func(any) error { return nil }) == nil {
		for _, s := range c.statements {
			_ = s.Close()
		}
	}
	_ = c.raw.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.raw.Close()
}

// close waits for those that are in use. The connections are closed, not given back: they are set
// up as others may not expect.
func (l *lanes) close() {
	l.once.Do(func() {
		for range cap(l.slots) {
			<-l.slots
		}
		close(l.slots)
		for c := l.last(); c != nil; c = l.last() {
			c.discard()
		}
	})
}
