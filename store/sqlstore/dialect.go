package sqlstore

import (
	"fmt"
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

// hasSchema selects how many tables of the name stet_schema there are.
var hasSchema = map[Dialect]string{
	SQLite:   "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'stet_schema'",
	MySQL:    "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'stet_schema'",
	Postgres: "", // see [pgstore.Status]
}

func (d Dialect) validate() error {
	if _, ok := hasSchema[d]; !ok {
		return fmt.Errorf("sqlstore: config: Dialect is %q; it has to be one of the package's dialects, such as SQLite", string(d))
	}
	return nil
}
