package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/pgstore"
)

// Begin returns a function that begins transactions on p, for stethttp.AtomicIn and flow.Config.
// The Tx of such a transaction is a [pgx.Tx]. A handler gets it by tx.Tx().(pgx.Tx); a local phase
// is a function that takes one:
//
//	flow.Local("book", func(ctx context.Context, tx pgx.Tx, s *Order) error { … })
func Begin(p *pgxpool.Pool, o pgx.TxOptions) func(ctx context.Context) (stet.Transaction, error) {
	return func(ctx context.Context) (stet.Transaction, error) {
		conn, err := p.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		tx, err := conn.BeginTx(ctx, o)
		if err != nil {
			conn.Release()
			return nil, err
		}
		return &transaction{tx: tx, conn: conn}, nil
	}
}

type transaction struct {
	tx   pgx.Tx
	conn *pgxpool.Conn // nil: given back
}

func (t *transaction) Tx() any { return t.tx }

// Commit is [stet.ErrUnconfirmed] where the server did not wait for its standby: see [Prepare].
func (t *transaction) Commit(ctx context.Context) error {
	if t.conn == nil {
		return pgx.ErrTxClosed
	}
	cuts.take(t.conn.Conn())
	err := t.tx.Commit(ctx)
	if cuts.take(t.conn.Conn()) && err == nil {
		err = pgstore.ErrCut
	}
	t.release()
	return err
}

func (t *transaction) Rollback(ctx context.Context) error {
	if t.conn == nil {
		return pgx.ErrTxClosed
	}
	err := t.tx.Rollback(ctx)
	t.release()
	return err
}

func (t *transaction) release() {
	t.conn.Release()
	t.conn = nil
}
