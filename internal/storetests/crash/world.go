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
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/stet-dev/stet"
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
	DB       *sql.DB       // nil for Pgx
	Pool     *pgxpool.Pool // Pgx alone
	Store    stet.Store
	Provider *Provider
	Lease    time.Duration // of records and messages
	// Every is for loops that look after what crashes leave behind. They rest in the first life of an order, where they
	// have nothing to do, so that its points are its own.
	Every time.Duration
}

// newWorld opens the database at dsn.
func newWorld(ctx context.Context, k Kind, dsn, provider string, p *points) (w *World, err error) {
	w = &World{Kind: k, Provider: &Provider{url: provider, client: http.Client{Transport: transport{p}}}}
	if k == Pgx {
		c, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		c.ConnConfig.Tracer = tracer{p}
		if w.Pool, err = pgxpool.NewWithConfig(ctx, c); err != nil {
			return nil, err
		}
		w.Store, err = pgxstore.Open(ctx, w.Pool, pgxstore.Config{})
		return w, err
	}
	if w.DB, err = openSQL(k.driver, dsn, p); err != nil {
		return nil, err
	}
	w.Store, err = sqlstore.Open(ctx, w.DB, sqlstore.Config{Dialect: k.Dialect})
	return w, err
}

// Engine returns an engine over the store.
func (w *World) Engine(rule stet.LapseRule) (*stet.Engine, error) {
	return stet.New(w.Store, stet.Config{Policy: stet.Policy{Lease: w.Lease, Rules: stet.Rules{OnLapse: rule}}})
}

// Tx is a transaction of either way to a database.
type Tx struct {
	SQL *sql.Tx
	Pgx pgx.Tx
}

// Tx implements [stethttp.Transaction].
func (t Tx) Tx() any {
	if t.Pgx != nil {
		return t.Pgx
	}
	return t.SQL
}

// Commit implements [stethttp.Transaction].
func (t Tx) Commit(ctx context.Context) error {
	if t.Pgx != nil {
		return t.Pgx.Commit(ctx)
	}
	return t.SQL.Commit()
}

// Rollback implements [stethttp.Transaction].
func (t Tx) Rollback(ctx context.Context) error {
	if t.Pgx != nil {
		return t.Pgx.Rollback(ctx)
	}
	return t.SQL.Rollback()
}

// Begin begins a transaction.
func (w *World) Begin(ctx context.Context) (t Tx, err error) {
	if w.Pool != nil {
		t.Pgx, err = w.Pool.Begin(ctx)
	} else {
		t.SQL, err = w.DB.BeginTx(ctx, nil)
	}
	return t, err
}

// Atomic is [stethttp.Atomic], or [stethttp.AtomicIn] for pgx.
func (w *World) Atomic(handler func(rw http.ResponseWriter, r *http.Request, t Tx)) http.Handler {
	if w.Pool == nil {
		return stethttp.Atomic(w.DB, func(rw http.ResponseWriter, r *http.Request, tx *sql.Tx) { handler(rw, r, Tx{SQL: tx}) })
	}
	begin := func(ctx context.Context) (stethttp.Transaction, error) { return w.Begin(ctx) }
	return stethttp.AtomicIn(begin, func(rw http.ResponseWriter, r *http.Request, t stethttp.Transaction) { handler(rw, r, t.(Tx)) })
}

// Pay writes the business row of an order.
func (w *World) Pay(ctx context.Context, t Tx, order, what, receipt string) error {
	query := Places(w.Dialect, "INSERT INTO payments (reference, what, receipt) VALUES (?, ?, ?)")
	var err error
	if t.Pgx != nil {
		_, err = t.Pgx.Exec(ctx, query, order, what, receipt)
	} else {
		_, err = t.SQL.ExecContext(ctx, query, order, what, receipt)
	}
	return err
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
