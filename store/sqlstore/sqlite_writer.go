package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/inplace"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/storeid"
	"github.com/stet-dev/stet/internal/tablestore"
)

// writer is the one connection that writes. The queue's leader has it to itself.
type writer struct {
	statements
	db    *sql.DB
	log   *log
	files *inplace.Files
	gate  *storeid.Gate
	conn  *lane  // nil: to be made
	seen  uint32 // the version of the file of which id, mark and horizon are; 0: of none
}

// New keys land anywhere in the index: 16 MiB hold its upper levels, and its leaves to some hundred
// thousand keys.
const writerCache = "PRAGMA cache_size = -16384"

func (w *writer) connect(ctx context.Context) (err error) {
	w.conn, err = openLane(ctx, w.db, func(ctx context.Context, c *lane) error {
		if err := checkConn(ctx, c); err != nil {
			return err
		}
		if _, err := c.raw.ExecContext(ctx, writerCache); err != nil {
			return err
		}
		if err := checkTables(ctx, c); err != nil {
			return err
		}
		return w.files.Check()
	})
	w.on = w.conn
	return err
}

// close closes the connection itself, and with it whatever transaction it is in.
func (w *writer) close() {
	w.seen = 0
	if w.conn != nil {
		w.conn.discard()
		w.conn = nil
	}
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
	if _, err := w.on.ExecContext(o.Ctx, sqltext.SQLiteBegin); err != nil {
		w.reset() // where o.Ctx ended, it may have begun all the same
		return groupcommit.Nothing(busySQLite(err))
	}
	if err := w.recognize(); err != nil {
		w.reset()
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
	if err = one(w.on, sqltext.SQLiteHas, text.ID(nil, o.Head.ID), []any{&there}); err == nil {
		o.Got, err = getRecord(w.on, w.clock.Micros, o.Head.ID, stet.SmallBody)
	}
	switch {
	case err == nil:
		return stet.ErrExists
	case errors.Is(err, stet.ErrNotFound):
		return nil
	case failed(err):
		w.close()
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
	if _, err := w.on.ExecContext(context.Background(), sqltext.SQLiteCommit); err != nil {
		w.reset()
		err = w.uncommitted(err)
		for _, o := range batch { // also those that were refused, perhaps by what is not there now
			o.Err = err
		}
		return nil
	}
	if w.seen != 0 {
		w.seen = w.data() // it was changed by this transaction
	}
	w.clock.Know(w.horizon)
	return nil
}

// uncommitted is the error of a COMMIT that failed. SQLite says that the disk is full while it
// writes the log, before the page that would make the transaction one; once the connection is known
// to be in no transaction, there is none (S16).
func (w *writer) uncommitted(err error) error {
	if err := faultSQLite(err); errors.Is(err, stet.ErrFull) && w.conn != nil {
		return groupcommit.Nothing(err)
	}
	return fmt.Errorf("commit, which may have happened: %w", err)
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
	w.seen = 0 // horizon may be that of what is undone
	ctx := context.Background()
	_, _ = w.on.ExecContext(ctx, sqltext.SQLiteRollback) // an error, where the database has done so itself, is not told from others
	if _, err := w.conn.raw.ExecContext(ctx, "BEGIN"); err == nil {
		if _, err := w.conn.raw.ExecContext(ctx, "ROLLBACK"); err == nil {
			return // it could begin: there was none
		}
	}
	w.close()
}
