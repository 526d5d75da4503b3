// Package memstore keeps records in memory: for tests, and for one process that may forget.
package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet"
)

// Config of a Store. The zero value works.
type Config struct {
	MaxKeys int              // default 1,000,000
	Clock   func() time.Time // default time.Now
}

// Store keeps records in a map. It refuses new keys rather than forget live ones.
type Store struct {
	cfg Config

	mu      sync.Mutex
	records map[stet.ID]*stet.Record
	latest  time.Time
}

var _ stet.Store = (*Store)(nil)

// New returns an empty Store.
func New(c Config) *Store {
	c.MaxKeys = cmp.Or(c.MaxKeys, 1_000_000)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &Store{cfg: c, records: map[stet.ID]*stet.Record{}}
}

func (s *Store) now() time.Time {
	if n := s.cfg.Clock().UTC().Truncate(time.Microsecond); n.After(s.latest) {
		s.latest = n
	}
	return s.latest
}

func stamp(h *stet.Head, now time.Time) {
	h.UpdatedAt, h.DueAt, h.AsOf = now, time.Time{}, time.Time{}
	if h.DueIn >= 0 {
		h.DueAt = now.Add(h.DueIn.Truncate(time.Microsecond))
	}
	h.DueIn = 0
	if h.CreatedAt.IsZero() {
		h.CreatedAt = now
	}
	switch {
	case h.State != stet.Completed && h.State != stet.Expired:
		h.CompletedAt = time.Time{}
	case h.CompletedAt.IsZero():
		h.CompletedAt = now
	}
}

// Create implements [stet.Store].
func (s *Store) Create(_ context.Context, r stet.Record) (stet.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if have, ok := s.records[r.ID]; ok {
		return asOf(*have, now), stet.ErrExists
	}
	if len(s.records) >= s.cfg.MaxKeys {
		return stet.Record{}, stet.ErrFull
	}
	r.CreatedAt, r.CompletedAt = time.Time{}, time.Time{}
	stamp(&r.Head, now)
	r.Key, r.Path = stet.Key(strings.Clone(string(r.Key))), strings.Clone(r.Path)
	r.Body = copied(&r.Body)
	s.records[r.ID] = &r
	return asOf(r, now), nil
}

func asOf(r stet.Record, now time.Time) stet.Record {
	r.AsOf = now
	return r
}

func copied(b *stet.Body) stet.Body {
	c := stet.Body{Request: bytes.Clone(b.Request), Progress: bytes.Clone(b.Progress)}
	if b.Response != nil {
		c.Response = &stet.Response{Status: b.Response.Status, Header: slices.Clone(b.Response.Header),
			Trailer: slices.Clone(b.Response.Trailer), Body: bytes.Clone(b.Response.Body)}
	}
	return c
}

// Get implements [stet.Store].
func (s *Store) Get(_ context.Context, id stet.ID) (stet.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.records[id]
	if !ok {
		return stet.Record{}, stet.ErrNotFound
	}
	return asOf(*have, s.now()), nil
}

// Replace implements [stet.Store].
func (s *Store) Replace(_ context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.records[h.ID]
	if !ok {
		return stet.Head{}, stet.ErrNotFound
	}
	now := s.now()
	if have.Version != prev {
		return asOf(*have, now).Head, stet.ErrStale
	}
	next := stet.Record{Head: h, Body: have.Body}
	next.ID = have.ID
	stamp(&next.Head, now)
	if b != nil {
		next.Body = copied(b)
	}
	s.records[have.ID] = &next
	return asOf(next, now).Head, nil
}

// Delete implements [stet.Store].
func (s *Store) Delete(_ context.Context, id stet.ID, prev stet.Version) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.records[id]
	switch {
	case !ok:
		return stet.ErrNotFound
	case have.Version != prev:
		return stet.ErrStale
	}
	delete(s.records, id)
	return nil
}

// Due implements [stet.Store].
func (s *Store) Due(_ context.Context, q stet.Query) ([]stet.Head, error) {
	heads := s.selected(q, func(h *stet.Head) bool { return h.Over() })
	slices.SortFunc(heads, func(a, b stet.Head) int { return a.DueAt.Compare(b.DueAt) })
	return heads[:min(len(heads), limit(q))], nil
}

// List implements [stet.Lister].
func (s *Store) List(_ context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	heads = s.selected(q, func(h *stet.Head) bool { return name(h) > q.After })
	slices.SortFunc(heads, func(a, b stet.Head) int { return strings.Compare(name(&a), name(&b)) })
	if n := limit(q); len(heads) > n {
		heads = heads[:n]
		next = name(&heads[n-1])
	}
	return heads, next, nil
}

// Count implements [stet.Counter].
func (s *Store) Count(_ context.Context, q stet.Query) (int, error) {
	return len(s.selected(q, func(*stet.Head) bool { return true })), nil
}

func name(h *stet.Head) string { return string(h.Scope) + "\x00" + string(h.Key) }

func limit(q stet.Query) int { return cmp.Or(q.Limit, stet.DefaultLimit) }

func (s *Store) selected(q stet.Query, also func(*stet.Head) bool) (heads []stet.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, r := range s.records {
		h := asOf(*r, now).Head
		if (len(q.States) == 0 || slices.Contains(q.States, h.State)) && (q.Scope == "" || q.Scope == h.Scope) &&
			(q.Route == "" || q.Route == h.Route) && (!q.Failed || h.Status >= 500) && (!q.Succeeded || h.Status < 500) &&
			!h.CreatedAt.After(now.Add(-q.OlderThan)) && also(&h) {
			heads = append(heads, h)
		}
	}
	return heads
}
