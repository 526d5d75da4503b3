package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/wrapped"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/store/sqlstore"
	"github.com/stet-dev/stet/store/storetest"
)

var backend = storetest.Backend{
	Durable: true,
	Shared:  true,
	Look:    sqltext.Look,
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
	Send: func(t testing.TB, tx any, statement string) {
		if _, err := tx.(*sql.Tx).ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	},
	Tamper: tamper,
	Backup: backup,
	Empty:  empty,
}

// tamper changes a row as another program would: the checksum of the head fits, unless that is what
// was asked for.
func tamper(t testing.TB, s stet.Store, id stet.ID, with storetest.Tampering) {
	t.Helper()
	r, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	h := r.Head
	if with.Version != 0 {
		h.Version = with.Version
	}
	ahead := func(at time.Time) int64 { return at.Add(with.Ahead).UnixMicro() }
	at := sqltext.Stamp{Updated: ahead(h.UpdatedAt), Created: ahead(h.CreatedAt), Never: h.DueAt.IsZero()}
	if !at.Never {
		at.Due = ahead(h.DueAt)
	}
	if !h.CompletedAt.IsZero() {
		at.Ended = ahead(h.CompletedAt)
	}
	format := sqltext.Schema
	if with.Format {
		format++
	}
	packed := sqltext.PackHead(&h)
	at.Seal(packed, sqltext.Unsealed(packed))
	args := text.ID(at.Args([]any{packed, int64(h.Version), format}), id)
	res, err := s.(owner).db.ExecContext(t.Context(), "UPDATE stet_records SET head = ?, version = ?, schema = ?, due_at = ?, updated_at = ?,"+
		" created_at = ?, completed_at = ? WHERE scope = ? AND key = ?", args...)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := res.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d rows were tampered with, %v", n, err)
	}
}

// backup is what sqlite3's .backup and .restore do, with other programs at work.
func backup(t testing.TB, s stet.Store) (restore func()) {
	t.Helper()
	db, copied := s.(owner).db, filepath.Join(t.TempDir(), "backup.db")
	if _, err := db.ExecContext(t.Context(), "VACUUM INTO ?", copied); err != nil {
		t.Fatal(err)
	}
	return func() {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = conn.Raw(func(c any) error {
			b, err := c.(interface {
				NewRestore(from string) (*driver.Backup, error)
			}).NewRestore(copied)
			if err != nil {
				return err
			}
			_, err = b.Step(-1)
			return errors.Join(err, b.Finish())
		})
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func empty(t testing.TB, s stet.Store) {
	t.Helper()
	for _, table := range []string{"stet_records", "stet_history", "stet_outbox", "stet_store"} {
		if _, err := s.(owner).db.ExecContext(t.Context(), "DELETE FROM "+table); err != nil {
			t.Fatal(err)
		}
	}
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
