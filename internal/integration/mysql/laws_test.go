package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/clocks"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/integration/wrapped"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/sqlstore"
	"github.com/stet-dev/stet/store/storetest"
)

// These tell the processes that some laws start where the server is, and how it is spoken to.
const (
	serverEnv = "STET_MYSQL_SERVER"
	paramsEnv = "STET_MYSQL_PARAMS"
)

// server starts a server, unless this is such a process.
func server(t *testing.T, start func(t testing.TB) *testserver.Server, params string) {
	t.Helper()
	if os.Getenv(serverEnv) == "" {
		t.Setenv(serverEnv, start(t).Addr)
		t.Setenv(paramsEnv, params)
	}
}

var backend = storetest.Backend{
	Durable: true, Shared: true, ServerClock: true, Look: sqltext.Look,
	Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
		addr := os.Getenv(serverEnv)
		admin, err := sql.Open("mysql", "root@tcp("+addr+")/")
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		name := fmt.Sprintf("laws_%x", sha256.Sum256([]byte(dir)))[:30]
		execute(t, admin, "CREATE DATABASE IF NOT EXISTS "+name)
		db, err := sql.Open("mysql", "root@tcp("+addr+")/"+name+os.Getenv(paramsEnv))
		if err != nil {
			t.Fatal(err)
		}
		if err := sqlstore.Migrate(t.Context(), db, sqlstore.MySQL); err != nil {
			t.Fatal(err)
		}
		s, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.MySQL})
		if err != nil {
			t.Fatal(err)
		}
		return owner{s, db}
	},
	Begin: func(t testing.TB, s stet.Store) (any, func() error, func() error) {
		tx, err := s.(owner).db.BeginTx(t.Context(), nil)
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
	Tamper: tamper,
	Backup: func(t testing.TB, s stet.Store) func() {
		db := s.(owner).db
		for table := range tables {
			execute(t, db, "DROP TABLE IF EXISTS copy_of_"+table)
			execute(t, db, "CREATE TABLE copy_of_"+table+" LIKE "+table)
			execute(t, db, "INSERT INTO copy_of_"+table+columns(t, db, table)+" FROM "+table)
		}
		return func() {
			exchange(t, db, func(table string) string {
				return "INSERT INTO " + table + columns(t, db, table) + " FROM copy_of_" + table
			})
		}
	},
	Empty: func(t testing.TB, s stet.Store) { exchange(t, s.(owner).db, func(string) string { return "DO 0" }) },
}

// tables are those of which a backup has the rows.
var tables = map[string]bool{"stet_records": true, "stet_history": true, "stet_outbox": true, "stet_store": true}

// columns names what a copy of a table is made of: not what the server computes.
func columns(t testing.TB, db *sql.DB, table string) (text string) {
	t.Helper()
	err := db.QueryRowContext(context.Background(), "SELECT GROUP_CONCAT('`', column_name, '`') FROM information_schema.columns "+
		"WHERE table_schema = DATABASE() AND table_name = ? AND COALESCE(generation_expression, '') = ''", table).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return " (" + text + ") SELECT " + text
}

// exchange puts other rows in the place of all there are, at once.
func exchange(t testing.TB, db *sql.DB, rows func(table string) string) {
	t.Helper()
	fill := map[string]string{}
	for table := range tables {
		fill[table] = rows(table)
	}
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	for table, statement := range fill {
		for _, statement := range []string{"SET sql_safe_updates = 0", "DELETE FROM " + table, statement} {
			if _, err := tx.ExecContext(context.Background(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// tamper is [storetest.Backend].Tamper.
func tamper(t testing.TB, s stet.Store, id stet.ID, with storetest.Tampering) {
	t.Helper()
	update := func(set string, args ...any) {
		t.Helper()
		args = append(args, []byte(id.Scope), []byte(id.Key))
		if _, err := s.(owner).db.ExecContext(context.Background(), "UPDATE stet_records SET "+set+" WHERE `scope` = ? AND `key` = ?", args...); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case with.Format:
		update("`schema` = `schema` + 1")
	case with.Version != 0:
		r, err := s.Get(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		r.Version = with.Version
		update("`version` = ?, `head` = ?", int64(r.Version), sqltext.PackHead(&r.Head))
	default:
		us := with.Ahead.Microseconds()
		update("`due_at` = `due_at` + ?, `updated_at` = `updated_at` + ?, `created_at` = `created_at` + ?, `completed_at` = `completed_at` + ?",
			us, us, us, us)
	}
}

// owner closes the database with the store.
type owner struct {
	*sqlstore.Store
	db *sql.DB
}

func (o owner) Close() error { return errors.Join(o.Store.Close(), o.db.Close()) }

func TestLaws(t *testing.T) {
	server(t, testserver.MariaDB, "")
	storetest.Run(t, backend)
}

func TestLawsWrapped(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	server(t, testserver.MariaDB, "")
	storetest.Run(t, wrapped.Backend(backend))
}

func TestClocks(t *testing.T) {
	server(t, testserver.MariaDB, "")
	clocks.Run(t, backend)
}

// A MariaDB that says it is a MySQL is used as one: no statement has a RETURNING anyway, and rows
// that others hold are waited for, for the second that is the least a MySQL can be told. The
// sessions of the caller's pool, which lists and transactions that the store joins are in, are as
// awkward as they can be: nothing depends on a character set, a time zone, an isolation level, or
// what quotes and backslashes mean.
func TestLawsAsMySQL(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	server(t, func(t testing.TB) *testserver.Server { return testserver.NewMariaDB(t, "--version=8.0.36") },
		"?charset=gbk&time_zone=%27-08%3A00%27&tx_isolation=%27SERIALIZABLE%27&sql_mode=%27ANSI,STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES%27")
	storetest.Run(t, backend)
}
