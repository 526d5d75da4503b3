package service

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"

	"github.com/stet-dev/stet/store/sqlstore"
)

// The rows name the idempotency record they came from, so that people find one from the other.
// Records go when their retention is over, rows stay: their reference is then NULL.
const schema = `
CREATE TABLE IF NOT EXISTS payments (
	id        TEXT PRIMARY KEY,
	reference TEXT NOT NULL,
	amount    INTEGER NOT NULL,
	state     TEXT NOT NULL CHECK (state IN ('reserved', 'paid', 'declined')),
	charge    TEXT NOT NULL DEFAULT '', -- the provider's id
	scope     TEXT,
	key       TEXT,
	FOREIGN KEY (scope, key) REFERENCES stet_records (scope, key) ON DELETE SET NULL
);
CREATE INDEX IF NOT EXISTS payments_record ON payments (scope, key);
CREATE TABLE IF NOT EXISTS payouts (
	id        INTEGER PRIMARY KEY,
	reference TEXT NOT NULL,
	amount    INTEGER NOT NULL,
	scope     TEXT,
	key       TEXT,
	FOREIGN KEY (scope, key) REFERENCES stet_records (scope, key) ON DELETE SET NULL
);
CREATE INDEX IF NOT EXISTS payouts_record ON payouts (scope, key);
`

// DSN names a SQLite file for [New]. SQLite heeds foreign keys only where each connection asks for
// it.
func DSN(path string) string {
	return sqlstore.SQLiteDSN(filepath.Clean(path)) + "&_pragma=foreign_keys(1)"
}

// Migrate makes the tables: Stet's first, to which the others refer.
func Migrate(ctx context.Context, db *sql.DB) error {
	if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("payments: schema: %w", err)
	}
	return nil
}
