package pgxstore_test

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/pgxstore"
)

func Example() {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	pgxstore.Prepare(config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := pgxstore.Migrate(ctx, pool); err != nil {
		log.Fatal(err)
	}
	store, err := pgxstore.Open(ctx, pool, pgxstore.Config{})
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
	book := func(ctx context.Context, pool *pgxpool.Pool, claim *stet.Claim) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := pgxstore.In(claim, tx); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO bookings (seat) VALUES ('12A')"); err != nil {
				return err
			}
			booked := stet.Response{Status: 201, Body: []byte("booked")}
			return claim.Settle(ctx, stet.Outcome{Response: booked})
		})
	}
	_ = book
}
