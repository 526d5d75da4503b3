package pgxstore

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet/internal/bounds"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	pool, err := pgxpool.New(t.Context(), "postgres://stet@127.0.0.1:1/stet")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	bounds.Refuses(t, configBounds, func() Config { return Config{ListenDSN: "no address"} }, func(c Config) error {
		_, err := Open(t.Context(), pool, c)
		return err
	})
}
