// Package pgstore keeps records in Postgres, over an interface that database/sql and pgx both fill:
// it is what store/sqlstore and store/pgxstore share.
package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/storeid"
	"github.com/stet-dev/stet/internal/tablestore"
)

// Querier sends a statement. If it is a pool, each statement is a transaction of its own, and any
// number of goroutines may use it at once. Arguments are strings, integers, booleans, bytes, nil,
// and slices of these.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
}

// Rows are the rows of an answer. Close may be called more than once. A row may be scanned more
// than once, and a nil leaves its column unread.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// MaxLockTimeout is the most that Postgres takes as lock_timeout.
const MaxLockTimeout = math.MaxInt32 * time.Millisecond

// Config configures a [Store].
type Config struct {
	Package string // whose name errors begin with
	// LockTimeout bounds how long a bound store waits for a row that another transaction holds. 0:
	// the session's setting counts.
	LockTimeout time.Duration // at most [MaxLockTimeout]
	// Listen waits for notifications on a channel until ctx ends or its connection breaks. It calls
	// ready when it listens, and then heard with the payload of each. Nil: callers of Wait poll.
	Listen func(ctx context.Context, channel string, ready func(), heard func(payload string)) error
	// Bind returns the Querier that tx is, or false. notes are kept with its connection; nil where
	// that cannot be told.
	Bind func(tx any) (q Querier, notes map[string]any, ok bool)
	// Begin calls f in a transaction that only reads, and sees one moment.
	Begin func(ctx context.Context, f func(Querier) error) error
	// Volatile accepts a server that may lose acknowledged writes. Otherwise Open and Check return
	// [stet.ErrVolatile].
	Volatile bool
	// Closed is the error of a store that is used after Close.
	Closed error
}

// These are embedded without being exported.
type (
	listing = tablestore.Listing
	verbs   = tablestore.Verbs[*op]
	forgets = tablestore.Forgetting
)

// Store is a store in Postgres.
type Store struct {
	listing
	verbs
	forgets
	gate storeid.Gate
	pool Querier
	cfg  Config

	queues     [tablestore.FirstOwn]*groupcommit.Queue[*op] // nil for a verb that is never grouped
	whoAmI     string                                       // a statement
	identity   atomic.Value                                 // a string: which database this is
	repeats    repeats
	held       groupcommit.Held[stet.ID]
	suspects   groupcommit.Held[stet.ID]            // that may be held: only Creates stay out of groups
	reaped     [len(tablestore.Reaped)]atomic.Value // a place: how far each state was walked
	compared   atomic.Int64                         // pages of rows, with the index by names
	turns      chan struct{}                        // who waits for a row in the server
	outwaiting atomic.Int64                         // how many wait for one, there or for their turn
	calls      calls
	bell       *bell // nil without Listen
}

var (
	_ stet.Store     = (*Store)(nil)
	_ stet.Waiter    = (*Store)(nil)
	_ stet.Lister    = (*Store)(nil)
	_ stet.Counter   = (*Store)(nil)
	_ stet.Finder    = (*Store)(nil)
	_ stet.Historian = (*Store)(nil)
	_ stet.Forgetter = (*Store)(nil)
	_ stet.Binder    = (*Store)(nil)
	_ stet.Reaper    = (*Store)(nil)
	_ stet.Checker   = (*Store)(nil)
	_ stet.Sizer     = (*Store)(nil)
	_ io.Closer      = (*Store)(nil)

	_ stet.Identified = (*Store)(nil)
)

// Open checks the settings that the store's promises rest on.
func Open(ctx context.Context, pool Querier, c Config) (*Store, error) {
	if err := check(ctx, pool, c.Volatile); err != nil {
		return nil, fmt.Errorf("%s: open: %w", c.Package, err)
	}
	s := newStore(pool, c)
	if err := s.identify(ctx); err != nil {
		return nil, fmt.Errorf("%s: open: which database this is: %w", c.Package, err)
	}
	if err := s.gate.Open(ctx); err != nil {
		return nil, fmt.Errorf("%s: open: %w", c.Package, err)
	}
	return s, nil
}

func newStore(pool Querier, c Config) *Store {
	s := &Store{pool: pool, cfg: c, turns: make(chan struct{}, maxPatient), calls: calls{closed: c.Closed}}
	s.calls.ctx, s.calls.end = context.WithCancel(context.Background())
	s.gate.Look, s.gate.Make, s.gate.Raise = s.lookAt, s.makeIdentity, s.raise
	s.listing = listing{Reading: tablestore.Reading{Reader: reader(pool), Around: s.during}}
	s.verbs = tablestore.NewVerbs(tablestore.Driver[*op]{New: newOp, Pack: (*op).pack, Do: s.carry, Wrap: s.wrap,
		Get: func(ctx context.Context, id stet.ID) (r stet.Record, err error) {
			err = s.on(func(q Querier) (err error) { r, err = get(ctx, q, id); return err })
			return r, err
		},
		Append: func(ctx context.Context, c *stet.Change) error {
			return s.write(ctx, func(q Querier) error { return appendTo(ctx, q, c) })
		}})
	s.forgets = s.forgetting()
	for _, verb := range []tablestore.Verb{tablestore.Create, tablestore.ReplaceHead, tablestore.ReplaceAll} {
		s.queues[verb] = s.queue()
	}
	if c.Listen != nil {
		s.bell = &bell{store: s}
	}
	return s
}

