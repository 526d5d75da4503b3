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

// lanes are connections that the store holds on to, made when first needed. They are its own because it sets them up: an
// isolation level, a limit of waiting and a sql_mode that the rest of the program need not share.
type lanes struct {
	db    *sql.DB
	setUp []string
	slots chan struct{} // as many as there may be connections; closed when the store is

	mu   sync.Mutex
	idle []*lane // the last used is the next used: few callers need few connections
	once sync.Once
}

type lane struct {
	*sql.Conn
	used       time.Time
	statements map[string]*sql.Stmt
	broken     bool // what it is in cannot be ended: it is of no use to anybody else
}

// maxStatements of a lane: some forms of each verb.
const maxStatements = 32

// statement returns a prepared statement, which costs the server and the wire far less than its text.
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
	s, err := c.PrepareContext(ctx, text)
	if err == nil {
		c.statements[text] = s
	}
	return s, err
}

// stale is how long a connection may rest before it is tried with a ping: a server that was restarted would otherwise be
// noticed by a write, which cannot be told from one that happened.
const stale = time.Second

func newLanes(db *sql.DB, n int, setUp []string) *lanes {
	l := &lanes{db: db, setUp: setUp, slots: make(chan struct{}, n)}
	for range n {
		l.slots <- struct{}{}
	}
	return l
}

// with calls f with a connection that nobody else uses meanwhile. An error before f is called is [errNothing]. f returns what
// [fault] has made of its errors, and leaves no transaction open, unless its connection is gone.
func (l *lanes) with(ctx context.Context, f func(c *lane) error) (err error) {
	if err := l.enter(ctx); err != nil {
		return err
	}
	var c *lane
	defer func() { l.leave(c) }() // without a connection after a panic in a driver, too
	used, err := l.ready(ctx, l.last())
	if err != nil {
		err = cause(ctx, err)
		return groupcommit.Nothing(err)
	}
	if err = f(used); gone(err) || used.broken {
		used.discard()
		return cause(ctx, err)
	}
	if unforeseen(err) {
		used.discard()
		return err
	}
	if ctx.Err() != nil && !used.valid() { // in the last instant a driver closes the connection behind an answer that it returns
		used.discard()
		return err
	}
	used.used = time.Now()
	c = used
	return err
}

// cause names the end of ctx, where a driver only says that the connection it has closed for that is bad.
func cause(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

func (l *lanes) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return groupcommit.Nothing(err)
	}
	select {
	case _, open := <-l.slots:
		if !open {
			return ErrClosed
		}
		return nil
	case <-ctx.Done():
		return groupcommit.Nothing(ctx.Err())
	}
}

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
	if c != nil && time.Since(c.used) > stale && c.PingContext(ctx) != nil {
		c.discard()
		c = nil
	}
	if c != nil {
		return c, nil
	}
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range l.setUp {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			(&lane{Conn: conn}).discard()
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	return &lane{Conn: conn, used: time.Now(), statements: map[string]*sql.Stmt{}}, nil
}

// valid asks the driver whether the connection is open; one that cannot say so may have closed it.
func (c *lane) valid() bool {
	return c.Raw(func(conn any) error {
		if v, ok := conn.(driver.Validator); ok && v.IsValid() {
			return nil
		}
		return driver.ErrBadConn
	}) == nil
}

// discard closes the connection itself, and with it whatever transaction it is in: the pool shall not have it back.
func (c *lane) discard() {
	_ = c.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.Close()
}

// close waits for those that are in use. The connections are closed, not given back: they are set up as others may not expect.
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
