package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/storeid"
	"github.com/stet-dev/stet/internal/tablestore"
)

// Bind returns the store within tx, a [*database/sql.Tx] on the same file, of this pool or of
// another: [In] says what that means to others, and what to do after an error. Commits of another
// pool have to be as durable as the store's.
func (s *sqlite) Bind(tx any) (stet.Store, error) {
	t, err := joined(tx)
	if err != nil {
		return nil, wrap("bind", err)
	}
	var file string
	var synchronous int
	err = t.QueryRow(sqltext.SQLiteFile).Scan(&file, &synchronous)
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return nil, wrap("bind", err)
	case err != nil || file != s.file:
		return nil, fmt.Errorf("sqlstore: bind: %w: it is on another database", stet.ErrForeignTx)
	case synchronous < 2:
		return nil, fmt.Errorf("sqlstore: bind: %w: its pool has synchronous = %d, by which a commit can be lost with the power;"+
			" open it by SQLiteDSN, too", stet.ErrForeignTx, synchronous)
	}
	b := &boundSQLite{tx: t, gate: s.Gate, statements: statements{clock: s.clock, on: t}}
	reading := tablestore.Reading{Reader: readSQLite(t, s.clock.Micros), Around: func(ctx context.Context, op string, call func(context.Context) error) error {
		return wrap(op, b.do(ctx, func() error { return call(context.WithoutCancel(ctx)) }))
	}}
	write := func(o *op) error { return b.do(o.Ctx, func() error { return b.change(o) }) }
	return within(t, sqliteError, sqliteFull, reading, tablestore.Driver[*op]{New: newOp, Pack: (*op).pack, Do: write, Wrap: wrap,
		Get: func(ctx context.Context, id stet.ID) (r stet.Record, err error) {
			err = b.do(ctx, func() (err error) { r, err = getRecord(t, b.clock.Micros, id, stet.MaxBody(ctx)); return err })
			return r, err
		},
		Append: func(ctx context.Context, c *stet.Change) error { return write(entryOf(ctx, c)) }})
}

// boundSQLite is a store within a transaction. Contexts that end are heeded between statements: to
// interrupt one that writes would roll the transaction back, and where the transaction holds the
// file nothing here waits.
type boundSQLite struct {
	statements
	tx     *sql.Tx
	gate   *storeid.Gate
	spoilt error // by what failed before
}

// change passes the gate, and looks at the store in the transaction as well, which may be on
// another file that has the name by now.
func (b *boundSQLite) change(o *op) error {
	if err := b.gate.Write(o.Ctx); err != nil {
		return err
	}
	// A transaction that only read before sees the store as it was then: it takes the lock for
	// writing first, which fails if that was changed, and would else be found to be set back.
	if _, err := b.statements.write(sqltext.SQLiteHorizon, []any{0, 0}); err != nil {
		return err
	}
	if err := b.recognize(b.gate); err != nil {
		return err
	}
	return b.apply(o)
}

var errEnded = errors.New("the database has rolled the transaction back, after a statement in it failed")

// do carries out one verb, unless the transaction is no more what it was.
func (b *boundSQLite) do(ctx context.Context, verb func() error) error {
	if b.spoilt != nil {
		return fmt.Errorf("the transaction has to be rolled back: %w", b.spoilt)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := b.within()
	if err == nil {
		err = verb()
	}
	if failed(err) {
		b.spoilt = err
	}
	return err
}

// within makes sure that SQLite is still in the transaction, which cannot begin another then.
func (b *boundSQLite) within() error {
	if _, err := b.tx.Exec("BEGIN"); err != nil {
		if errors.Is(err, sql.ErrTxDone) {
			return err
		}
		return nil
	}
	_, err := b.tx.Exec("ROLLBACK")
	return errors.Join(errEnded, err)
}
