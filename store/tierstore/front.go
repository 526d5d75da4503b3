package tierstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

// Front holds copies of records: a [Cache], or what [Shared] returns.
type Front interface {
	// take returns the copy of id as it was put, and how long ago that was.
	take(ctx context.Context, id stet.ID, now time.Time) (r stet.Record, age time.Duration, ok bool, err error)
	// put keeps r for ttl at most, unless there is a copy that is newer. It keeps references to r.
	put(ctx context.Context, r stet.Record, ttl time.Duration, now time.Time) error
	drop(ctx context.Context, id stet.ID) error
	// local: it answers at once, and does not fail.
	local() bool
	close() error
}

// Shared is a front that several processes share: any store that is not the back's, with nothing else in it. Nobody reaps
// what ended in it, so it should be one that lets go of expired records by itself, such as Redis; it may also be one that
// evicts and forgets.
func Shared(s stet.Store) Front { return shared{s} }

type shared struct{ store stet.Store }

func (f shared) take(ctx context.Context, id stet.ID, _ time.Time) (stet.Record, time.Duration, bool, error) {
	have, err := f.store.Get(ctx, id)
	if err != nil {
		return stet.Record{}, 0, false, unlessAnswered(err)
	}
	r, ok := open(have)
	return r, have.AsOf.Sub(have.UpdatedAt), ok && !have.Over(), nil
}

func (f shared) put(ctx context.Context, r stet.Record, ttl time.Duration, _ time.Time) error {
	c := pack(r, ttl)
	have, err := f.store.Create(ctx, c)
	if !errors.Is(err, stet.ErrExists) {
		return unlessAnswered(err)
	}
	if old, ok := open(have); ok && !have.Over() && (old.Version == r.Version || newer(&old.Head, &r.Head)) {
		return nil
	}
	_, err = f.store.Replace(ctx, have.Version, c.Head, &c.Body)
	return unlessAnswered(err)
}

// newer reports whether a copy is of a later write than another. Of two of one instant the run is the earlier.
func newer(a, b *stet.Head) bool {
	return a.UpdatedAt.After(b.UpdatedAt) || a.UpdatedAt.Equal(b.UpdatedAt) && a.State != stet.Running && b.State == stet.Running
}

func (f shared) drop(ctx context.Context, id stet.ID) error {
	have, err := f.store.Get(ctx, id)
	if err == nil {
		err = f.store.Delete(ctx, id, have.Version)
	}
	return unlessAnswered(err)
}

func (f shared) local() bool  { return false }
func (f shared) close() error { return ability.Close(f.store) }

// unlessAnswered: a front that has no room, or not the record any more, or cannot read it, has not failed.
func unlessAnswered(err error) error {
	for _, answer := range [...]error{stet.ErrNotFound, stet.ErrStale, stet.ErrFull, stet.ErrCorrupt} {
		if errors.Is(err, answer) {
			return nil
		}
	}
	return err
}

// pack makes a record of the front's own out of a copy: its version, its state and its instants are those of the copy, as far
// as the front is concerned, and what the back said goes into the body.
func pack(r stet.Record, ttl time.Duration) stet.Record {
	c := r
	c.Progress = append(appendStamp(nil, &r.Head), r.Progress...)
	c.Version = stet.Version(rand.Uint64()>>1 | 1)
	c.State, c.Rules, c.Note, c.Tag = stet.Completed, stet.Rules{Retain: ttl}, nil, "" // nobody looks for a copy by its tag
	c.DueIn, c.CreatedAt, c.CompletedAt = ttl, time.Time{}, time.Time{}
	return c
}

// open is the inverse of pack. A record that this version cannot read is none.
func open(c stet.Record) (r stet.Record, ok bool) {
	r = c
	r.DueIn = 0
	rest, ok := cutStamp(c.Progress, &r.Head)
	if r.Progress = nil; len(rest) > 0 {
		r.Progress = rest
	}
	return r, ok
}

// clone copies what the caller may change after the call.
func clone(b stet.Body) stet.Body {
	b.Request, b.Progress = slices.Clone(b.Request), slices.Clone(b.Progress)
	if b.Response != nil {
		r := *b.Response
		r.Header, r.Trailer, r.Body = slices.Clone(r.Header), slices.Clone(r.Trailer), slices.Clone(r.Body)
		b.Response = &r
	}
	return b
}
