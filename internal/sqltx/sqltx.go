// Package sqltx begins and ends transactions of package database/sql: as those that
// [stet.Transaction] describes, or around a function.
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

// Do calls do within a transaction of db, and commits that if do returns nil.
func Do(ctx context.Context, db *sql.DB, o *sql.TxOptions, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, o)
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after a commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

type transaction struct{ tx *sql.Tx }

func (t transaction) Tx() any                        { return t.tx }
func (t transaction) Commit(context.Context) error   { return t.tx.Commit() }
func (t transaction) Rollback(context.Context) error { return t.tx.Rollback() }
