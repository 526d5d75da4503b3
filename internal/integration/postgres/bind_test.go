package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/victim"
	"github.com/stet-dev/stet/store/pgxstore"
)

// A transaction on another database, or on other tables in the same one, is no transaction that the
// store can join: what is written in it would be seen by no reader of the store. It is asked once
// for each connection, and stays usable (B08).
func TestBindOnlyToTheSameDatabase(t *testing.T) {
	home := database(t, address(t), t.Name())
	s := opened(t, home, pgxstore.Config{})
	std := openStandard(t, strings.TrimSuffix(home, "&pool_max_conns=16"))
	t.Cleanup(func() { _ = std.Close() })
	away := database(t, address(t), t.Name()+" away")
	opened(t, away, pgxstore.Config{})
	bare := database(t, address(t), t.Name()+" bare")
	admin := connected(t, home)
	execute(t, admin, "CREATE SCHEMA IF NOT EXISTS tenant", "CREATE TABLE IF NOT EXISTS tenant.stet_schema (version INTEGER PRIMARY KEY)",
		"DROP ROLE IF EXISTS plain", "CREATE ROLE plain LOGIN")
	tenant := with(t, home, "search_path", "tenant")
	opened(t, tenant, pgxstore.Config{})
	for name, c := range map[string]struct {
		dsn  string
		want error
	}{
		"the same":                 {home, nil},
		"the same as another role": {strings.Replace(home, "postgres@", "plain@", 1), nil},
		"another database":         {away, stet.ErrForeignTx},
		"one without a store":      {bare, stet.ErrForeignTx},
		"another schema":           {tenant, stet.ErrForeignTx},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := pgxpool.ParseConfig(c.dsn)
			if err != nil {
				t.Fatal(err)
			}
			var asked counter
			config.MaxConns, config.ConnConfig.Tracer = 1, &asked
			other, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			for range 3 {
				tx, err := other.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Bind(tx); !errors.Is(err, c.want) {
					t.Errorf("pgx: %v, want %v", err, c.want)
				}
				if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
					t.Errorf("afterwards: %v", err)
				}
				if err := tx.Commit(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if n := asked.Load(); c.want == nil && n != 1 {
				t.Errorf("one connection was asked %d times", n)
			}
			db, err := sql.Open("pgx", strings.NewReplacer("&pool_max_conns=16", "", "pool_max_conns=16&", "").Replace(c.dsn))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			binder, _ := stet.As[stet.Binder](std.Store)
			if _, err := binder.Bind(tx); !errors.Is(err, c.want) {
				t.Errorf("database/sql: %v, want %v", err, c.want)
			}
			if _, err := s.Bind(tx); !errors.Is(err, c.want) {
				t.Errorf("a store over pgx and database/sql: %v, want %v", err, c.want)
			}
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A role that may not ask for the server's name has a store nevertheless, and it joins
// transactions.
func TestBindWithoutTheServersName(t *testing.T) {
	home := database(t, address(t), t.Name())
	opened(t, home, pgxstore.Config{})
	admin := connected(t, home)
	execute(t, admin, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC", "DROP ROLE IF EXISTS modest", "CREATE ROLE modest LOGIN",
		"GRANT ALL ON ALL TABLES IN SCHEMA public TO modest")
	p := pool(t, strings.Replace(home, "postgres@", "modest@", 1))
	s, err := pgxstore.Open(t.Context(), p, pgxstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.Bind(tx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Create(t.Context(), running("k")); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// counter counts questions about the database.
type counter struct{ atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "pg_control_system") {
		c.Add(1)
	}
	return ctx
}

func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// The victim of a deadlock is in a transaction that refuses everything: nothing of it happened.
func TestVictimOfADeadlock(t *testing.T) { // Q01
	at := database(t, address(t), t.Name())
	s := openStandard(t, strings.TrimSuffix(at, "&pool_max_conns=16"))
	t.Cleanup(func() { _ = s.Close() })
	d := victim.Database{DB: openDB(t, at), Store: s, Setup: "SET LOCAL deadlock_timeout = '1ms'",
		Waits: "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"}
	victim.Test(t, d, map[string]stet.State{"repeats the statement": stet.Retryable, "ignores the error": stet.Retryable,
		"repeats and fails": stet.Retryable, "states that nothing happened": stet.Retryable})
	victim.TestPhase(t, d, map[string]stet.State{"returns the error": stet.Completed, "repeats the statement": stet.Completed})
}
