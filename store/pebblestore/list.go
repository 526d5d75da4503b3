package pebblestore

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/walk"
)

// look is how many records a page reads at most.
const look = 5_000

// page collects the records of one page of a query. The place of each is its cursor before it is
// encoded.
type page struct {
	walk.Page[stet.Head, string]
	q    *stet.Query
	from reader
	now  time.Time

	enough int       // not 0: the number of records is asked, up to this one, and not their heads
	n      int       // records that were counted
	since  time.Time // a record that was created before ends the walk
}

// take reads a record that an entry of an index names, unless it names none. If the entry does not
// fit the record, it was left behind by a damaged one. take returns false when the page is full and
// there is one more.
func (p *page) take(ctx context.Context, cursor string, id stet.ID, unnamed error, fits func(r *row) bool) (bool, error) {
	if unnamed != nil || ctx.Err() != nil {
		return unnamed == nil || unreadable(unnamed), ctx.Err()
	}
	if !p.Takes(cursor) {
		return false, nil
	}
	r, err := head(p.from, id)
	switch r.AsOf = asOf(&r.Head, p.now); {
	case err != nil && !unreadable(err):
		return false, err
	case err != nil, !fits(&r):
		return true, nil
	case r.CreatedAt.Before(p.since):
		return false, nil
	case !p.q.Matches(&r.Head):
	case p.enough > 0:
		return p.counted(), nil
	default:
		p.Rows = append(p.Rows, r.Head)
	}
	return true, nil
}

// counted counts a record, and reports whether another one is to be counted.
func (p *page) counted() bool {
	p.n++
	return p.n < p.enough
}

// paged runs a walk over what is stored at this moment. With an error the page is empty.
func (s *Store) paged(ctx context.Context, verb string, q stet.Query, visit func(ctx context.Context, p *page) error) (*page, error) {
	q.States = slices.Clone(q.States)
	p, err := work(ctx, s, verb, nil, func() (p *page, err error) {
		snap, err := s.settled()
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, snap.Close()) }()
		p = &page{q: &q, from: snap, now: s.now()}
		p.Most, p.Look = q.Bound(), look
		return p, visit(ctx, p)
	})
	if err != nil {
		p = &page{}
	}
	return p, err
}

// Due implements [stet.Store]. Records that fall due at the same instant are ordered by state,
// scope and key. A page reads at most 5,000 records.
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	p, err := s.paged(ctx, "due", q, func(ctx context.Context, p *page) error {
		from, err := parseCursor(q.After)
		if err != nil {
			return err
		}
		x := index{kind: dueKey, classes: classes(p.q.States), from: from, until: uint64(p.now.UnixMicro())}
		return x.each(p.from, func(at place, _ []byte) (bool, error) {
			id, err := parseID(at.rest)
			return p.take(ctx, at.cursor(), id, err, func(r *row) bool { return due(&r.Head) == at.at && classOf(&r.Head) == at.class })
		})
	})
	return p.Rows, p.Next(encodeCursor), err
}

// List implements [stet.Lister]: by age of the keys, the newest first; the records of one scope by
// their keys instead. A page reads at most 5,000 records. Records named by their tag, or by scope
// and key, are found directly.
func (s *Store) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	p, err := s.paged(ctx, "list", q, func(ctx context.Context, p *page) error { return p.walk(ctx, q.Oldest) })
	return p.Rows, p.Next(encodeCursor), err
}

// walk takes the records that the query may select, in the order of a list.
func (p *page) walk(ctx context.Context, oldest bool) error {
	switch q := p.q; {
	case q.Tag != "":
		return p.keys(ctx, appendText([]byte{tagKey}, q.Tag), oldest, parseID, func(r *row) bool { return r.Tag == q.Tag })
	case q.Scope != "" && q.Key != "":
		if q.After != "" {
			return nil
		}
		_, err := p.take(ctx, string(q.Key), stet.ID{Scope: q.Scope, Key: q.Key}, nil, itself)
		return err
	case q.Scope != "":
		return p.keys(ctx, appendText([]byte{headKey}, q.Scope), oldest, func(rest string) (stet.ID, error) {
			return stet.ID{Scope: q.Scope, Key: stet.Key(rest)}, nil
		}, itself)
	}
	return p.byNumber(ctx, oldest)
}

// byNumber takes records in the order of their creation.
func (p *page) byNumber(ctx context.Context, oldest bool) error {
	from, err := parseCursor(p.q.After)
	if err != nil {
		return err
	}
	x := index{kind: listKey, classes: classes(p.q.States), from: from, until: math.MaxUint64, back: !oldest}
	return x.each(p.from, func(at place, value []byte) (bool, error) {
		id, err := parseID(string(value))
		return p.take(ctx, at.cursor(), id, err, func(r *row) bool { return r.number == at.at && classOf(&r.Head) == at.class })
	})
}

// itself fits a record that was found by its own key.
func itself(*row) bool { return true }

// keys takes the records whose entries begin with prefix, and fit them.
func (p *page) keys(ctx context.Context, prefix []byte, oldest bool, idOf func(rest string) (stet.ID, error), fits func(r *row) bool) error {
	after, err := decodeCursor(p.q.After)
	if err != nil {
		return err
	}
	return eachKey(p.from, prefix, string(after), !oldest, func(rest string) (bool, error) {
		id, err := idOf(rest)
		return p.take(ctx, rest, id, err, fits)
	})
}

