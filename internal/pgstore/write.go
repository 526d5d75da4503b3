package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// Create implements [stet.Store]. It returns r's own version, which an earlier try has stored, only
// once that is confirmed.
func (s *Store) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	got, err := s.create(ctx, r)
	if errors.Is(err, stet.ErrExists) && got.Version == r.Version {
		if cut := s.confirm(ctx); cut != nil {
			return stet.Record{}, s.wrap("create", cut)
		}
	}
	return got, err
}

// Replace implements [stet.Store], and returns h's own version as Create does.
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	got, err := s.verbs.Replace(ctx, prev, h, b)
	if errors.Is(err, stet.ErrStale) && got.Version == h.Version {
		if cut := s.confirm(ctx); cut != nil {
			return stet.Head{}, s.wrap("replace", cut)
		}
	}
	return got, err
}

// Delete implements [stet.Store]. A record that is gone may have been removed by an earlier try.
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	err := s.verbs.Delete(ctx, id, prev)
	if errors.Is(err, stet.ErrNotFound) {
		err = cmp.Or(s.wrap("delete", s.confirm(ctx)), err)
	}
	return err
}

// confirm writes, so that a server with a synchronous standby waits until that has all that was
// committed before (S01): what an earlier try has left may be on this server alone, because its
// wait was cancelled, or its session ended.
func (s *Store) confirm(ctx context.Context) error {
	err := s.on(func(q Querier) error {
		return each(ctx, q, sqltext.PostgresTouch, nil, func(Rows) error { return nil })
	})
	if err != nil && !errors.Is(err, stet.ErrUnconfirmed) {
		err = fmt.Errorf("%w: it is there, and may be on this server alone: %w", stet.ErrUnconfirmed, err)
	}
	return err
}

// create looks first where the record is probably there.
func (s *Store) create(ctx context.Context, r stet.Record) (stet.Record, error) {
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
	err := s.write(o.Ctx, func(Querier) error {
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
	switch {
	case o.Size > maxBody:
		return fmt.Errorf("%w: it has %d bytes of a body, and %d can be stored", stet.ErrRefused, o.Size, maxBody)
	case o.Verb == tablestore.Create:
		o.args, err = sqltext.PostgresCreateArgs(&o.Head, &o.Body)
	case o.Verb == tablestore.Remove:
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

// sendAlone carries out o in a statement of its own, in which it waits for rows that others hold.
// bound is for a transaction, which cannot be used after an answer that settles nothing.
func (s *Store) sendAlone(o *op, q Querier, lockTimeout string, bound bool) error {
	for range maxTries {
		o.Err = errAgain
		err := s.send(o, q, lockTimeout)
		switch code := answered(err); {
		case err == nil && !errors.Is(o.Err, errAgain):
			return o.Err
		case err == nil:
			o.Err = errAgain
			if err := s.whyNothing(o.Ctx, q, bound); err != nil {
				return err
			}
		case !bound && (code == codeSerialization || code == codeDeadlock || errors.Is(err, groupcommit.ErrNothing) && o.Ctx.Err() == nil):
			o.Err = err
		default:
			return err
		}
	}
	return cmp.Or(s.misread(o.Ctx, q), o.Err)
}

// whyNothing returns why a statement found nothing to do, if that is because the store is another
// one.
func (s *Store) whyNothing(ctx context.Context, q Querier, bound bool) error {
	if bound {
		return s.checkWithin(ctx, q)
	}
	return s.gate.Again(ctx)
}

// misread returns why nothing can be written in such a session, or nil.
func (s *Store) misread(ctx context.Context, q Querier) error {
	now, err := readSettings(ctx, q)
	if err != nil {
		return nil // what is wrong will be seen elsewhere
	}
	return now.usable()
}

func (s *Store) send(o *op, q Querier, lockTimeout string) error {
	err := each(o.Ctx, q, o.statement().One, s.whole(o.args, lockTimeout), o.scan)
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
