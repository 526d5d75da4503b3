// Package opened opens a store of every kind there is, each on a server of its own kind, for
// tests that hold on all of them.
package opened

import (
	"context"
	"crypto/rand"
	"database/sql"
	"io"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	goredis "github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/redisstore/goredisclient"
	"github.com/stet-dev/stet/store/sqlstore"
)

// Stores open an empty store each, which is closed with the test. A package that uses those of
// servers has the TestMain of package testserver.
var Stores = map[string]func(t testing.TB) stet.Store{
	"memory":   func(testing.TB) stet.Store { return memstore.New(memstore.Config{}) },
	"file":     file,
	"sqlite":   sqlite,
	"postgres": postgres,
	"mariadb":  mariadb,
	"redis":    redis,
}

func file(t testing.TB) stet.Store {
	s, err := filestore.Open(t.TempDir(), filestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return closed(t, s)
}

func closed[S interface {
	stet.Store
	io.Closer
}](t testing.TB, s S) S {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func sqlite(t testing.TB) stet.Store  { return standard(t, sqlstore.SQLite) }
func mariadb(t testing.TB) stet.Store { return standard(t, sqlstore.MySQL) }

func standard(t testing.TB, d sqlstore.Dialect) stet.Store {
	s, err := sqlstore.Open(t.Context(), Database(t, d), sqlstore.Config{Dialect: d})
	if err != nil {
		t.Fatal(err)
	}
	return closed(t, s)
}

// Database is a new database with the schema of the dialect, which is closed with the test.
func Database(t testing.TB, d sqlstore.Dialect) *sql.DB {
	driver, dsn := "sqlite", ""
	switch d {
	case sqlstore.SQLite:
		dsn = sqlstore.SQLiteDSN(t.TempDir() + "/stet.db")
	case sqlstore.MySQL:
		s := testserver.MariaDB(t)
		driver, dsn = "mysql", s.MariaDBDSN(created(t, "mysql", s.MariaDBDSN("")))
	case sqlstore.Postgres:
		s := testserver.Postgres(t)
		driver, dsn = "pgx", s.PostgresDSN(created(t, "pgx", s.PostgresDSN("postgres")))
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Migrate(t.Context(), db, d); err != nil {
		t.Fatal(err)
	}
	return db
}

func postgres(t testing.TB) stet.Store {
	server := testserver.Postgres(t)
	pool, err := pgxpool.New(t.Context(), server.PostgresDSN(created(t, "pgx", server.PostgresDSN("postgres"))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := pgxstore.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	s, err := pgxstore.Open(t.Context(), pool, pgxstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return closed(t, s)
}

// created is a new database on the server that dsn leads to.
func created(t testing.TB, driver, dsn string) string {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	name := "t_" + strings.ToLower(rand.Text()[:16])
	if _, err := db.ExecContext(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return name
}

func redis(t testing.TB) stet.Store {
	c := goredis.NewClient(goredisclient.Options(&goredis.Options{Addr: testserver.Redis(t).Addr}))
	t.Cleanup(func() { _ = c.Close() })
	s, err := redisstore.Open(t.Context(), goredisclient.New(c), redisstore.Config{Prefix: rand.Text(), Shards: 4, AllowVolatile: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
