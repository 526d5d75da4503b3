package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// op is one write, and what became of it.
type op struct {
	tablestore.Write
	args []any
}

func newOp() *op { return &op{} }

// Create looks first where the record is probably there.
func (s *Store) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	if s.repeats.likely() || s.held.Has(r.ID) || s.suspects.Has(r.ID) {
		switch have, err := s.Get(ctx, r.ID); {
		case err == nil:
			s.repeats.saw(true)
			return have, stet.ErrExists
		case !errors.Is(err, stet.ErrNotFound):
			return stet.Record{}, err
		}
	}
	return s.verbs.Create(ctx, r)
}

// carry carries out o, among others of its kind, and tells who has to know.
func (s *Store) carry(o *op) error {
	err := s.on(func(Querier) error {
		if q := s.queues[o.Verb]; q != nil {
			return q.Do(o)
		}
		return s.patient(o)
	})
	if o.Verb == tablestore.Create {
		s.repeats.saw(errors.Is(err, stet.ErrExists))
	} else {
		s.ring(o, err)
	}
	return err
}

func (o *op) pack() (err error) {
	switch o.Verb {
	case tablestore.Create:
		o.args, err = sqltext.PostgresCreateArgs(&o.Head, &o.Body)
	case tablestore.Remove:
		o.args = sqltext.PostgresDeleteArgs(o.Head.ID, o.Prev)
	default:
		o.args, err = sqltext.PostgresReplaceArgs(o.Prev, &o.Head, o.Written())
	}
	return err
}

// errAgain means that the statement found neither the record nor its absence, because another one
// was faster.
var errAgain = errors.New("others were faster each time")

// made: the record is stored, at an instant of the server's clock.
func (o *op) made(at int64) {
	o.Done(at)
	o.Err = nil
}

// found: the record was there.
func (o *op) found(row *sqltext.Row, at int64) {
	if o.Got, o.Err = row.Record(at); o.Err == nil {
		o.Err = stet.ErrExists
	}
}

// refused says why nothing was changed. A version never comes back, so that a later look is as
// good.
func (o *op) refused(q Querier) error {
	o.Err = stet.ErrNotFound
	id := sqltext.PostgresEncoder.ID(nil, o.Head.ID)
	return eachRow(o.Ctx, q, sqltext.PostgresGetHead, id, (*sqltext.Row).Dest, func(row *sqltext.Row, at int64) {
		if o.Got.Head, o.Err = row.Head(at); o.Err == nil {
			o.Err = stet.ErrStale
			if o.Got.Version == o.Prev { // it came into being after this was tried
				o.Err = errAgain
			}
		}
	})
}

// writes are the statements of each verb, without a note and with one.
var writes = [tablestore.FirstOwn][2]*sqltext.PostgresWrite{
	tablestore.Create:      {&sqltext.PostgresCreate, &sqltext.PostgresCreate},
	tablestore.ReplaceHead: {&sqltext.PostgresReplaceHead, &sqltext.PostgresNoteHead},
	tablestore.ReplaceAll:  {&sqltext.PostgresReplaceAll, &sqltext.PostgresNoteAll},
	tablestore.Remove:      {&sqltext.PostgresDelete, &sqltext.PostgresDelete},
}

func (o *op) statement() *sqltext.PostgresWrite {
	if o.Head.Note != nil {
		return writes[o.Verb][1]
	}
	return writes[o.Verb][0]
}

// Bounds of trying again: only where the server has said, or has shown, that nothing happened.
const maxTries = 8

// alone carries out o in a statement of its own, in which it waits for rows that others hold. again
// is for a transaction that can still be used after an answer that settles nothing.
func (o *op) alone(q Querier, lockTimeout string, again bool) error {
	for range maxTries {
		o.Err = errAgain
		err := o.send(q, lockTimeout)
		switch code := answered(err); {
		case err == nil && !errors.Is(o.Err, errAgain):
			return o.Err
		case err == nil:
			o.Err = errAgain
		case again && (code == codeSerialization || code == codeDeadlock || errors.Is(err, groupcommit.ErrNothing) && o.Ctx.Err() == nil):
			o.Err = err
		default:
			return err
		}
	}
	return o.Err
}

func (o *op) send(q Querier, lockTimeout string) error {
	args := append(o.args[:len(o.args):len(o.args)], lockTimeout)
	err := each(o.Ctx, q, o.statement().One, args, o.scan)
	if err != nil || !errors.Is(o.Err, errAgain) || o.Verb == tablestore.Create {
		return err
	}
	return o.refused(q)
}

// scan reads a row of the answer. Of a record that was made the columns say nothing, and are not
// read.
func (o *op) scan(rows Rows) error {
	var at int64
	done := true
	dest := []any{&at}
	if o.Verb == tablestore.Create {
		dest = append(append(dest, &done), unread...)
	}
	if err := scan(o.Ctx, rows, dest...); err != nil {
		return err
	}
	if done {
		o.made(at)
		return nil
	}
	row := sqltext.PostgresDialect.Row()
	if err := scan(o.Ctx, rows, append([]any{nil, nil}, row.DestBody()...)...); err != nil {
		return err
	}
	o.found(&row, at)
	return nil
}

// unread stands for the columns of a record.
var unread = make([]any, len(new(sqltext.Row).DestBody()))

// patience is until when a statement of ctx may wait for a row: a little less than ctx, so that the
// answer comes by the connection rather than by its end.
func patience(ctx context.Context) (end time.Time, ends bool) {
	if end, ends = ctx.Deadline(); ends {
		end = end.Add(-time.Until(end) / 8)
	}
	return end, ends
}
