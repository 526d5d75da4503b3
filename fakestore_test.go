package stet_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stet-dev/stet"
)

// fakeStore is a store of a few lines, without any ability: what the engine needs, and nothing that
// could hide a fault of the engine's. A test sees and changes every step of it.
type fakeStore struct {
	skew   time.Duration                  // of its clock against the local one; changed by the test between calls
	before func(verb string, n int) error // fails the n-th call of a verb before it happens, counted from 1; may be nil
	after  func(verb string, n int) error // ... after it happened
	refuse func(b *stet.Body) bool        // whether it can never store this; may be nil

	mu      sync.Mutex
	records map[stet.ID]stet.Record
	calls   map[string]int
}

var _ stet.Store = (*fakeStore)(nil)

func (s *fakeStore) now() time.Time { return time.Now().Add(s.skew).UTC().Truncate(time.Microsecond) }

// count is how often a verb was called.
func (s *fakeStore) count(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[verb]
}

// call runs one verb as the test wants it.
func (s *fakeStore) call(ctx context.Context, verb string, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.calls == nil {
		s.calls, s.records = map[string]int{}, map[stet.ID]stet.Record{}
	}
	s.calls[verb]++
	n, before, after := s.calls[verb], s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(verb, n); err != nil {
			return err
		}
	}
	s.mu.Lock()
	err := do()
	s.mu.Unlock()
	if after != nil {
		if lost := after(verb, n); lost != nil {
			return lost
		}
	}
	return err
}

// read returns the record as it is, and is not counted.
func (s *fakeStore) read(id stet.ID) (stet.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[id]
	r.AsOf = s.now()
	return r, ok
}

// change edits a record behind the engine's back.
func (s *fakeStore) change(id stet.ID, edit func(*stet.Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[id]
	edit(&r)
	s.records[id] = r
}

func (s *fakeStore) stamped(h stet.Head) stet.Head {
	now := s.now()
	h.UpdatedAt, h.AsOf, h.DueAt = now, now, time.Time{}
	if h.DueIn >= 0 {
		h.DueAt = now.Add(h.DueIn.Truncate(time.Microsecond))
	}
	if h.CreatedAt.IsZero() {
		h.CreatedAt = now
	}
	switch {
	case h.State == stet.Completed && h.CompletedAt.IsZero():
		h.CompletedAt = now
	case h.State != stet.Completed && h.State != stet.Expired:
		h.CompletedAt = time.Time{}
	}
	h.Meta = maps.Clone(h.Meta)
	return h
}

func (s *fakeStore) Create(ctx context.Context, r stet.Record) (got stet.Record, err error) {
	err = s.call(ctx, "create", func() error {
		have, ok := s.records[r.ID]
		if ok {
			have.AsOf, have.Body = s.now(), have.UpTo(stet.MaxBody(ctx))
			got = have
			return stet.ErrExists
		}
		r.CreatedAt = time.Time{}
		r.Head = s.stamped(r.Head)
		s.records[r.ID] = r
		got = r
		return nil
	})
	return answered(got, err)
}

// answered drops what came with a call whose reply was lost.
func answered[T any](got T, err error) (T, error) {
	if err == nil || err == stet.ErrExists || err == stet.ErrStale {
		return got, err
	}
	var nothing T
	return nothing, err
}

func (s *fakeStore) Get(ctx context.Context, id stet.ID) (got stet.Record, err error) {
	err = s.call(ctx, "get", func() error {
		have, ok := s.records[id]
		if !ok {
			return stet.ErrNotFound
		}
		have.AsOf, have.Body = s.now(), have.UpTo(stet.MaxBody(ctx))
		got = have
		return nil
	})
	return answered(got, err)
}

func (s *fakeStore) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (got stet.Head, err error) {
	err = s.call(ctx, "replace", func() error {
		if s.refuse != nil && s.refuse(b) {
			return stet.ErrRefused
		}
		have, ok := s.records[h.ID]
		if !ok {
			return stet.ErrNotFound
		}
		if have.Version != prev {
			have.AsOf = s.now()
			got = have.Head
			return stet.ErrStale
		}
		have.Head = s.stamped(h)
		if b != nil {
			have.Body = *b
		}
		s.records[h.ID] = have
		got = have.Head
		return nil
	})
	return answered(got, err)
}

func (s *fakeStore) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	return s.call(ctx, "delete", func() error {
		have, ok := s.records[id]
		if !ok {
			return stet.ErrNotFound
		}
		if have.Version != prev {
			return stet.ErrStale
		}
		delete(s.records, id)
		return nil
	})
}

func (s *fakeStore) Due(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	err = s.call(ctx, "due", func() error {
		for _, r := range s.records {
			r.AsOf = s.now()
			if r.Over() && q.Matches(&r.Head) && cursor(&r.Head) > q.After {
				heads = append(heads, r.Head)
			}
		}
		slices.SortFunc(heads, func(a, b stet.Head) int { return cmp.Compare(cursor(&a), cursor(&b)) })
		if n := q.Bound(); len(heads) > n {
			heads, next = heads[:n], cursor(&heads[n-1])
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return heads, next, nil
}

// cursor is the place of a record among what is due, as text that sorts like it.
func cursor(h *stet.Head) string { return fmt.Sprintf("%020d %s", h.DueAt.UnixMicro(), h.Key) }
