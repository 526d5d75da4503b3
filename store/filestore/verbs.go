package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"syscall"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// Create implements [stet.Store].
func (s *Store) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	r = owned(r)
	name := nameOf(r.ID)
	return write(ctx, s, "create", name, func(ctx context.Context) (stet.Record, error) {
		for {
			have, err := s.get(ctx, name, stet.MaxBody(ctx))
			switch {
			case err == nil:
				have.AsOf = s.now()
				return have, stet.ErrExists
			case !errors.Is(err, stet.ErrNotFound):
				return stet.Record{}, err
			}
			err = s.create(ctx, &r, name)
			switch {
			case err == nil:
				return r, nil
			case !errors.Is(err, errTaken): // else another process was faster: its record is the answer
				return stet.Record{}, err
			}
		}
	})
}

// errTaken is returned if another process has given the record's name to its file.
var errTaken = errors.New("the key is taken")

func (s *Store) create(ctx context.Context, r *stet.Record, name string) error {
	now, err := s.stamp()
	if err != nil {
		return err
	}
	codec.Stamp(&r.Head, &stet.Head{}, now)
	d, err := s.draft(r, name)
	if err != nil {
		return full(err)
	}
	defer d.close()
	if err := ctx.Err(); err != nil {
		return errors.Join(err, d.discard())
	}
	switch err := s.link(d.temp, pathOf(name)); {
	case errors.Is(err, fs.ErrExist):
		return errors.Join(errTaken, d.discard())
	case err != nil:
		return full(errors.Join(err, d.discard()))
	}
	// From here on the record exists. No error may be ErrFull, which says that nothing was stored.
	if err := s.settle(name); err != nil {
		return err
	}
	_ = s.remove(d.temp) // or the next Open does
	return nil
}

// full turns an error before which nothing was stored into [stet.ErrFull] if the disk or the
// owner's quota is used up.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", stet.ErrFull, err)
	}
	return err
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	return work(ctx, s, "get", "", func(ctx context.Context) (stet.Record, error) {
		r, err := s.get(ctx, nameOf(id), stet.MaxBody(ctx))
		if err == nil {
			r.AsOf = s.now()
		}
		return r, err
	})
}

// Replace implements [stet.Store].
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	next := stet.Record{Head: h}
	if b != nil {
		next.Body = *b
	}
	next = owned(next)
	name := nameOf(h.ID)
	return write(ctx, s, "replace", name, func(ctx context.Context) (stet.Head, error) {
		f, err := s.open(ctx, name, exclusive)
		if err != nil {
			return stet.Head{}, err
		}
		defer func() { _ = release(f) }() // it was only read
		most := int64(0)
		if b == nil { // its body stays
			most = math.MaxInt64
		}
		old, err := s.settled(f, name, most)
		switch {
		case err != nil:
			return stet.Head{}, err
		case old.Version != prev:
			old.AsOf = s.now()
			return old.Head, stet.ErrStale
		}
		if b == nil {
			next.Body = old.Body
		}
		now, err := s.stamp()
		if err != nil {
			return stet.Head{}, err
		}
		codec.Stamp(&next.Head, &old.Head, now)
		if err := s.replace(ctx, &old.Head, &next, name); err != nil {
			return stet.Head{}, err
		}
		return next.Head, nil
	})
}

func (s *Store) replace(ctx context.Context, old *stet.Head, next *stet.Record, name string) error {
	d, err := s.draft(next, name)
	if err != nil {
		return err
	}
	defer d.close()
	if err := ctx.Err(); err != nil {
		return errors.Join(err, d.discard())
	}
	var c *change
	if next.Note != nil {
		c = changeOf(old, &next.Head)
		if err := s.announce(c, name); err != nil {
			return errors.Join(err, d.discard())
		}
	}
	if err := s.root.Rename(d.temp, pathOf(name)); err != nil {
		if c != nil {
			err = errors.Join(err, s.withdraw(name))
		}
		return errors.Join(err, d.discard())
	}
	if err := s.settle(name); err != nil {
		return err
	}
	s.forget(old, d.entry, name)
	if c != nil {
		return s.conclude(c, name, false)
	}
	return nil
}

// settled reads a record, which is locked, once all its changes are in the history.
func (s *Store) settled(f *os.File, name string, most int64) (stet.Record, error) {
	r, err := read(f, name, most)
	if err == nil {
		err = s.repair(&r.Head, name)
	}
	return r, err
}

// Delete implements [stet.Store].
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	name := nameOf(id)
	_, err := write(ctx, s, "delete", name, func(ctx context.Context) (struct{}, error) {
		f, err := s.open(ctx, name, exclusive)
		if err != nil {
			return struct{}{}, err
		}
		defer func() { _ = release(f) }()
		old, err := s.settled(f, name, 0)
		switch {
		case err != nil:
			return struct{}{}, err
		case old.Version != prev:
			return struct{}{}, stet.ErrStale
		case ctx.Err() != nil:
			return struct{}{}, ctx.Err()
		}
		if err := s.reach(instant(old.Fence() + 1)); err != nil { // for the next life of the key
			return struct{}{}, err
		}
		if err := s.root.Remove(pathOf(name)); err != nil {
			return struct{}{}, err
		}
		err = s.settle(name)
		if err == nil {
			s.forget(&old.Head, "", name)
		}
		return struct{}{}, err
	})
	return err
}

// owned copies what the caller may change after the call, which may return before its work is done.
func owned(r stet.Record) stet.Record {
	r.Meta = maps.Clone(r.Meta)
	return codec.Owned(r)
}
