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
	"github.com/stet-dev/stet/internal/codec"
)

// Cache holds copies of records: a [Memory], or what [Shared] returns.
type Cache interface {
	// see returns a mark of id as it is now. The caller asks the origin after that.
	see(id stet.ID, now time.Time) mark
	// take returns the copy of id as it was put, and its age.
	take(ctx context.Context, id stet.ID, now time.Time) (r stet.Record, age time.Duration, ok bool, err error)
	// put keeps a copy of r for at most ttl, unless the cache has a newer one, or something was
	// written since m was seen: then r may be out of date. It reports whether the cache has this
	// copy now; if not, it may still have another one. It keeps no reference to r.
	put(ctx context.Context, r stet.Record, ttl time.Duration, m mark) (stored bool, err error)
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

// defaultMemoryBytes is the default size of a [Memory]: 64 MiB, and so at most 65,536 copies.
const defaultMemoryBytes = 64 << 20

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

// A mark is when the origin was asked, by the clock of the process, and what a stripe had counted
// then. That of a shared cache has no stripe.
type mark struct {
	at              time.Time
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
	mark   mark
	weight uint32
}

// NewMemory returns an empty cache of maxBytes; 0 means 64 MiB. [New] refuses one whose size is out
// of bounds. All that a copy takes
// counts, not its body alone, and never less than a kilobyte. While it evicts, the cache may exceed
// the limit for a moment. It does not keep a copy that takes more than an eighth of maxBytes,
// because that would evict too many others.
func NewMemory(maxBytes int64) *Memory {
	seed := maphash.MakeSeed()
	c := &Memory{max: cmp.Or(maxBytes, defaultMemoryBytes),
		hash: func(id stet.ID) uint32 { return uint32(maphash.Comparable(seed, id)) }}
	c.entries = otter.Must(&otter.Options[stet.ID, *entry]{
		MaximumWeight: uint64(max(c.max, 1)),
		Weigher:       func(_ stet.ID, e *entry) uint32 { return e.weight },
	})
	return c
}

// Bytes returns the approximate size of all copies in the cache.
func (c *Memory) Bytes() int64 { return int64(c.entries.WeightedSize()) }

func (c *Memory) stripe(hash uint32) *stripe { return &c.stripes[hash%uint32(len(c.stripes))] }

func (c *Memory) see(id stet.ID, now time.Time) mark {
	s := c.stripe(c.hash(id))
	return mark{at: now, stripe: s, writes: s.writes.Load(), notices: s.notices.Load()}
}

func (c *Memory) take(_ context.Context, id stet.ID, now time.Time) (stet.Record, time.Duration, bool, error) {
	e, ok := c.entries.GetIfPresent(id)
	if !ok || e.mark.notices != e.mark.stripe.notices.Load() {
		return stet.Record{}, 0, false, nil
	}
	return e.record, now.Sub(e.mark.at), true, nil
}

// put copies r before it looks: it holds a lock while it looks.
func (c *Memory) put(_ context.Context, r stet.Record, _ time.Duration, m mark) (stored bool, _ error) {
	size := weigh(&r)
	if size > min(c.max/8, math.MaxUint32) {
		c.entries.Invalidate(r.ID)
		return false, nil
	}
	r = detached(r)
	e := &entry{r, m, uint32(size)}
	c.entries.Compute(r.ID, func(old *entry, found bool) (*entry, otter.ComputeOp) {
		if !m.firm && m.writes != m.stripe.writes.Load() || found && newer(&old.record.Head, &r.Head) {
			return old, otter.CancelOp
		}
		stored = true
		return e, otter.WriteOp
	})
	return stored, nil
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

// An entry takes about overhead bytes beside its strings, byte slices and fields. A map takes
// perMap besides, and perPair for each of its pairs.
const (
	overhead  = 1024
	perString = 16
	perMap    = 20 * perString
	perPair   = 5 * perString
)

// weigh returns about how many bytes a copy of r takes.
func weigh(r *stet.Record) int64 {
	n := overhead + len(r.Request) + len(r.Progress)
	strs(r, func(s *string) { n += len(*s) })
	if len(r.Meta) > 0 {
		n += perMap
	}
	for k, v := range r.Meta {
		n += len(k) + len(v) + perPair
	}
	if a := r.Response; a != nil {
		n += len(a.Body) + (len(a.Header)+len(a.Trailer))*2*perString
	}
	return int64(n)
}

// detached returns a copy of r that shares no memory with it. The strings and slices of r may be
// parts of something far larger, such as the header of a request or the answer of a server, which
// would stay in memory with the copy. The strings of the copy are parts of one.
func detached(r stet.Record) stet.Record {
	r = codec.Owned(r)
	size := 0
	strs(&r, func(s *string) { size += len(*s) })
	for k, v := range r.Meta {
		size += len(k) + len(v)
	}
	var all strings.Builder
	all.Grow(size)
	move := func(s *string) {
		from := all.Len()
		all.WriteString(*s)
		*s = all.String()[from:]
	}
	strs(&r, move)
	if r.Meta != nil {
		meta := make(map[string]string, len(r.Meta))
		for k, v := range r.Meta {
			move(&k)
			move(&v)
			meta[k] = v
		}
		r.Meta = meta
	}
	return r
}

// strs calls do with each string of r but those in its Meta.
func strs(r *stet.Record, do func(*string)) {
	h := &r.Head
	for _, s := range [...]*string{(*string)(&h.Scope), (*string)(&h.Key), &h.Tag, &h.Fingerprint.Recipe, &h.Point, &h.Cause, &h.Holder,
		&h.Route, &h.Method, &h.Path, &h.TraceID, &h.DownstreamKey, &h.DownstreamID} {
		do(s)
	}
	if n := h.Note; n != nil {
		for _, s := range [...]*string{&n.Who, &n.Why, &n.Evidence, &n.Notice, &n.Action} {
			do(s)
		}
	}
	if a := r.Response; a != nil {
		for _, fields := range [...][]stet.Field{a.Header, a.Trailer} {
			for i := range fields {
				do(&fields[i].Name)
				do(&fields[i].Value)
			}
		}
	}
}
