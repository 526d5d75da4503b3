package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// writer is the one connection that writes, with its statements. The queue's leader has it to
// itself.
type writer struct {
	statements
	db       *sql.DB
	log      *log
	conn     *sql.Conn // nil: to be made
	prepared []*sql.Stmt

	begins, commits, rollbacks, has statement
}

// New keys land anywhere in the index: 16 MiB hold its upper levels, and its leaves to some hundred
// thousand keys.
const writerCache = "PRAGMA cache_size = -16384"

func (w *writer) connect(ctx context.Context) error {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn = conn
	if err = checkConn(ctx, conn); err != nil {
		return errors.Join(err, w.close())
	}
	if _, err = conn.ExecContext(ctx, writerCache); err != nil {
		return errors.Join(err, w.close())
	}
	for _, p := range []struct {
		stmt *statement
		text string
	}{
		{&w.begins, sqltext.SQLiteBegin}, {&w.commits, sqltext.SQLiteCommit}, {&w.rollbacks, sqltext.SQLiteRollback},
		{&w.insert, sqltext.SQLiteInsert}, {&w.update, sqltext.SQLiteUpdate}, {&w.updateAll, sqltext.SQLiteUpdateBody}, {&w.retag, sqltext.SQLiteRetag},
		{&w.note, sqltext.SQLiteNote}, {&w.entry, sqltext.SQLiteAppend}, {&w.del, sqltext.SQLiteDelete}, {&w.reapOver, sqltext.SQLiteReap},
		{&w.get, sqltext.SQLiteGet}, {&w.getHead, sqltext.SQLiteGetHead}, {&w.has, sqltext.SQLiteHas},
	} {
		stmt, err := conn.PrepareContext(ctx, p.text)
		if err != nil {
			return errors.Join(fmt.Errorf("preparing a statement: %w", err), w.close())
		}
		*p.stmt, w.prepared = stmt, append(w.prepared, stmt)
	}
	return nil
}

// close gives the connection back to the pool.
func (w *writer) close() error {
	if w.conn == nil {
		return nil
	}
	return errors.Join(closeStatements(w.conn, w.prepared...), w.forget().Close())
}

// discard closes the connection itself, and with it whatever transaction it is in.
func (w *writer) discard() {
	_ = closeStatements(w.conn, w.prepared...)
	_ = w.forget().Raw(func(any) error { return driver.ErrBadConn })
}

// closeStatements spares those of a connection that database/sql has closed by itself:
// modernc.org/sqlite panics on them.
func closeStatements(conn *sql.Conn, statements ...*sql.Stmt) error {
	if conn.Raw(func(any) error { return nil }) != nil {
		return nil
	}
	var errs []error
	for _, s := range statements {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func (w *writer) forget() *sql.Conn {
	conn := w.conn
	*w = writer{db: w.db, log: w.log, statements: statements{clock: w.clock}}
	return conn
}

// begin waits for the lock on the file, which another process may hold. A record that is there is
// found without it.
func (w *writer) begin(o *op) error {
	if err := w.look(o); err != nil {
		return err
	}
	if w.log.full() {
		if w.cutLog(); w.conn == nil {
			if err := w.connect(o.Ctx); err != nil {
				return groupcommit.Nothing(err)
			}
		}
	}
	if _, err := w.begins.ExecContext(o.Ctx); err != nil {
		w.reset() // where o.Ctx ended, it may have begun all the same
		return groupcommit.Nothing(err)
	}
	return nil
}

func (w *writer) look(o *op) (err error) {
	if err := o.Ctx.Err(); err != nil {
		return groupcommit.Nothing(err)
	}
	if w.conn == nil {
		if err := w.connect(o.Ctx); err != nil {
			return groupcommit.Nothing(err)
		}
	}
	if o.Verb != tablestore.Create {
		return nil
	}
	var there int
	if err = one(w.has, o.Head.ID, []any{&there}); err == nil {
		o.Got, err = getRecord(w.get, w.clock, o.Head.ID)
	}
	switch {
	case err == nil:
		return stet.ErrExists
	case errors.Is(err, stet.ErrNotFound):
		return nil
	case failed(err):
		w.discard()
	}
	return err
}

// commit carries out a group in the transaction that has begun. A statement that fails takes no
// neighbour with it: the transaction is rolled back, and each write is tried alone.
func (w *writer) commit(_ context.Context, batch []*op) error {
	for _, o := range batch {
		if o.Err = w.apply(o); failed(o.Err) {
			w.reset()
			if len(batch) > 1 {
				w.oneByOne(batch)
			}
			return nil
		}
	}
	if _, err := w.commits.ExecContext(context.Background()); err != nil {
		w.reset()
		for _, o := range batch { // also those that were refused, perhaps by what is not there now
			o.Err = fmt.Errorf("commit, which may have happened: %w", err)
		}
	}
	return nil
}

func (w *writer) oneByOne(batch []*op) {
	for _, o := range batch {
		if o.Err = w.begin(o); o.Err == nil {
			_ = w.commit(o.Ctx, []*op{o})
		}
	}
}

// failed tells infrastructure from answers.
func failed(err error) bool {
	return err != nil && err != stet.ErrExists && err != stet.ErrStale && err != stet.ErrNotFound && !errors.Is(err, stet.ErrCorrupt)
}

// reset ends a transaction that failed, and leaves a connection without one.
func (w *writer) reset() {
	ctx := context.Background()
	_, _ = w.rollbacks.ExecContext(ctx) // an error, where the database has done so itself, is not told from others
	if _, err := w.conn.ExecContext(ctx, "BEGIN"); err == nil {
		if _, err := w.conn.ExecContext(ctx, "ROLLBACK"); err == nil {
			return // it could begin: there was none
		}
	}
	w.discard()
}
