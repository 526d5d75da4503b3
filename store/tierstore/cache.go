package tierstore

import (
	"cmp"
	"context"
	"hash/maphash"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/stet-dev/stet"
)

// Cache holds copies of records: a [Memory], or what [Shared] returns.
type Cache interface {
	// see returns a mark of id as it is now. The caller asks the origin after that.
	see(id stet.ID) mark
	// take returns the copy of id as it was put, and how long ago that was.
	take(ctx context.Context, id stet.ID, now time.Time) (r stet.Record, age time.Duration, ok bool, err error)
	// put keeps r for at most ttl, unless the cache has a newer copy, or something was written
	// since m was seen: then r may be out of date. It keeps references to r.
	put(ctx context.Context, r stet.Record, ttl time.Duration, now time.Time, m mark) error
	drop(ctx context.Context, id stet.ID) error
	// local reports whether the cache answers at once and never fails.
	local() bool
	close() error
}

// newer reports whether copy a is of a later write than copy b. Of two writes at the same instant,
// the run is the earlier.
func newer(a, b *stet.Head) bool {
	return a.UpdatedAt.After(b.UpdatedAt) ||
		a.UpdatedAt.Equal(b.UpdatedAt) && a.State != stet.Running && b.State == stet.Running
}

// DefaultMemoryBytes is the default size of a [Memory]: 64 MiB, and so at most 65,536 copies.
const DefaultMemoryBytes = 64 << 20

// Memory is a cache in the memory of the process. When it is full, it evicts what is asked for
// least. It is safe for concurrent use, but each Memory serves one [Store] only.
type Memory struct {
	max     int64
	entries *otter.Cache[stet.ID, *entry]
	hash    func(stet.ID) uint32
	stripes [4096]stripe
}

// A stripe counts what happened to the records whose hashes have the same remainder.
type stripe struct {
	writes  atomic.Uint64 // by this process
	notices atomic.Uint64 // of changes by others
}

// A mark is what a stripe had counted when the origin was asked. That of a shared cache is zero.
type mark struct {
	stripe          *stripe
	writes, notices uint64
	firm            bool // what is put with it is put whatever else was written
}

// wrote counts a write of the caller's own. It reports false if another one was counted since see:
// then it is not known which of them the origin did first.
func (m *mark) wrote() bool {
	if m.stripe == nil {
		return true
	}
	m.writes++
	return m.stripe.writes.CompareAndSwap(m.writes-1, m.writes)
}

type entry struct {
	record stet.Record
	at     time.Time // by the clock of the process
	mark   mark
	weight uint32
}

// NewMemory returns an empty cache of maxBytes; 0 means [DefaultMemoryBytes]. All that a copy takes
// counts, not its body alone, and never less than a kilobyte. While it evicts, the cache may exceed
// the limit for a moment. It does not keep a copy that takes more than an eighth of maxBytes,
// because that would evict too many others.
func NewMemory(maxBytes int64) *Memory {
	seed := maphash.MakeSeed()
	c := &Memory{max: max(cmp.Or(maxBytes, DefaultMemoryBytes), 1),
		hash: func(id stet.ID) uint32 { return uint32(maphash.Comparable(seed, id)) }}
	c.entries = otter.Must(&otter.Options[stet.ID, *entry]{
		MaximumWeight: uint64(c.max),
		Weigher:       func(_ stet.ID, e *entry) uint32 { return e.weight },
	})
	return c
}

// Bytes returns the approximate size of all copies in the cache.
func (c *Memory) Bytes() int64 { return int64(c.entries.WeightedSize()) }

func (c *Memory) stripe(hash uint32) *stripe { return &c.stripes[hash%uint32(len(c.stripes))] }

func (c *Memory) see(id stet.ID) mark {
	s := c.stripe(c.hash(id))
	return mark{stripe: s, writes: s.writes.Load(), notices: s.notices.Load()}
}

func (c *Memory) take(_ context.Context, id stet.ID, now time.Time) (stet.Record, time.Duration, bool, error) {
	e, ok := c.entries.GetIfPresent(id)
	if !ok || e.mark.notices != e.mark.stripe.notices.Load() {
		return stet.Record{}, 0, false, nil
	}
	return e.record, now.Sub(e.at), true, nil
}

func (c *Memory) put(_ context.Context, r stet.Record, _ time.Duration, now time.Time, m mark) error {
	size := weigh(&r)
	if size > min(c.max/8, math.MaxUint32) {
		c.entries.Invalidate(r.ID)
		return nil
	}
	// The strings may be parts of a whole request header, which an entry must not keep in memory.
	r.ID = stet.ID{Scope: stet.Scope(strings.Clone(string(r.Scope))), Key: stet.Key(strings.Clone(string(r.Key)))}
	e := &entry{r, now, m, uint32(size)}
	c.entries.Compute(r.ID, func(old *entry, found bool) (*entry, otter.ComputeOp) {
		if !m.firm && m.writes != m.stripe.writes.Load() || found && newer(&old.record.Head, &r.Head) {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
	return nil
}

// drop also keeps what the origin was asked for before the write from being put after it.
func (c *Memory) drop(_ context.Context, id stet.ID) error {
	c.stripe(c.hash(id)).writes.Add(1)
	c.entries.Invalidate(id)
	return nil
}

// changed forgets the copies of records with the hash: another process has changed one of them.
func (c *Memory) changed(hash uint32) { c.stripe(hash).notices.Add(1) }

// forget forgets all copies, and those that are on their way.
func (c *Memory) forget() {
	for i := range c.stripes {
		c.stripes[i].notices.Add(1)
	}
	c.entries.InvalidateAll()
}

func (c *Memory) local() bool  { return true }
func (c *Memory) close() error { c.entries.InvalidateAll(); return nil }

// An entry takes about overhead bytes beside its strings and byte slices, and each of its strings
// or fields perString.
const (
	overhead  = 1024
	perString = 16
)

// weigh returns about how many bytes a copy of r takes.
func weigh(r *stet.Record) int64 {
	h, b := &r.Head, &r.Body
	n := overhead + len(b.Request) + len(b.Progress) + len(h.Scope) + len(h.Key)
	for _, s := range [...]string{h.Fingerprint.Recipe, h.Point, h.Cause, h.Holder, h.Route, h.Method, h.Path, h.TraceID,
		h.DownstreamKey, h.DownstreamID} {
		n += len(s)
	}
	for k, v := range h.Meta {
		n += len(k) + len(v) + 4*perString
	}
	if h.Note != nil {
		n += len(h.Note.Who) + len(h.Note.Why) + len(h.Note.Evidence) + len(h.Note.Notice) + 4*perString
	}
	if b.Response != nil {
		n += len(b.Response.Body)
		for _, fields := range [...][]stet.Field{b.Response.Header, b.Response.Trailer} {
			for _, f := range fields {
				n += len(f.Name) + len(f.Value) + 2*perString
			}
		}
	}
	return int64(n)
}
