// Package pgxstore keeps records in Postgres through pgx v5: its pools, and its transactions.
//
//	pool, err := pgxpool.New(ctx, dsn)
//	...
//	err = pgxstore.Migrate(ctx, pool)
//	...
//	store, err := pgxstore.Open(ctx, pool, pgxstore.Config{})
//
// It is the store that package sqlstore has for database/sql: the same table, which both can use at once, as can any number of
// processes on any number of hosts. Each write is one statement; concurrent ones of a process share statements, and with them
// the wait for the server's disk, while a lone one goes straight through. The clock is the server's. What was acknowledged
// survives a crash of the server, whose settings are checked for that (fsync, full_page_writes, synchronous_commit), and a failover
// as far as the standby that takes over had it (synchronous_standby_names): see docs/stores.md.
//
// Behind pgbouncer in transaction mode set pgx's QueryExecMode to cache_describe, exec or simple_protocol
// (?default_query_exec_mode=cache_describe), because statements prepared on one connection are not there on the next; and give
// a [Config.ListenDSN] that goes around the pooler.
//
// For people there is the view stet_keys:
//
//	=> SELECT key, state, status, created_at FROM stet_keys WHERE state = 'unknown';
package pgxstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/pgstore"
)

// Store is a [stet.Store] in Postgres, with all the optional abilities. It is safe for concurrent use. Bind takes a [pgx.Tx],
// and a [*database/sql.Tx] of any driver for Postgres.
type Store struct {
	*pgstore.Store
}

var (
	_ stet.Store     = (*Store)(nil)
	_ stet.Waiter    = (*Store)(nil)
	_ stet.Lister    = (*Store)(nil)
	_ stet.Counter   = (*Store)(nil)
	_ stet.Finder    = (*Store)(nil)
	_ stet.Historian = (*Store)(nil)
	_ stet.Binder    = (*Store)(nil)
	_ stet.Reaper    = (*Store)(nil)
	_ stet.Checker   = (*Store)(nil)
	_ stet.Closer    = (*Store)(nil)
)

// Config is how a [Store] works. The zero value does.
type Config struct {
	// ListenDSN is where those who wait for a record are told of changes (LISTEN), on one connection for the store. Default: as
	// the pool connects. A connection through a pooler cannot listen; then, and while it is broken, those who wait look again
	// and again, every 25 ms at first and every second in the end.
	ListenDSN string
	// LockTimeout bounds how long a store bound to a transaction waits for a row that another transaction holds. It is a
	// setting of the transaction from then on (lock_timeout). 0 leaves the setting as it is.
	LockTimeout time.Duration
	// AllowVolatile takes a server that may lose in a crash what it acknowledged (fsync, full_page_writes or synchronous_commit is
	// off), where a forgotten key may run again. Otherwise such a server is [stet.ErrVolatile], at Open and at Check.
	AllowVolatile bool
}

// ErrClosed: the store was used after Close.
var ErrClosed = errors.New("pgxstore: the store is closed")

// ErrSchema: the database's schema is not the one this program works with. The error that wraps it says what to do.
var ErrSchema = errors.New("pgxstore: the schema does not fit")

// Open returns a store on a database that [Migrate] has prepared. It checks the settings that the store's promises rest on, and
// an error says what to set. The caller owns the pool and closes it after the store. The store holds on to no connection of it,
// and uses up to six for groups of writes, beside one for each write or look-up that goes alone: 16 or more are a good size.
func Open(ctx context.Context, pool *pgxpool.Pool, c Config) (*Store, error) {
	if c.LockTimeout < 0 {
		return nil, fmt.Errorf("pgxstore: config: LockTimeout is %s", c.LockTimeout)
	}
	listener := pool.Config().ConnConfig
	if c.ListenDSN != "" {
		var err error
		if listener, err = pgx.ParseConfig(c.ListenDSN); err != nil {
			return nil, errors.New("pgxstore: config: ListenDSN cannot be read") // it may hold a password
		}
	}
	have, want, err := Status(ctx, pool)
	switch {
	case err != nil:
		return nil, err
	case have > want:
		return nil, newer(have, want)
	case have < want:
		return nil, fmt.Errorf("%w: it has version %d, and %d is needed; run `stet migrate up`, or pgxstore.Migrate", ErrSchema, have, want)
	}
	s, err := pgstore.Open(ctx, querier{pool}, pgstore.Config{Package: "pgxstore", Closed: ErrClosed, LockTimeout: c.LockTimeout,
		Volatile: c.AllowVolatile,
		Listen:   listen(listener),
		Bind: func(tx any) (pgstore.Querier, map[string]any, bool) {
			if t, ok := tx.(*sql.Tx); ok {
				return pgstore.SQL{On: t}, nil, t != nil
			}
			t, ok := tx.(pgx.Tx)
			if !ok || t == nil {
				return nil, nil, false
			}
			var notes map[string]any
			if conn := t.Conn(); conn != nil {
				notes = conn.PgConn().CustomData()
			}
			return querier{t}, notes, true
		}})
	if err != nil {
		return nil, err
	}
	return &Store{s}, nil
}

// In is [stet.Claim.In] for a [pgx.Tx]: what the claim writes from here on is part of tx, which has to be on the database that
// holds the records. The compiler sees to its type.
func In(claim *stet.Claim, tx pgx.Tx) error { return claim.In(tx) }

// Migrate brings the schema up to date in one transaction, and does nothing where it is. Any number of processes may do so at
// once. A schema of a newer program is [ErrSchema].
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	have, want, err := Status(ctx, pool)
	switch {
	case err != nil:
		return err
	case have > want:
		return newer(have, want)
	case have == want:
		return nil
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return pgstore.Migrate(ctx, querier{tx}) })
	if err != nil {
		return fmt.Errorf("pgxstore: migrate: %w", err)
	}
	return nil
}

// Status returns the number of the last step the database has taken, 0 for none, and of the last one this program knows. It
// changes nothing.
func Status(ctx context.Context, pool *pgxpool.Pool) (have, want int, err error) {
	if have, want, err = pgstore.Status(ctx, querier{pool}); err != nil {
		return 0, 0, fmt.Errorf("pgxstore: %w", err)
	}
	return have, want, nil
}

func newer(have, want int) error {
	return fmt.Errorf("%w: a newer program has made it version %d; this one knows %d", ErrSchema, have, want)
}

// querier is a pool or a transaction of pgx.
type querier struct {
	pgx interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
}

func (q querier) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	return q.pgx.Query(ctx, sql, args...)
}
