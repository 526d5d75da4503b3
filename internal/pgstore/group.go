package pgstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// Limits of the groups of one kind.
const (
	maxBatch      = 256     // writes in one statement
	maxBatchBytes = 4 << 20 // of bodies in one statement, unless a single one is larger
	writers       = 2       // statements on their way: while one is synced the other is filled
	batchTime     = 30 * time.Second
	batchLock     = "10" // milliseconds that a group waits for a row that others hold, before each goes alone
)

func (s *Store) queue() *groupcommit.Queue[*op] {
	return groupcommit.New(groupcommit.Config[*op]{
		Alone: s.alone, Many: s.many, Patient: s.patient, Settles: settles, Fits: s.fits, Compare: compareOps,
		Groups: writers, MaxGroup: maxBatch, MaxBytes: maxBatchBytes, Timeout: batchTime, Closed: s.cfg.Closed})
}

// fits reports whether o may share a statement with others. A note has its entry in the history.
func (s *Store) fits(o *op) bool {
	return o.Head.Note == nil && !s.held.Has(o.Head.ID) && (o.Verb != tablestore.Create || !s.suspects.Has(o.Head.ID))
}

func compareOps(a, b *op) int { return tablestore.Compare(&a.Write, &b.Write) }

func settles(err error) groupcommit.Outcome {
	switch code := answered(err); {
	case code == codeLockWait:
		return groupcommit.Contended
	case code != "", errors.Is(err, groupcommit.ErrNothing):
		return groupcommit.Refused
	}
	return groupcommit.Final
}

// alone carries out o in a statement of its own, which waits for a row that others hold no longer
// than a group would: the place in the queue is not its own.
func (s *Store) alone(o *op) error {
	err := s.sendAlone(o, s.pool, batchLock, false)
	if answered(err) == codeLockWait {
		s.held.Add(o.Head.ID)
	}
	return err
}

// patient waits for a row that others hold in two steps: for as long as a group would, and then
// among those who wait.
func (s *Store) patient(o *op) error {
	if !s.held.Has(o.Head.ID) {
		if err := s.alone(o); answered(err) != codeLockWait {
			return err
		}
	}
	return s.outwait(o)
}

// outwait waits for a row for as long as o's caller does. Of those who wait few do so in the
// server: each takes a connection of the pool, and all the others need it, too. They take turns,
// each for a moment, because some wait for rows that are free by now (B08).
func (s *Store) outwait(o *op) error {
	end, ends := patience(o.Ctx)
	s.outwaiting.Add(1)
	defer s.outwaiting.Add(-1)
	for {
		s.held.Add(o.Head.ID)
		err := s.takeTurn(o, end, ends)
		if answered(err) != codeLockWait || ends && !time.Now().Before(end) {
			return err
		}
	}
}

// takeTurn waits for the row in the server, for a moment, and not beyond end if it ends.
func (s *Store) takeTurn(o *op, end time.Time, ends bool) error {
	select {
	case s.turns <- struct{}{}: // in the order they came
		defer func() { <-s.turns }()
	case <-o.Ctx.Done():
		return groupcommit.Nothing(o.Ctx.Err())
	}
	turn := max(turnTime*maxPatient/time.Duration(max(s.outwaiting.Load(), maxPatient)), leastTurn)
	if ends {
		turn = max(min(turn, time.Until(end)), time.Millisecond)
	}
	return s.sendAlone(o, s.pool, strconv.FormatInt(turn.Milliseconds(), 10), false)
}

// many carries out a group, of one verb, in one statement. Of several with one name the first is in
// it.
func (s *Store) many(ctx context.Context, batch []*op) error {
	batch, others := groupcommit.FirstOfEach(batch, compareOps)
	for _, o := range others {
		o.Err = groupcommit.ErrSeparate
	}
	if len(batch) < 2 { // its own goroutine does as well
		return nil
	}
	err := each(ctx, s.pool, batch[0].statement().Many, s.whole(arrays(batch), batchLock), func(rows Rows) error {
		var id stet.ID
		var at int64
		if err := scan(ctx, rows, (*string)(&id.Scope), (*string)(&id.Key), &at); err != nil {
			return err
		}
		if o := named(batch, id); o != nil {
			o.made(at)
		}
		return nil
	})
	if err != nil { // what it said before that does not count
		for _, o := range batch {
			o.Err = groupcommit.ErrUnknown
		}
	}
	if batch[0].Verb == tablestore.Create && (err == nil || settles(err) == groupcommit.Contended) {
		s.lookUp(ctx, batch, err != nil)
		return nil
	}
	return err
}

// lookUp answers the Creates that were not made and whose records are there. The others, and all
// that are left if it fails, are carried out separately. If the group waited for a row in vain,
// that may have been one of those found, which another transaction changes: Creates of such a
// row stay out of groups for a while. Its other writes do not: most of those found are not held.
func (s *Store) lookUp(ctx context.Context, batch []*op, contended bool) {
	var scopes, keys []string
	for _, o := range batch {
		if o.Err != nil {
			scopes, keys = append(scopes, o.args[0].(string)), append(keys, o.args[1].(string))
		}
	}
	if len(keys) == 0 {
		return
	}
	_ = eachRow(ctx, s.pool, sqltext.PostgresGetMany, []any{scopes, keys}, (*sqltext.Row).DestBody, func(row *sqltext.Row, at int64) {
		if o := named(batch, row.ID()); o != nil {
			o.found(row, at)
			if contended {
				s.suspects.Add(o.Head.ID)
			}
		}
	})
}

// named returns the write of a group that the server calls id, or nil.
func named(batch []*op, id stet.ID) *op {
	scope, err := sqltext.PostgresUnescape(string(id.Scope))
	key, err2 := sqltext.PostgresUnescape(string(id.Key))
	if err != nil || err2 != nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(batch, stet.Key(key), func(o *op, key stet.Key) int {
		return cmp.Or(cmp.Compare(o.Head.Scope, stet.Scope(scope)), cmp.Compare(o.Head.Key, key))
	})
	if !ok {
		return nil
	}
	return batch[i]
}

const (
	maxPatient = 4 // statements that wait for rows
	// One that waits does so for turnTime at most; for less where many do, but never less than
	// leastTurn.
	turnTime  = 100 * time.Millisecond
	leastTurn = 10 * time.Millisecond
)
