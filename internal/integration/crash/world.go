package crash

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/crashpoint"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

// Kind is a database, and the way to it.
type Kind struct {
	Name    string
	Dialect sqlstore.Dialect
	driver  string // of package database/sql
}

// Kinds. Pgx is Postgres without package database/sql.
var (
	SQLite   = Kind{"sqlite", sqlstore.SQLite, "sqlite"}
	Postgres = Kind{"postgres", sqlstore.Postgres, "pgx"}
	Pgx      = Kind{"pgx", sqlstore.Postgres, "pgx"}
	MariaDB  = Kind{"mariadb", sqlstore.MySQL, "mysql"}

	Kinds = []Kind{SQLite, Postgres, Pgx, MariaDB}
)

// What a process leaves behind when it is killed has to wait for the lease to end. So those that are to be killed have a short
// one, and the others one that outlasts the pauses of a busy machine.
const (
	shortLease = 400 * time.Millisecond
	longLease  = 5 * time.Second
)

// Program is a service under test.
type Program struct {
	Name string
	// Serve builds it. Its handler answers POST with 201 when all is done, and with anything else when the client is to ask
	// again, as it does itself. The handler is called with the Idempotency-Key, which is also the order's name.
	Serve func(w *World) (Service, error)
	// Settled reports whether what goes on after the answer has ended; nil: nothing does.
	Settled func(ctx context.Context, db *sql.DB, d sqlstore.Dialect) (bool, error)
	// Check judges what is there in the end.
	Check func(ctx context.Context, o Outcome) error
	// Patient is a client who, after a crash, does not ask again before the order has been completed without them.
	Patient bool
}

// Service is a [Program] in its world: what it answers with, and what it does all the time.
type Service struct {
	Handler http.Handler
	Loops   []func(ctx context.Context) error
}

// Outcome is what the world looks like when everything has ended.
type Outcome struct {
	Order   string
	Answer  string // of the last word that the client was told
	Effects []Effect
	DB      *sql.DB
	Dialect sqlstore.Dialect
}

// World is what a program has: a database, with the table payments (reference, what, receipt), a store in it, and a provider.
type World struct {
	Kind
	DB       *sql.DB       // over the pool for Pgx
	Pool     *pgxpool.Pool // Pgx alone
	Store    stet.Store
	Provider *Provider
	Lease    time.Duration // of records and messages
	// Every is for loops that look after what crashes leave behind. In the first life of an order it is long: there they have
	// nothing to do, unless the machine stood still for a lease, and its points are its own.
	Every time.Duration
}

// newWorld opens the database at dsn.
func newWorld(ctx context.Context, k Kind, dsn, provider string, p *crashpoint.Points) (w *World, err error) {
	w = &World{Kind: k, Provider: &Provider{url: provider, client: http.Client{Transport: p.Transport()}}}
	if k == Pgx {
		c, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		c.ConnConfig.Tracer = tracer{p}
		if w.Pool, err = pgxpool.NewWithConfig(ctx, c); err != nil {
			return nil, err
		}
		w.DB = stdlib.OpenDBFromPool(w.Pool)
		w.Store, err = pgxstore.Open(ctx, w.Pool, pgxstore.Config{})
		return w, err
	}
	if w.DB, err = crashpoint.OpenSQL(k.driver, dsn, p); err != nil {
		return nil, err
	}
	w.Store, err = sqlstore.Open(ctx, w.DB, sqlstore.Config{Dialect: k.Dialect})
	return w, err
}

// Engine returns an engine over the store.
func (w *World) Engine(rule stet.LapseRule) (*stet.Engine, error) {
	return stet.New(w.Store, stet.Config{Policy: stet.Policy{Lease: w.Lease, Rules: stet.Rules{OnLapse: rule}}})
}

// Begin begins a transaction: a [*sql.Tx], or a [pgx.Tx].
func (w *World) Begin(ctx context.Context) (stet.Transaction, error) {
	if w.Pool != nil {
		return pgxstore.Begin(w.Pool, pgx.TxOptions{})(ctx)
	}
	tx, err := w.DB.BeginTx(ctx, nil)
	return sqlTx{tx}, err
}

type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) Tx() any                        { return t.tx }
func (t sqlTx) Commit(context.Context) error   { return t.tx.Commit() }
func (t sqlTx) Rollback(context.Context) error { return t.tx.Rollback() }

// Atomic is [stethttp.Atomic], or [stethttp.AtomicIn] for pgx.
func (w *World) Atomic(handler func(rw http.ResponseWriter, r *http.Request, tx any)) http.Handler {
	if w.Pool == nil {
		return stethttp.Atomic(w.DB, func(rw http.ResponseWriter, r *http.Request, tx *sql.Tx) { handler(rw, r, tx) })
	}
	return stethttp.AtomicIn(w.Begin, func(rw http.ResponseWriter, r *http.Request, t stet.Transaction) { handler(rw, r, t.Tx()) })
}

// Pay writes a business row of an order.
func (w *World) Pay(ctx context.Context, tx any, order, what, receipt string) error {
	query := Places(w.Dialect, "INSERT INTO payments (reference, what, receipt) VALUES (?, ?, ?)")
	_, err := Execer(tx).ExecContext(ctx, query, order, what, receipt)
	return err
}

// Execer is how to write in a transaction of either kind.
func Execer(tx any) outbox.Execer {
	if t, ok := tx.(pgx.Tx); ok {
		return pgxstore.Execer(t)
	}
	return tx.(*sql.Tx)
}

// Places writes the places of arguments as the dialect wants them.
func Places(d sqlstore.Dialect, query string) string {
	if d != sqlstore.Postgres {
		return query
	}
	for n := 1; strings.Contains(query, "?"); n++ {
		query = strings.Replace(query, "?", "$"+strconv.Itoa(n), 1)
	}
	return query
}

// Paid returns the receipts of an order's business rows, by what they are for.
func (o Outcome) Paid(ctx context.Context) (map[string][]string, error) {
	rows, err := o.DB.QueryContext(ctx, Places(o.Dialect, "SELECT what, receipt FROM payments WHERE reference = ?"), o.Order)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	paid := map[string][]string{}
	for rows.Next() {
		var what, receipt string
		if err := rows.Scan(&what, &receipt); err != nil {
			return nil, err
		}
		paid[what] = append(paid[what], receipt)
	}
	return paid, rows.Err()
}

// Made returns the ids of an order's effects, by kind.
func (o Outcome) Made() map[string][]string {
	made := map[string][]string{}
	for _, e := range o.Effects {
		made[e.Kind] = append(made[e.Kind], e.ID)
	}
	return made
}

// Once says what differs between what is there and what is wanted, where each is wanted once.
func Once(have map[string][]string, want map[string]string) error {
	for what, ids := range have {
		if len(ids) != 1 || want[what] != ids[0] {
			return fmt.Errorf("%s is there as %q, and %q was wanted once", what, ids, want[what])
		}
	}
	if len(have) != len(want) {
		return fmt.Errorf("there is %q, and %q was wanted", have, want)
	}
	return nil
}
