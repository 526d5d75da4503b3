package sqlstore

import (
	"fmt"
	"io/fs"

	"github.com/stet-dev/stet/internal/sqltext"
)

// Dialect is a kind of database.
type Dialect string

const (
	// SQLite 3.35 or newer, in WAL mode: see [SQLiteDSN].
	SQLite Dialect = "sqlite"
	// MySQL 8.0.16 or MariaDB 10.6 or newer, with InnoDB.
	MySQL Dialect = "mysql"
	// Postgres 12 or newer.
	Postgres Dialect = "postgres"
)

func (d Dialect) validate() error {
	switch d {
	case SQLite, MySQL, Postgres:
		return nil
	default:
		return fmt.Errorf("sqlstore: config: Dialect is %q; it has to be one of the package's dialects, such as SQLite", string(d))
	}
}

func (d Dialect) migrations() fs.FS {
	switch d {
	case SQLite:
		return sqltext.SQLiteMigrations()
	case MySQL:
		return sqltext.MySQLMigrations()
	case Postgres:
		return sqltext.PostgresMigrations()
	}
	panic("sqlstore: no dialect: " + string(d))
}

// hasSchema selects how many tables of the name stet_schema there are.
func (d Dialect) hasSchema() string {
	switch d {
	case SQLite:
		return "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'stet_schema'"
	case MySQL:
		return "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'stet_schema'"
	case Postgres:
		return "SELECT count(*) FROM pg_catalog.pg_class WHERE oid = to_regclass('stet_schema')"
	}
	panic("sqlstore: no dialect: " + string(d))
}
