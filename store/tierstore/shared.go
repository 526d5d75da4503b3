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

// Shared returns a cache that several processes share. s is any store but the origin, and holds
// nothing else. Nothing reaps the copies in it, so it should be a store that drops expired records
// by itself, such as Redis. It may evict records and lose them.
func Shared(s stet.Store) Cache { return shared{s} }

type shared struct{ store stet.Store }

func (f shared) see(_ stet.ID, now time.Time) mark { return mark{at: now} }

func (f shared) take(ctx context.Context, id stet.ID, _ time.Time) (stet.Record, time.Duration, bool, error) {
	have, err := f.store.Get(ctx, id)
	if err != nil {
		return stet.Record{}, 0, false, unlessAnswered(err)
	}
	r, ok := open(have)
	return r, have.AsOf.Sub(have.UpdatedAt), ok && !have.Over(), nil
}

func (f shared) put(ctx context.Context, r stet.Record, ttl time.Duration, _ mark) (stored bool, _ error) {
	c := pack(r, ttl)
	have, err := f.store.Create(ctx, c)
	if !errors.Is(err, stet.ErrExists) {
		return err == nil, unlessAnswered(err)
	}
	if have.Left > 0 && !have.Over() { // it may be newer, and its reader will tell
		return false, nil
	}
	if old, ok := open(have); ok && !have.Over() && (old.Version == r.Version || newer(&old.Head, &r.Head)) {
		return old.Version == r.Version, nil
	}
	_, err = f.store.Replace(ctx, have.Version, c.Head, &c.Body)
	return err == nil, unlessAnswered(err)
}

func (f shared) drop(ctx context.Context, id stet.ID) error {
	have, err := f.store.Get(stet.WithMaxBody(ctx, 0), id)
	if err == nil {
		err = f.store.Delete(ctx, id, have.Version)
	}
	return unlessAnswered(err)
}

func (f shared) local() bool  { return false }
func (f shared) close() error { return ability.Close(f.store) }

// unlessAnswered returns nil if the cache has no room, does not have the record any more, or cannot
// read it: such a cache has not failed.
func unlessAnswered(err error) error {
	if slices.ContainsFunc([]error{stet.ErrNotFound, stet.ErrStale, stet.ErrFull, stet.ErrCorrupt},
		func(answer error) bool { return errors.Is(err, answer) }) {
		return nil
	}
	return err
}

// pack turns a copy into a record of the cache. That record has a version, a state and instants of
// its own; those of the copy go into the body, as a stamp.
func pack(r stet.Record, ttl time.Duration) stet.Record {
	c := r
	c.Progress = append(appendStamp(nil, &r.Head), r.Progress...)
	c.Version = randomVersion()
	c.State, c.Rules, c.Note, c.Tag = stet.Completed, stet.Rules{Retain: ttl}, nil, "" // no copy is looked up by its tag
	c.DueIn, c.CreatedAt, c.CompletedAt = ttl, time.Time{}, time.Time{}
	return c
}

// open is the inverse of pack. It reports false for a record that this version cannot read, and for
// one whose body was left, in which the stamp is.
func open(c stet.Record) (r stet.Record, ok bool) {
	r = c
	r.DueIn = 0
	rest, ok := cutStamp(c.Progress, &r.Head)
	if r.Progress = nil; len(rest) > 0 {
		r.Progress = rest
	}
	return r, ok
}

func randomVersion() stet.Version { return stet.Version(rand.Uint64()>>1 | 1) }
