package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/monotonic"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// statements are what the verbs are made of, on a connection that is in a transaction: the one that
// writes, which keeps them prepared, or a caller's, where few are needed more than once.
type statements struct {
	clock *monotonic.Shared
	on    querier

	id            string // of the store, as the transaction has it
	mark, horizon int64
}

// apply carries out one write. It may be called again after a rollback, and leaves what it was
// given as it is.
func (s *statements) apply(o *op) error {
	switch o.Verb {
	case tablestore.Create:
		return s.create(o)
	case tablestore.ReplaceHead:
		return s.replace(sqltext.SQLiteUpdate, o)
	case tablestore.ReplaceAll:
		return s.replace(sqltext.SQLiteUpdateBody, o)
	case tablestore.Remove:
		return s.remove(o)
	case reap:
		return s.reap(o)
	case appendTo:
		return s.appendTo(o)
	case raise:
		return s.raise(o)
	case forget:
		return s.forget(o)
	}
	panic("sqlstore: no such verb")
}

func (s *statements) create(o *op) error {
	now, err := s.stamp()
	if err != nil {
		return err
	}
	at := sqltext.Born(&o.Head, now)
	if one, err := s.write(sqltext.SQLiteInsert, text.ID(o.stamped(&at), o.Head.ID)); one || err != nil && !refusedNull(err) {
		o.Stamped(&at)
		return err
	}
	switch o.Got, err = getRecord(s.on, s.micros, o.Head.ID, stet.SmallBody); err {
	case nil:
		return stet.ErrExists
	case stet.ErrNotFound:
		return errHidden
	}
	return err
}

// refusedNull reports whether a row was refused because of a column that cannot be NULL. Some
// drivers tell no more than that it was refused.
func refusedNull(err error) bool {
	n := errorNumber(err)
	return n == sqliteNull || n == sqliteConstraint
}

var errHidden = fmt.Errorf("%w: an index does not find the row that is there; stet doctor --deep says which, and REINDEX mends it", stet.ErrCorrupt)

// replace stamps by the store's clock, and where the row was written by one that was ahead, by the
// row's own: a record's time does not go back, also where the host's clock was set back while no
// process ran (CR-16, W10).
func (s *statements) replace(update string, o *op) error {
	now, err := s.stamp()
	if err != nil {
		return err
	}
	one, err := s.replaceAt(update, o, now)
	if one || err != nil {
		return err
	}
	if err := s.refuse(o); err != stet.ErrStale || o.Got.Version != o.Prev {
		return err
	}
	now = max(now, o.Got.UpdatedAt.UnixMicro())
	if o.Got.Tag != o.Head.Tag { // it was written under another pepper
		args := append(text.ID([]any{sqltext.Tag(o.Head.Tag)}, o.Head.ID), int64(o.Prev))
		if _, err := s.write(sqltext.SQLiteRetag, args); err != nil {
			return err
		}
	}
	if one, err = s.replaceAt(update, o, now); !one && err == nil {
		err = errMoved
	}
	return err
}

var errMoved = errors.New("the row changed between two statements of its transaction")

// replaceAt reports whether the row was there, of the version and the format expected, and no
// younger than now.
func (s *statements) replaceAt(update string, o *op, now int64) (one bool, err error) {
	at := sqltext.Changed(&o.Head, now)
	if o.Head.Note != nil { // first: what the record was is in its row until then
		args := text.Note(make([]any, 0, 12), &o.Head, at.Updated)
		if one, err := s.write(sqltext.SQLiteNote, append(text.ID(args, o.Head.ID), int64(o.Prev), now, sqltext.Tag(o.Head.Tag))); !one || err != nil {
			return false, err
		}
	}
	args := append(text.ID(o.stamped(&at), o.Head.ID), int64(o.Prev))
	if one, err = s.write(update, args); one {
		o.Stamped(&at)
	}
	return one, err
}

func (s *statements) remove(o *op) error {
	have, err := getHead(s.on, s.micros, o.Head.ID)
	if err == nil && have.Version == o.Prev { // the next life of the key is to have a greater fence
		if err := s.reach(have.Fence() + 1); err != nil {
			return err
		}
	}
	if one, err := s.write(sqltext.SQLiteDelete, o.args); one || err != nil {
		return err
	}
	return s.refuse(o)
}

// write reports whether a statement changed its one row. It has no context of a caller: nothing
// here waits, and to interrupt a statement would cost the whole group.
func (s *statements) write(statement string, args []any) (one bool, err error) {
	res, err := s.on.ExecContext(context.Background(), statement, args...)
	if err != nil {
		return false, faultSQLite(err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// refuse says why no row was changed.
func (s *statements) refuse(o *op) (err error) {
	if o.Got.Head, err = getHead(s.on, s.micros, o.Head.ID); err != nil {
		return err
	}
	return stet.ErrStale
}

// entryOf is the write of an entry that tells of no change.
func entryOf(ctx context.Context, c *stet.Change) *op {
	o := &op{args: text.Appended(c)}
	o.Ctx, o.Verb, o.Head.ID = ctx, appendTo, c.ID
	return o
}

func (s *statements) appendTo(o *op) error {
	_, err := s.write(sqltext.SQLiteAppend, append(o.args[:len(o.args):len(o.args)], s.micros()))
	return err
}