// maxBody is how many bytes of a body are stored: a server could not send more as text.
const maxBody = 500 << 20

// Sizes implements [stet.Sizer]. Scope and key share a row of an index with an id, on a page of 8
// KiB: 2,704 bytes.
func (s *Store) Sizes() stet.Sizes { return stet.Sizes{Names: 2600, Body: maxBody} }

// Close waits for the calls that have begun, and refuses new ones. The pool stays open. The second
// Close does nothing.
func (s *Store) Close() error {
	s.calls.close()
	s.gate.Close()
	for _, q := range s.queues {
		if q != nil {
			q.Close() // a group may outlive its callers
		}
	}
	return nil
}

// wrap names the operation of an error that is not one of the plain answers.
func (s *Store) wrap(op string, err error) error {
	return tablestore.Wrap(s.cfg.Package, op, err)
}

// calls counts what is going on, for Close to wait for.
type calls struct {
	mu     sync.Mutex
	closed error
	ctx    context.Context // ends with the store
	end    context.CancelFunc
	busy   sync.WaitGroup
}

// enter begins a call, which has to leave.
func (c *calls) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return c.closed
	}
	c.busy.Add(1)
	return nil
}

func (c *calls) leave() { c.busy.Done() }

func (c *calls) close() {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.busy.Wait()
}

func get(ctx context.Context, q Querier, id stet.ID) (r stet.Record, err error) {
	found := stet.ErrNotFound
	args := append(sqltext.PostgresEncoder.ID(make([]any, 0, 3), id), stet.MaxBody(ctx))
	err = eachRow(ctx, q, sqltext.PostgresGet, args, (*sqltext.Row).DestBody, func(row *sqltext.Row, now int64) {
		r, found = row.Record(now)
	})
	return r, cmp.Or(err, found)
}

// eachRow reads records, or heads.
func eachRow(
	ctx context.Context, q Querier, sql string, args []any, dest func(*sqltext.Row) []any, visit func(row *sqltext.Row, now int64),
) error {
	return each(ctx, q, sql, args, func(rows Rows) error {
		row, now := sqltext.PostgresDialect.Row(), int64(0)
		if err := scan(ctx, rows, append([]any{&now}, dest(&row)...)...); err != nil {
			return err
		}
		visit(&row, now)
		return nil
	})
}

// each reads the rows of an answer. An error of visit ends that, and is returned.
func each(ctx context.Context, q Querier, sql string, args []any, visit func(Rows) error) error {
	if err := ctx.Err(); err != nil {
		return groupcommit.Nothing(err)
	}
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return Fault(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows); err != nil {
			return err
		}
	}
	rows.Close()
	return Fault(ctx, rows.Err())
}

// scan reads a row, or says why not: see [sqltext.Unread].
func scan(ctx context.Context, rows Rows, dest ...any) error {
	err := rows.Scan(dest...)
	if err == nil {
		return nil
	}
	if err = sqltext.Unread(ctx, err); errors.Is(err, stet.ErrCorrupt) {
		return err
	}
	return Fault(ctx, err)
}

func reader(q Querier) *sqltext.Reader {
	return &sqltext.Reader{Dialect: sqltext.PostgresDialect,
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			return each(ctx, q, sqltext.PostgresPlaces(statement), args, func(rows Rows) error { return row(rows) })
		}}
}

// on makes a call that Close waits for.
func (s *Store) on(call func(q Querier) error) error {
	if err := s.calls.enter(); err != nil {
		return err
	}
	defer s.calls.leave()
	return call(s.pool)
}

// write makes a call that Close waits for, if the store is the one that it was.
func (s *Store) write(ctx context.Context, call func(q Querier) error) error {
	return s.on(func(q Querier) error {
		if err := s.gate.Write(ctx); err != nil {
			return err
		}
		return call(q)
	})
}

// during makes a call that Close waits for, named op.
func (s *Store) during(ctx context.Context, op string, call func(context.Context) error) error {
	return s.wrap(op, s.on(func(Querier) error { return call(ctx) }))
}

func appendTo(ctx context.Context, q Querier, c *stet.Change) error {
	return each(ctx, q, sqltext.PostgresAppend, sqltext.PostgresEncoder.Appended(c), func(Rows) error { return nil })
}
