package sqlstore

import (
	"context"
	"database/sql"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// apply carries out one write. It may be called again after a rollback, and leaves what it was given as it is.
func (w *writer) apply(o *op) error {
	switch o.verb {
	case create:
		return w.create(o)
	case replaceHead:
		return w.replace(w.update, o)
	case replaceAll:
		return w.replace(w.updateAll, o)
	case remove:
		return w.remove(o)
	}
	panic("sqlstore: no such verb")
}

func (w *writer) create(o *op) error {
	s := sqltext.Born(&o.head, w.clock.micros())
	if one, err := w.write(w.insert, s.Args(o.args, &o.head)); one || err != nil {
		o.got = stamped(o.head, &s)
		return err
	}
	var err error
	if o.have, err = getRecord(w.get, w.clock, o.id); err != nil {
		return err
	}
	return stet.ErrExists
}

func (w *writer) replace(stmt *sql.Stmt, o *op) error {
	s := sqltext.Changed(&o.head, w.clock.micros())
	args := append(text.ID(s.Args(o.args, &o.head), o.id), int64(o.prev))
	if one, err := w.write(stmt, args); one || err != nil {
		o.got = stamped(o.head, &s)
		return err
	}
	return w.refuse(o)
}

func (w *writer) remove(o *op) error {
	if one, err := w.write(w.del, o.args); one || err != nil {
		return err
	}
	return w.refuse(o)
}

// write reports whether stmt changed its one row. It has no context of a caller: nothing here waits, and to interrupt a
// statement would cost the whole group.
func (w *writer) write(stmt *sql.Stmt, args []any) (one bool, err error) {
	res, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

func stamped(h stet.Head, s *sqltext.Stamp) stet.Head {
	s.Apply(&h)
	return h
}

// refuse says why no row was changed.
func (w *writer) refuse(o *op) (err error) {
	if o.got, err = getHead(w.getHead, w.clock, o.id); err != nil {
		return err
	}
	return stet.ErrStale
}