// slack is how much older than the record before it one may be in the order of creation: a number
// is given a moment before the instant.
const slack = time.Minute

// Count implements [stet.Counter]. Counting by state reads no records. A query with NewerThan looks
// through the latest keys alone, unless it has filters beside Scope and OlderThan.
func (s *Store) Count(ctx context.Context, q stet.Query) (int, error) {
	q.After = ""
	p, err := s.paged(ctx, "count", q, func(ctx context.Context, p *page) error {
		p.Look, p.enough = math.MaxInt, cmp.Or(max(0, q.Limit), stet.DefaultLimit)
		bare := *p.q
		bare.Scope, bare.OlderThan, bare.NewerThan = "", 0, 0
		switch {
		case p.q.NewerThan > 0 && len(p.q.States) == 0 && bare.ByState():
			p.since = p.now.Add(-p.q.NewerThan).Add(-slack) // the sum might be too long for a Duration
			return p.byNumber(ctx, false)
		case !p.q.ByState():
			return p.walk(ctx, false)
		}
		for _, c := range classes(p.q.States) {
			err := eachKey(p.from, []byte{listKey, byte(c)}, "", false, func(string) (bool, error) { return p.counted(), ctx.Err() })
			if err != nil || p.n == p.enough {
				return err
			}
		}
		return nil
	})
	return p.n, err
}

// Find implements [stet.Finder].
func (s *Store) Find(ctx context.Context, name string) ([]stet.Head, error) {
	if name == "" {
		return nil, ctx.Err()
	}
	p, err := s.paged(ctx, "find", stet.Query{}, func(ctx context.Context, p *page) error {
		return p.keys(ctx, appendText([]byte{nameKey}, name), true, parseID, func(r *row) bool { return r.DownstreamKey == name || r.DownstreamID == name })
	})
	return p.Rows, err
}

// reapBatch is how many records are removed by one sync.
const reapBatch = 128

// Reap implements [stet.Reaper]. It leaves out records that are being written in that instant.
func (s *Store) Reap(ctx context.Context, limit int) (n int, err error) {
	for n < limit {
		wanted := min(limit-n, reapBatch)
		removed, err := work(ctx, s, "reap", nil, func() (int, error) { return s.reap(ctx, wanted) })
		if n += removed; err != nil || removed < wanted {
			return n, err
		}
	}
	return n, nil
}

func (s *Store) reap(ctx context.Context, limit int) (n int, err error) {
	b := s.db.NewBatch()
	held := map[chan struct{}]bool{}
	defer func() {
		for lock := range held {
			<-lock
		}
	}()
	var gone []stet.ID
	over := slices.DeleteFunc(classes(nil), func(c class) bool { return c&reapable == 0 })
	x := index{kind: dueKey, classes: over, until: uint64(s.now().UnixMicro())}
	err = x.each(s.db, func(at place, _ []byte) (bool, error) {
		if len(gone) == limit || ctx.Err() != nil {
			return false, ctx.Err()
		}
		id, err := parseID(at.rest)
		if err != nil {
			return true, b.Delete(append(number([]byte{dueKey, byte(at.class)}, at.at), at.rest...), nil)
		}
		lock, before := s.lock(id), b.Count()
		fresh := !held[lock]
		if fresh {
			select {
			case lock <- struct{}{}:
				held[lock] = true
			default: // it is being written
				return true, nil
			}
		}
		reaped, err := s.drop(b, at, id)
		if reaped {
			gone = append(gone, id)
		}
		if fresh && b.Count() == before { // nothing waits for the commit
			delete(held, lock)
			<-lock
		}
		return true, err
	})
	if !b.Empty() {
		err = s.commit(b, err)
	}
	if err != nil {
		return 0, err
	}
	for _, id := range gone {
		s.waits.Ring(id)
	}
	return len(gone), nil
}

// drop removes the record of an entry, if the entry still holds. Its lock is held. A damaged record
// goes with what is known of it: what it has in the indexes by tag and by name may stay, and fits
// no other record. One of another format stays.
func (s *Store) drop(b *pebble.Batch, at place, id stet.ID) (bool, error) {
	entry := append(number([]byte{dueKey, byte(at.class)}, at.at), at.rest...)
	n, err := value(s.db, entry)
	switch {
	case errors.Is(err, stet.ErrNotFound): // changed meanwhile
		return false, nil
	case err != nil:
		return false, err
	}
	switch r, err := head(s.db, id); {
	case err == nil && (due(&r.Head) != at.at || classOf(&r.Head) != at.class): // another's: see take
		return false, b.Delete(entry, nil)
	case err == nil:
		return true, remove(b, &r)
	case errors.Is(err, errFormat):
		return false, nil
	case unreadable(err):
		listed := append([]byte{listKey, byte(at.class)}, n...)
		return true, errors.Join(b.Delete(keyOf(headKey, id), nil), b.Delete(keyOf(bodyKey, id), nil), b.Delete(entry, nil), b.Delete(listed, nil))
	default:
		return false, err
	}
}
