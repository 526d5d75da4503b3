package sqlstore_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A store in a file. The program imports a driver, here modernc.org/sqlite, which has the name
// "sqlite".
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN("stet.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite); err != nil {
		log.Fatal(err)
	}
	store, err := sqlstore.Open(ctx, db, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	engine, err := stet.New(store, stet.Config{})
	if err != nil {
		log.Fatal(err)
	}
	_ = engine // for example for a stethttp.Guard
}

// A claim and a table of the program's own are written in one transaction: both happen, or neither.
func ExampleIn() {
	book := func(ctx context.Context, db *sql.DB, claim *stet.Claim) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after the commit
		if err := sqlstore.In(claim, tx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO bookings (seat) VALUES ('12A')"); err != nil {
			return err
		}
		booked := stet.Response{Status: 201, Body: []byte("booked")}
		if err := claim.Settle(ctx, stet.Outcome{Response: booked}); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = book
}
