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

func newOp(ctx context.Context, v tablestore.Verb, h *stet.Head, b *stet.Body, prev stet.Version) *op {
	return &op{Write: tablestore.Write{Call: groupcommit.Call{Ctx: ctx, Size: tablestore.Size(b)}, Verb: v, Head: *h, Prev: prev}}
}

// Create stores r if its ID is free. A record that is there is found without waiting for a
// transaction that changes it.
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
	o, err := createOp(ctx, &r)
	if err == nil {
		err = s.do(s.creates, o)
		s.repeats.saw(errors.Is(err, stet.ErrExists))
	}
	return o.Created(&r, s.wrap("create", err))
}

// Replace stores h, and b if it is not nil, if the record's Version is prev; with a Note, and its
// entry in the history, in one statement.
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	o, err := replaceOp(ctx, prev, &h, b)
	if err == nil {
		g := s.heads
		if b != nil {
			g = s.wholes
		}
		err = s.do(g, o)
		s.ring(o, err)
	}
	return o.Replaced(s.wrap("replace", err))
}

// Delete removes the record if its Version is prev.
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	o := deleteOp(ctx, id, prev)
	err := s.do(nil, o)
	s.ring(o, err)
	return s.wrap("delete", err)
}

func createOp(ctx context.Context, r *stet.Record) (o *op, err error) {
	o = newOp(ctx, tablestore.Create, &r.Head, &r.Body, 0)
	o.args, err = sqltext.PostgresCreateArgs(r)
	return o, err
}

func replaceOp(ctx context.Context, prev stet.Version, h *stet.Head, b *stet.Body) (o *op, err error) {
	o = newOp(ctx, tablestore.Replacing(b), h, b, prev)
	o.args, err = sqltext.PostgresReplaceArgs(prev, h, b)
	return o, err
}

func deleteOp(ctx context.Context, id stet.ID, prev stet.Version) *op {
	o := newOp(ctx, tablestore.Remove, &stet.Head{ID: id}, nil, prev)
	o.args = sqltext.PostgresDeleteArgs(id, prev)
	return o
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
	if o.Have, o.Err = record(row, at); o.Err == nil {
		o.Err = stet.ErrExists
	}
}

// refused says why nothing was changed. A version never comes back, so that a later look is as
// good.
func (o *op) refused(q Querier) error {
	o.Err = stet.ErrNotFound
	return each(o.Ctx, q, sqltext.PostgresGetHead, sqltext.PostgresEncoder.ID(nil, o.Head.ID), func(rows Rows) error {
		row := sqltext.Row{Unstamped: true}
		var at int64
		if err := scan(o.Ctx, rows, append([]any{&at}, row.Dest()...)...); err != nil {
			return err
		}
		if o.Got, o.Err = headOf(&row, at); o.Err == nil {
			o.Err = stet.ErrStale
			if o.Got.Version == o.Prev { // it came into being after this was tried
				o.Err = errAgain
			}
		}
		return nil
	})
}

// statement returns the statement of the op for one record.
func (o *op) statement() *sqltext.PostgresWrite {
	whole, noted := o.Verb == tablestore.ReplaceAll, o.Head.Note != nil
	switch {
	case o.Verb == tablestore.Create:
		return &sqltext.PostgresCreate
	case o.Verb == tablestore.Remove:
		return &sqltext.PostgresDelete
	case noted && whole:
		return &sqltext.PostgresNoteAll
	case noted:
		return &sqltext.PostgresNoteHead
	case whole:
		return &sqltext.PostgresReplaceAll
	}
	return &sqltext.PostgresReplaceHead
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
	row := sqltext.Row{Unstamped: true}
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
