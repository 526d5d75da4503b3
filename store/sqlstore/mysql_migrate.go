package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/stet-dev/stet/internal/sqltext"
)

const createSchemaMySQL = sqltext.SchemaTable + " ENGINE = InnoDB"

// migrateLock is the name of a lock in the server, which is not of one database: the name has the
// database in it.
const migrateLock = "CONCAT('stet.migrate.', MD5(DATABASE()))"

// errMigrateBusy is returned after waiting for another process for as long as a step may take.
var errMigrateBusy = errors.New("another process has been migrating for a minute; try again when it has ended")

// migrateMySQL takes the steps that are missing. A statement that changes the schema commits by
// itself, so that a step cannot be undone: instead each of its statements may be run again. Of
// several processes one at a time is at it.
func migrateMySQL(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SET SESSION autocommit = 1"); err != nil { // or the step's number is lost
		return err
	}
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+migrateLock+", 60)").Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errMigrateBusy
	}
	if err := MySQL.take(ctx, conn, createSchemaMySQL); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the lock ends with the connection
		return err
	}
	_, err = conn.ExecContext(ctx, "DO RELEASE_LOCK("+migrateLock+")")
	return err
}
