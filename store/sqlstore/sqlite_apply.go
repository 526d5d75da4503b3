package sqlstore

import (
	"context"
	"errors"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/monotonic"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// statements are what the verbs are made of, on a connection that is in a transaction: the one that
// writes, which keeps them prepared, or a caller's, where few are needed more than once.
type statements struct {
	clock *monotonic.Clock
	on    querier
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
	}
	panic("sqlstore: no such verb")
}

func (s *statements) create(o *op) error {
	at := sqltext.Born(&o.Head, s.clock.Micros())
	if one, err := s.write(sqltext.SQLiteInsert, text.ID(o.stamped(&at), o.Head.ID)); one || err != nil {
		o.Stamped(&at)
		return err
	}
	var err error
	if o.Got, err = getRecord(s.on, s.clock, o.Head.ID); err != nil {
		return err
	}
	return stet.ErrExists
}

// replace stamps by the store's clock, and where the row was written by one that was ahead, by the
// row's own: a record's time does not go back, also where the host's clock was set back while no
// process ran (CR-16, W10).
func (s *statements) replace(update string, o *op) error {
	one, err := s.replaceAt(update, o, s.clock.Micros())
	if one || err != nil {
		return err
	}
	if err := s.refuse(o); err != stet.ErrStale || o.Got.Version != o.Prev {
		return err
	}
	now := max(s.clock.Micros(), o.Got.UpdatedAt.UnixMicro())
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
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// refuse says why no row was changed.
func (s *statements) refuse(o *op) (err error) {
	if o.Got.Head, err = getHead(s.on, s.clock, o.Head.ID); err != nil {
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
	_, err := s.write(sqltext.SQLiteAppend, append(o.args[:len(o.args):len(o.args)], s.clock.Micros()))
	return err
}
