package blackbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	_ "modernc.org/sqlite" // as cmd/stet has it

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

// opener returns what opens a store in dir, once per node: what several processes of one host would
// do.
func opener(kind, dir string, clock *movable) func() (stet.Store, error) {
	switch kind {
	case "memory":
		s := memstore.New(memstore.Config{Clock: clock.Now})
		return func() (stet.Store, error) { return s, nil }
	case "file":
		return func() (stet.Store, error) {
			return filestore.Open(filepath.Join(dir, "records"), filestore.Config{Clock: clock.Now})
		}
	case "sqlite":
		return func() (stet.Store, error) { return openSQLite(filepath.Join(dir, "stet.db"), clock) }
	}
	return func() (stet.Store, error) { return nil, fmt.Errorf("no store called %q", kind) }
}

// sqlite closes its database with itself.
type sqlite struct {
	*sqlstore.Store
	db *sql.DB
}

func (s sqlite) Close() error { return errors.Join(s.Store.Close(), s.db.Close()) }

func openSQLite(path string, clock *movable) (stet.Store, error) {
	ctx := context.Background()
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(path))
	if err != nil {
		return nil, err
	}
	if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s, err := sqlstore.Open(ctx, db, sqlstore.Config{Dialect: sqlstore.SQLite, Clock: clock.Now})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return sqlite{s, db}, nil
}
