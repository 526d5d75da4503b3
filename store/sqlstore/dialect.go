package sqlstore

import (
	"fmt"
	"io/fs"

	"github.com/stet-dev/stet/internal/sqltext"
)

// Dialect is a kind of database.
type Dialect string

// SQLite 3.35 or newer, in WAL mode: see [SQLiteDSN].
const SQLite Dialect = "sqlite"

func (d Dialect) validate() error {
	if d != SQLite {
		return fmt.Errorf("sqlstore: config: Dialect is %q; it has to be one of the package's dialects, such as SQLite", string(d))
	}
	return nil
}

func (d Dialect) migrations() fs.FS {
	switch d {
	case SQLite:
		return sqltext.SQLiteMigrations()
	}
	panic("sqlstore: no dialect: " + string(d))
}

// hasSchema selects how many tables of the name stet_schema there are.
func (d Dialect) hasSchema() string {
	switch d {
	case SQLite:
		return "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'stet_schema'"
	}
	panic("sqlstore: no dialect: " + string(d))
}
