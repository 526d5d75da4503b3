package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet/internal/groupcommit"
)

// lanes are connections that the store holds on to, made when first needed. They are its own
// because it sets them up in ways that the rest of the program need not share, and because they
// keep prepared statements. Besides, a pool keeps two idle connections by default, and opens and
// closes all others around every use.
type lanes struct {
	*stock
	slots chan struct{} // as many as may be in use; closed when the lanes are
	once  sync.Once
}

// stock is the connections of one or several lanes.
type stock struct {
	db     *sql.DB
	setUp  setUp
	tell   func(error) error // makes of an error of the driver one that may be told; nil: as it is
	most   int               // connections at most
	served atomic.Int64      // how often one came back that is well

	mu      sync.Mutex
	idle    []*lane // the last used is the next used: few callers need few connections
	open    int     // idle ones, those in use, and those that are being opened
	waiting []chan *lane
	refused error     // of the server, to which one more was too many
	until   time.Time // when it is asked again
}

// again is how long a server is left alone that has refused one connection more.
const again = 100 * time.Millisecond

// setUp prepares a new connection, or refuses it.
type setUp func(ctx context.Context, c *lane) error

// lane is one of these connections. As a [querier] it prepares what it is sent, and keeps that.
type lane struct {
	raw        *sql.Conn
	used       time.Time
	statements map[string]*sql.Stmt
	broken     bool // what it is in cannot be ended: it is of no use to anybody else
	seen       bool // it leads to the store that it has to lead to
	of         *stock
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
	return (&stock{db: db, setUp: setUp, most: n}).lanes(n)
}

// lanes returns lanes of which n may be in use.
func (s *stock) lanes(n int) *lanes {
	l := &lanes{stock: s, slots: make(chan struct{}, n)}
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
		if l.tell != nil {
			err = l.tell(err)
		}
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
	return l.ready(ctx)
}

// leave lets others have c, or make a connection instead where c is nil.
func (l *lanes) leave(c *lane) {
	if c != nil {
		l.served.Add(1)
		l.put(c)
	}
	l.slots <- struct{}{}
}

// put gives c to the first that waits, or lets it rest.
func (s *stock) put(c *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wake(c) {
		s.idle = append(s.idle, c)
	}
}

// wake reports whether one waits, which then has c; without c it looks again. The stock is locked.
func (s *stock) wake(c *lane) bool {
	if len(s.waiting) == 0 {
		return false
	}
	s.waiting[0] <- c
	s.waiting = s.waiting[1:]
	return true
}

// last returns the connection that was used last, or nil.
func (s *stock) last() (c *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		c, s.idle = s.idle[n-1], s.idle[:n-1]
	}
	return c
}

// ready returns a connection that is well: one that rests, a new one, or the next that others
// leave, where there can be no more.
func (s *stock) ready(ctx context.Context) (*lane, error) {
	for {
		c, err := s.next(ctx)
		switch {
		case err != nil:
			return nil, err
		case c == nil:
			if c, err = s.more(ctx); !crowded(err) {
				return c, err
			}
		case time.Since(c.used) <= stale || c.raw.PingContext(ctx) == nil:
			return c, nil
		default:
			c.discard()
		}
	}
}

// next returns a connection that rests, or nil where one more may be opened. It waits for either.
func (s *stock) next(ctx context.Context) (*lane, error) {
	for {
		c, own, wait, why := s.wait()
		if own == nil {
			return c, nil
		}
		timer := time.NewTimer(wait)
		select {
		case c := <-own:
			if timer.Stop(); c != nil {
				return c, nil
			}
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if c := s.leaveQueue(own); c != nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, cmp.Or(why, ctx.Err())
		}
	}
}

// wait returns a connection that rests, or takes the place of one that is to be opened; or it joins
// those that wait, and says for how long and why.
func (s *stock) wait() (c *lane, own chan *lane, wait time.Duration, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		c, s.idle = s.idle[n-1], s.idle[:n-1]
		return c, nil, 0, nil
	}
	wait = max(time.Until(s.until), time.Millisecond)
	if s.open >= s.most {
		wait = again
	} else if !time.Now().Before(s.until) {
		s.open++
		return nil, nil, 0, nil
	}
	own = make(chan *lane, 1)
	s.waiting = append(s.waiting, own)
	return nil, own, wait, s.refused
}

// leaveQueue ends a wait. It returns the connection that came in that instant, if one did.
func (s *stock) leaveQueue(own chan *lane) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, own); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return nil
	}
	return <-own
}

// more opens a connection, whose place is taken.
func (s *stock) more(ctx context.Context) (c *lane, err error) {
	opened := false
	defer func() { s.ended(opened, err) }() // after a panic in a driver, too
	if c, err = openLane(ctx, s.db, s.setUp); err != nil {
		return nil, err
	}
	c.of, opened = s, true
	return c, nil
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

// ended notes whether a connection could be opened; if not, or if it was closed, its place is free.
func (s *stock) ended(opened bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case crowded(err):
		s.refused, s.until = err, time.Now().Add(again)
	case opened:
		s.refused = nil
	}
	if !opened {
		s.open--
		s.wake(nil)
	}
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
	if c.of != nil {
		c.of.ended(false, nil)
	}
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
