// Package sqltx makes transactions of package database/sql those that [stet.Transaction] describes.
package sqltx

import (
	"context"
	"database/sql"

	"github.com/stet-dev/stet"
)

// Begin returns a function that begins transactions of db. Their Tx is a [*sql.Tx].
func Begin(db *sql.DB, o *sql.TxOptions) func(ctx context.Context) (stet.Transaction, error) {
	return func(ctx context.Context) (stet.Transaction, error) {
		tx, err := db.BeginTx(ctx, o)
		return transaction{tx}, err
	}
}

type transaction struct{ tx *sql.Tx }

func (t transaction) Tx() any                        { return t.tx }
func (t transaction) Commit(context.Context) error   { return t.tx.Commit() }
func (t transaction) Rollback(context.Context) error { return t.tx.Rollback() }
