// Package flow tests the local phases of package flow on real databases. Package crash kills
// processes that run them.
package flow

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

type order struct{ Charge string }

// shop is a database with an engine, and what its local phases are made of.
type shop struct {
	db     *sql.DB
	engine *stet.Engine
	config flow.Config[order]
	// phase is a local one that writes a row, and then does what it is told.
	phase func(what string, then func(o *order) error) flow.Phase[order]
}

// on runs a test on each kind of database and transaction.
func on(t *testing.T, test func(t *testing.T, s *shop)) {
	for name, open := range map[string]func(t *testing.T) *shop{"sqlite": sqlite, "postgres": postgres, "pgx": overPgx, "mariadb": mariadb} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func sqlite(t *testing.T) *shop {
	return standard(t, sqlstore.SQLite, "sqlite", sqlstore.SQLiteDSN(filepath.Join(t.TempDir(), "shop.db")))
}

func postgres(t *testing.T) *shop { return standard(t, sqlstore.Postgres, "pgx", postgresDSN(t)) }

func mariadb(t *testing.T) *shop {
	s := testserver.MariaDB(t)
	return standard(t, sqlstore.MySQL, "mysql", s.MariaDBDSN(database(t, "mysql", s.MariaDBDSN(""))))
}

func postgresDSN(t *testing.T) string {
	s := testserver.Postgres(t)
	return s.PostgresDSN(database(t, "pgx", s.PostgresDSN("postgres")))
}

// database makes one that is named after the test.
func database(t *testing.T, driver, dsn string) string {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ToLower(strings.NewReplacer("/", "_").Replace(t.Name()))
	_, err = db.ExecContext(t.Context(), "CREATE DATABASE "+name)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return name
}

func standard(t *testing.T, d sqlstore.Dialect, driver, dsn string) *shop {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Migrate(t.Context(), db, d); err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s := newShop(t, db, store)
	s.config.DB = db
	s.phase = func(what string, then func(o *order) error) flow.Phase[order] {
		return flow.Local(what, func(ctx context.Context, tx *sql.Tx, o *order) error {
			if _, err := tx.ExecContext(ctx, insert(what)); err != nil {
				return err
			}
			return then(o)
		})
	}
	return s
}

func overPgx(t *testing.T) *shop {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgresDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := pgxstore.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	store, err := pgxstore.Open(t.Context(), pool, pgxstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = db.Close() })
	s := newShop(t, db, store)
	s.config.Begin = pgxstore.Begin(pool, pgx.TxOptions{IsoLevel: pgx.Serializable})
	s.phase = func(what string, then func(o *order) error) flow.Phase[order] {
		return flow.Local(what, func(ctx context.Context, tx pgx.Tx, o *order) error {
			var level string
			if err := tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&level); err != nil || level != "serializable" {
				return errors.Join(err, fmt.Errorf("the transaction is %s", level))
			}
			if _, err := tx.Exec(ctx, insert(what)); err != nil {
				return err
			}
			return then(o)
		})
	}
	return s
}

func insert(what string) string { return "INSERT INTO business VALUES ('" + what + "')" }

func newShop(t *testing.T, db *sql.DB, store stet.Store) *shop {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE business (what VARCHAR(20))"); err != nil {
		t.Fatal(err)
	}
	e, err := stet.New(store, stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(o *order) stet.Response { return stet.Response{Status: 201, Body: []byte(o.Charge)} }
	return &shop{db: db, engine: e, config: flow.Config[order]{Name: "f", Engine: e, Answer: answer, Backoff: time.Millisecond}}
}

func (s *shop) flow(t *testing.T, phases ...flow.Phase[order]) *flow.Flow[order] {
	t.Helper()
	f, err := flow.New(s.config, phases...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (s *shop) rows(t *testing.T, want int) {
	t.Helper()
	var rows int
	if err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM business").Scan(&rows); err != nil || rows != want {
		t.Errorf("%d rows, and %d were wanted; %v", rows, want, err)
	}
}

func request() stet.Request { return stet.Request{ID: stet.ID{Scope: "shop", Key: "k"}} }

// retried is the client's answer, who asks again while the key is in progress.
func retried(t *testing.T, f *flow.Flow[order]) stet.Response {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := f.Do(ctx, request(), order{})
		var refused *stet.Refused
		switch {
		case err == nil:
			return answer
		case errors.As(err, &refused) && refused.Verdict == stet.InProgress && ctx.Err() == nil:
			<-tick.C
		default:
			t.Fatal(err)
		}
	}
}

func TestLocalPhaseIsTriedAgainAndLeavesNoTrace(t *testing.T) { // I6
	on(t, func(t *testing.T, s *shop) {
		tries := 0
		f := s.flow(t,
			s.phase("write", func(o *order) error {
				o.Charge += "x" // of a try that is rolled back nothing may be left
				if tries++; tries < 3 {
					return errors.New("serialization failure")
				}
				return nil
			}),
			s.phase("check", func(o *order) error { return flow.Decline(stet.Response{Status: 402, Body: []byte(o.Charge)}) }))
		for range 2 { // the second is a replay
			if got, err := f.Do(t.Context(), request(), order{}); err != nil || got.Status != 402 || string(got.Body) != "x" {
				t.Fatalf("%d %q, %v", got.Status, got.Body, err)
			}
		}
		if s.rows(t, 1); tries != 3 {
			t.Errorf("%d tries", tries)
		}
	})
}

func TestLocalPhaseThatPanics(t *testing.T) { // rolled back for certain, so that it goes on later
	on(t, func(t *testing.T, s *shop) {
		broken := true
		f := s.flow(t, s.phase("write", func(*order) error {
			if broken {
				panic("boom")
			}
			return nil
		}))
		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("the panic did not go on")
				}
			}()
			_, _ = f.Do(t.Context(), request(), order{})
		}()
		s.rows(t, 0)
		broken = false
		if got := retried(t, f); got.Status != 201 {
			t.Errorf("%d %s", got.Status, got.Body)
		}
		s.rows(t, 1)
	})
}

// A phase that takes another kind of transaction than Begin makes does nothing, and the record
// waits for a program that can.
func TestAnotherTransaction(t *testing.T) {
	s := overPgx(t)
	f := s.flow(t, flow.Local("write", func(context.Context, *sql.Tx, *order) error { panic("it was called") }))
	if _, err := f.Do(t.Context(), request(), order{}); !errors.Is(err, flow.ErrSuspended) || !errors.Is(err, stet.ErrForeignTx) {
		t.Error(err)
	}
	if got := retried(t, s.flow(t, s.phase("write", func(*order) error { return nil }))); got.Status != 201 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	s.rows(t, 1)
}
