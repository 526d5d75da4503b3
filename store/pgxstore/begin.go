package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
)

// Begin returns a function that begins transactions on pool, for stethttp.AtomicIn and flow.Config.
// The Tx of such a transaction is a [pgx.Tx]. A handler gets it by tx.Tx().(pgx.Tx); a local phase
// is a function that takes one:
//
//	flow.Local("book", func(ctx context.Context, tx pgx.Tx, s *Order) error { … })
func Begin(pool *pgxpool.Pool, o pgx.TxOptions) func(ctx context.Context) (stet.Transaction, error) {
	return func(ctx context.Context) (stet.Transaction, error) {
		tx, err := pool.BeginTx(ctx, o)
		return transaction{tx}, err
	}
}

type transaction struct{ tx pgx.Tx }

func (t transaction) Tx() any                            { return t.tx }
func (t transaction) Commit(ctx context.Context) error   { return t.tx.Commit(ctx) }
func (t transaction) Rollback(ctx context.Context) error { return t.tx.Rollback(ctx) }
