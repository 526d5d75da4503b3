package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/storetests/wrapped"
	"github.com/stet-dev/stet/store/sqlstore"
	"github.com/stet-dev/stet/store/storetest"
)

var backend = storetest.Backend{
	Durable: true,
	Shared:  true,
	Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, "stet.db")))
		if err != nil {
			t.Fatal(err)
		}
		if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite); err != nil {
			t.Fatal(err)
		}
		s, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.SQLite, Clock: clock})
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
}

// owner closes the database with the store.
type owner struct {
	*sqlstore.Store
	db *sql.DB
}

func (o owner) Close() error { return errors.Join(o.Store.Close(), o.db.Close()) }

func TestLaws(t *testing.T) { storetest.Run(t, backend) }

func TestLawsWrapped(t *testing.T) { storetest.Run(t, wrapped.Backend(backend)) }

func BenchmarkLaws(b *testing.B) { storetest.Benchmark(b, backend) }
