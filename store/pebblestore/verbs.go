package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// reader is the tree, or what it was at a moment.
type reader = pebble.Reader

// value reads a copy of what is stored under a key.
func value(from reader, key []byte) ([]byte, error) {
	v, closer, err := from.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, stet.ErrNotFound
	case err != nil:
		return nil, corrupt(err)
	}
	v = slices.Clone(v)
	return v, closer.Close()
}

// corrupt marks the tree's error of a damaged file as what it is for the caller.
func corrupt(err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", stet.ErrCorrupt, err)
	}
	return err
}

func head(from reader, id stet.ID) (row, error) {
	key := keyOf(headKey, id)
	v, err := value(from, key)
	if err != nil {
		return row{}, err
	}
	return decode(key, v)
}

// record reads head and body. Both are of one write: the caller holds the record's lock, or reads
// from a snapshot.
func record(from reader, id stet.ID) (got stet.Record, r row, err error) {
	if r, err = head(from, id); err != nil {
		return got, r, err
	}
	got.Head = r.Head
	if !r.body {
		return got, r, nil
	}
	key := keyOf(bodyKey, id)
	v, err := value(from, key)
	if errors.Is(err, stet.ErrNotFound) {
		err = fmt.Errorf("%w: its body is missing", stet.ErrCorrupt)
	}
	if err == nil {
		v, err = opened(key, v)
	}
	if err == nil {
		if err = codec.Body(string(v[1:]), &got.Body); err != nil {
			err = fmt.Errorf("%w: %w", stet.ErrCorrupt, err)
		}
	}
	return got, r, err
}

// encodeBody returns the value of a body, or nil if there is nothing in it.
func encodeBody(id stet.ID, b *stet.Body) []byte {
	if b == nil || b.Response == nil && b.Request == nil && b.Progress == nil {
		return nil
	}
	return sealed(keyOf(bodyKey, id), codec.AppendBody([]byte{codec.Format}, b))
}

// put writes a head, and changes the indexes from those that old had. The caller holds the lock.
func (s *Store) put(b *pebble.Batch, old, r *row, rest []byte) error {
	key := keyOf(headKey, r.ID)
	err := b.Set(key, r.encode(key, rest), nil)
	var had [][2]string
	if old != nil {
		had = old.indexes()
	}
	has := r.indexes()
	for _, e := range had {
		if !slices.Contains(has, e) {
			err = errors.Join(err, b.Delete([]byte(e[0]), nil))
		}
	}
	for _, e := range has {
		if !slices.Contains(had, e) {
			err = errors.Join(err, b.Set([]byte(e[0]), []byte(e[1]), nil))
		}
	}
	return err
}

// Create implements [stet.Store].
func (s *Store) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	if err := codec.Check(&r.Head); err != nil {
		return stet.Record{}, fmt.Errorf("pebblestore: create: %w", err)
	}
	rest, body := appendRest(nil, &r.Head), encodeBody(r.ID, &r.Body)
	return work(ctx, s, "create", &r.ID, func() (stet.Record, error) {
		have, _, err := record(s.db, r.ID)
		switch {
		case err == nil:
			have.AsOf = asOf(&have.Head, s.now())
			return have, stet.ErrExists
		case !errors.Is(err, stet.ErrNotFound):
			return stet.Record{}, err
		case s.room.full():
			return stet.Record{}, stet.ErrFull
		}
		made := row{Head: r.Head, number: s.records.Add(1), body: body != nil}
		codec.Stamp(&made.Head, &stet.Head{}, s.now())
		b := s.db.NewBatch()
		err = s.put(b, nil, &made, rest)
		if body != nil {
			err = errors.Join(err, b.Set(keyOf(bodyKey, r.ID), body, nil))
		}
		return stet.Record{Head: made.Head, Body: r.Body}, s.commit(b, err)
	})
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	return work(ctx, s, "get", &id, func() (stet.Record, error) {
		got, _, err := record(s.db, id)
		if err != nil {
			return stet.Record{}, err
		}
		got.AsOf = asOf(&got.Head, s.now())
		return got, nil
	})
}

// Replace implements [stet.Store].
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if err := codec.Check(&h); err != nil {
		return stet.Head{}, fmt.Errorf("pebblestore: replace: %w", err)
	}
	rest, body := appendRest(nil, &h), encodeBody(h.ID, b)
	var entry []byte
	if h.Note != nil {
		entry = entryOf(&h)
	}
	return work(ctx, s, "replace", &h.ID, func() (stet.Head, error) {
		old, err := head(s.db, h.ID)
		switch {
		case err != nil:
			return stet.Head{}, err
		case old.Version != prev:
			old.AsOf = asOf(&old.Head, s.now())
			return old.Head, stet.ErrStale
		}
		next := row{Head: h, number: old.number, body: old.body}
		codec.Stamp(&next.Head, &old.Head, s.now())
		batch := s.db.NewBatch()
		if b != nil {
			next.body = body != nil
		}
		err = s.put(batch, &old, &next, rest)
		switch key := keyOf(bodyKey, h.ID); {
		case body != nil:
			err = errors.Join(err, batch.Set(key, body, nil))
		case old.body && !next.body:
			err = errors.Join(err, batch.Delete(key, nil))
		}
		if entry != nil {
			err = errors.Join(err, s.addChange(batch, h.ID, old.State, next.UpdatedAt, entry))
		}
		if err = s.commit(batch, err); err != nil {
			return stet.Head{}, err
		}
		s.waits.Ring(h.ID)
		return next.Head, nil
	})
}

// Delete implements [stet.Store].
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	_, err := work(ctx, s, "delete", &id, func() (struct{}, error) {
		old, err := head(s.db, id)
		switch {
		case err != nil:
			return struct{}{}, err
		case old.Version != prev:
			return struct{}{}, stet.ErrStale
		}
		b := s.db.NewBatch()
		err = s.commit(b, remove(b, &old))
		s.waits.Ring(id)
		return struct{}{}, err
	})
	return err
}

// remove deletes all keys of a record.
func remove(b *pebble.Batch, r *row) error {
	err := errors.Join(b.Delete(keyOf(headKey, r.ID), nil), b.Delete(keyOf(bodyKey, r.ID), nil))
	for _, e := range r.indexes() {
		err = errors.Join(err, b.Delete([]byte(e[0]), nil))
	}
	return err
}

// Wait implements [stet.Waiter]. It is exact, since no other process can write.
func (s *Store) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	changed, leave := s.waits.Enter(id)
	defer leave()
	if r, err := s.Get(ctx, id); err != nil || r.Version != seen {
		if errors.Is(err, stet.ErrNotFound) || errors.Is(err, stet.ErrCorrupt) {
			err = nil
		}
		return err
	}
	select {
	case <-changed:
		return nil
	case <-s.stop:
		return *s.sick.Load()
	case <-s.closing:
		return fmt.Errorf("pebblestore: wait: %w", fs.ErrClosed)
	case <-ctx.Done():
		return ctx.Err()
	}
}
