// Package pgxstore keeps records in Postgres through pgx v5: its pools, and its transactions.
//
//	config, err := pgxpool.ParseConfig(dsn)
//	...
//	pgxstore.Prepare(config)
//	pool, err := pgxpool.NewWithConfig(ctx, config)
//	...
//	err = pgxstore.Migrate(ctx, pool)
//	...
//	store, err := pgxstore.Open(ctx, pool, pgxstore.Config{})
//
// It is the store that package sqlstore has for database/sql, on the same table. Both may use it at
// once, as may any number of processes on any number of hosts. Each write is one statement.
// Concurrent writes of a process share statements, and so the wait for the server's disk; a lone
// write is sent at once. The server's clock counts.
//
// Acknowledged writes survive a crash of the server: Open checks the settings for that (fsync,
// full_page_writes, synchronous_commit). After a failover they are there as far as the standby that
// takes over has received them (synchronous_standby_names): see docs/stores.md.
//
// Behind pgbouncer in transaction mode, a statement that is prepared on one connection is missing
// on the next. Set pgx's QueryExecMode to cache_describe, exec or simple_protocol
// (?default_query_exec_mode=cache_describe), and give a [Config.ListenDSN] that bypasses the
// pooler.
//
// Operators can read the view stet_keys:
//
//	=> SELECT key, state, status, created_at FROM stet_keys WHERE state = 'unknown';
package pgxstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/pgstore"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Store is a [stet.Store] in Postgres, with all the optional abilities. It is safe for concurrent
// use. Bind takes a [pgx.Tx], and a [*database/sql.Tx] of any driver for Postgres.
type Store struct {
	*pgstore.Store
}

// Config configures a [Store]. The zero value is ready to use.
type Config struct {
	// ListenDSN is the address of the one connection on which the store is notified of changes
	// (LISTEN). Default: the address of the pool. A connection through a pooler cannot listen.
	// Then, and while the connection is broken, callers that wait for a record poll, every 25 ms at
	// first and every second in the end.
	ListenDSN string
	// LockTimeout bounds how long a store bound to a transaction waits for a row that another
	// transaction holds. It sets lock_timeout for the rest of the transaction, in whole
	// milliseconds. Default 0: the session's setting counts.
	LockTimeout time.Duration
	// AllowVolatile accepts a server that may lose acknowledged writes in a crash, because fsync,
	// full_page_writes or synchronous_commit is off. A key that is lost may run again. Default
	// false: Open and Check refuse such a server with [stet.ErrVolatile].
	AllowVolatile bool
}

var configBounds = bounds.For[Config](
	bounds.Duration("LockTimeout", bounds.Short, pgstore.MaxLockTimeout).Or("0 for the session's", 0),
)

// ErrClosed is returned when a store is used after Close.
var ErrClosed = errors.New("pgxstore: the store is closed")

// ErrSchema is returned when the database's schema is not the one that this program works with. The
// error that wraps it says what to do.
var ErrSchema = errors.New("pgxstore: the schema does not fit")

// Open returns a store on a database that [Migrate] has prepared. It checks the settings that the
// store's promises depend on; an error says which setting to change. The caller owns the pool and
// closes it after the store. The store keeps no connection of the pool. It uses up to six for
// groups of writes, and one for each write or look-up that goes alone; a pool of 16 or more is a
// good size. When a server answers that it takes no writes, the pool is reset, at most once a second: its
// address may lead to another server by now.
func Open(ctx context.Context, p *pgxpool.Pool, c Config) (*Store, error) {
	if err := configBounds.Check(&c); err != nil {
		return nil, err
	}
	listener := p.Config().ConnConfig
	if c.ListenDSN != "" {
		var err error
		if listener, err = pgx.ParseConfig(c.ListenDSN); err != nil {
			return nil, errors.New("pgxstore: config: ListenDSN is not a valid address; write it as the address of the pool") // it may hold a password
		}
	}
	is, err := schemaOf(ctx, p)
	if err = cmp.Or(err, is.Check("pgxstore", ErrSchema)); err != nil {
		return nil, err
	}
	s, err := pgstore.Open(ctx, &pool{Pool: p}, pgstore.Config{Package: "pgxstore", Closed: ErrClosed, LockTimeout: c.LockTimeout,
		Volatile: c.AllowVolatile,
		Listen:   listen(listener),
		Begin: func(ctx context.Context, f func(pgstore.Querier) error) error {
			tx, err := p.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
			if err != nil {
				return pgstore.Fault(ctx, err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it has changed nothing
			return f(querier{tx})
		},
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

// In is [stet.Claim.In] for a [pgx.Tx], checked by the compiler: from here on the claim writes
// within tx, which must be on the database that holds the records.
func In(claim *stet.Claim, tx pgx.Tx) error { return claim.In(tx) }

// Migrate brings the schema up to date in one transaction, if it is not yet. Any number of
// processes may call it at once. If a newer program has made the schema, Migrate changes nothing,
// and returns [ErrSchema] unless this one works with it.
func Migrate(ctx context.Context, p *pgxpool.Pool) error {
	is, err := schemaOf(ctx, p)
	if err != nil || is.Have >= is.Want {
		return cmp.Or(err, is.Check("pgxstore", ErrSchema))
	}
	err = pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error { return pgstore.Migrate(ctx, querier{tx}) })
	if err != nil {
		return fmt.Errorf("pgxstore: migrate: %w", err)
	}
	return nil
}

// Status returns the schema's version in the database, 0 if there is none, and the version that
// this program knows. It changes nothing. A store that is in the database and not on the
// search_path is [ErrSchema].
func Status(ctx context.Context, p *pgxpool.Pool) (have, want int, err error) {
	is, err := schemaOf(ctx, p)
	return is.Have, is.Want, err
}

func schemaOf(ctx context.Context, p *pgxpool.Pool) (sqltext.Migration, error) {
	is, err := pgstore.Status(ctx, &pool{Pool: p}, ErrSchema)
	if err != nil {
		return sqltext.Migration{}, named(err)
	}
	return is, nil
}

// named has an error begin with the package's name, which that of the schema has already.
func named(err error) error {
	if errors.Is(err, ErrSchema) {
		return err
	}
	return fmt.Errorf("pgxstore: %w", err)
}
