package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/clocks"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/integration/wrapped"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tag"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/sqlstore"
	"github.com/stet-dev/stet/store/storetest"
)

// serverEnv tells a child process, which some laws start, where the server of its parent is.
const serverEnv = "STET_POSTGRES_ADDR"

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

var known sync.Mutex

// address is where the shared server is.
func address(t testing.TB) string {
	t.Helper()
	known.Lock()
	defer known.Unlock()
	if addr := os.Getenv(serverEnv); addr != "" {
		return addr
	}
	addr := testserver.Postgres(t).Addr
	if err := os.Setenv(serverEnv, addr); err != nil {
		t.Fatal(err)
	}
	return addr
}

// dsn names a database on the server at addr.
func dsn(addr, database string) string {
	return "postgres://postgres@" + addr + "/" + database + "?sslmode=disable&pool_max_conns=16"
}

// database makes a database named after name, if it is not there, and returns its DSN.
func database(t testing.TB, addr, name string) string {
	t.Helper()
	known.Lock()
	defer known.Unlock()
	name = fmt.Sprintf("stet_%x", sha256.Sum256([]byte(name)))[:30]
	conn, err := pgx.Connect(context.Background(), dsn(addr, "postgres")[:len(dsn(addr, "postgres"))-len("&pool_max_conns=16")])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var n int
	if err := conn.QueryRow(context.Background(), "SELECT count(*) FROM pg_database WHERE datname = $1", name).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		if _, err := conn.Exec(context.Background(), "CREATE DATABASE "+name+" STRATEGY file_copy"); err != nil {
			t.Fatal(err)
		}
	}
	return dsn(addr, name)
}

// with adds a setting to a DSN.
func with(t testing.TB, dsn, name, value string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// pooled is a store with the pool it stands on.
type pooled struct {
	*pgxstore.Store
	pool *pgxpool.Pool
}

func (p pooled) Close() error {
	err := p.Store.Close()
	p.pool.Close()
	return err
}

// open opens a store on pgx.
func open(t testing.TB, dsn string, c pgxstore.Config) pooled {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pgxstore.Prepare(config)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := pgxstore.Migrate(context.Background(), pool); err != nil {
		t.Fatal(err)
	}
	s, err := pgxstore.Open(context.Background(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	return pooled{s, pool}
}

// opened closes the store with the test.
func opened(t testing.TB, dsn string, c pgxstore.Config) pooled {
	t.Helper()
	s := open(t, dsn, c)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// standard is a store on database/sql, with its database.
type standard struct {
	*sqlstore.Store
	db *sql.DB
}

func (s standard) Close() error { return errors.Join(s.Store.Close(), s.db.Close()) }

func openStandard(t testing.TB, dsn string) standard {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	if err := sqlstore.Migrate(context.Background(), db, sqlstore.Postgres); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.Open(context.Background(), db, sqlstore.Config{Dialect: sqlstore.Postgres})
	if err != nil {
		t.Fatal(err)
	}
	return standard{s, db}
}

// overPgx is the store on pgx, in an exec mode; "" is pgx's own choice.
func overPgx(mode string) storetest.Backend {
	return storetest.Backend{Durable: true, Shared: true, ServerClock: true, Look: sqltext.Look,
		Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
			address := database(t, address(t), dir+mode)
			if mode != "" {
				address = with(t, address, "default_query_exec_mode", mode)
			}
			return open(t, address, pgxstore.Config{})
		},
		Begin: func(t testing.TB, s stet.Store) (any, func() error, func() error) {
			tx, err := s.(pooled).pool.Begin(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			return tx, func() error { return tx.Commit(context.Background()) }, func() error { return tx.Rollback(context.Background()) }
		},
		Send: func(t testing.TB, tx any, statement string) {
			if _, err := tx.(pgx.Tx).Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		},
		Tamper: func(t testing.TB, s stet.Store, id stet.ID, with storetest.Tampering) {
			tamper(t, s, func(sql string, args ...any) error {
				_, err := s.(pooled).pool.Exec(context.Background(), sql, args...)
				return err
			}, id, with)
		},
		Unconfirmed: unconfirmed,
		Backup: func(t testing.TB, s stet.Store) func() {
			return backup(t, func(sql string) error { _, err := s.(pooled).pool.Exec(context.Background(), sql); return err })
		},
		Empty: func(t testing.TB, s stet.Store) {
			if _, err := s.(pooled).pool.Exec(context.Background(), emptied); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func overSQL() storetest.Backend {
	return storetest.Backend{Durable: true, Shared: true, ServerClock: true,
		Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
			d := database(t, address(t), dir+"sql")
			return openStandard(t, d[:len(d)-len("&pool_max_conns=16")])
		},
		Begin: func(t testing.TB, s stet.Store) (any, func() error, func() error) {
			tx, err := s.(standard).db.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return tx, tx.Commit, tx.Rollback
		},
		Send: func(t testing.TB, tx any, statement string) {
			if _, err := tx.(*sql.Tx).ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		},
		Tamper: func(t testing.TB, s stet.Store, id stet.ID, with storetest.Tampering) {
			tamper(t, s, func(sql string, args ...any) error {
				_, err := s.(standard).db.ExecContext(context.Background(), sql, args...)
				return err
			}, id, with)
		},
		Backup: func(t testing.TB, s stet.Store) func() {
			return backup(t, func(sql string) error { _, err := s.(standard).db.ExecContext(context.Background(), sql); return err })
		},
		Empty: func(t testing.TB, s stet.Store) {
			if _, err := s.(standard).db.ExecContext(context.Background(), emptied); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestLawsPgx(t *testing.T) { storetest.Run(t, overPgx("")) }

func TestLawsWrapped(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	storetest.Run(t, wrapped.Backend(overPgx("")))
}

func TestLawsSQL(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	storetest.Run(t, overSQL())
}

func TestClocks(t *testing.T) { clocks.Run(t, overPgx("")) }

func draw() stet.Version { return stet.Version(rand.Uint64()>>1 | 1) }

// running is a record as a first request would create it.
func running(key string) stet.Record {
	return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "tenant", Key: stet.Key(key)}, Tag: tag.Text(rand.Uint64()), Version: draw(), State: stet.Running, Attempt: 1,
		Fingerprint: stet.Fingerprint{Recipe: "1 auto"}, Holder: "host:1", Route: "charges", Method: "POST", Path: "/v1/charges",
		Rules: stet.Rules{Retain: time.Hour}, DueIn: time.Minute}}
}

// completed is the next write of a record: its result.
func completed(h stet.Head) (stet.Head, *stet.Body) {
	h.State, h.Version, h.Status, h.Size, h.DueIn = stet.Completed, draw(), 201, 200, time.Hour
	return h, &stet.Body{Response: &stet.Response{Status: 201, Body: make([]byte, 200),
		Header: []stet.Field{{Name: "Content-Type", Value: "application/json"}}}}
}

// openDB opens a pool of database/sql.
func openDB(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", strings.TrimSuffix(dsn, "&pool_max_conns=16"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
