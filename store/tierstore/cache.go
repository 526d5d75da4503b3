package tierstore

import (
	"cmp"
	"context"
	"math"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/stet-dev/stet"
)

// Cache holds copies of records: a [Memory], or what [Shared] returns.
type Cache interface {
	// take returns the copy of id as it was put, and how long ago that was.
	take(ctx context.Context, id stet.ID, now time.Time) (r stet.Record, age time.Duration, ok bool, err error)
	// put keeps r for at most ttl, unless the cache has a newer copy. It keeps references to r.
	put(ctx context.Context, r stet.Record, ttl time.Duration, now time.Time) error
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

// DefaultMemoryBytes is the default size of a [Memory]: 64 MiB.
const DefaultMemoryBytes = 64 << 20

// Memory is a cache in the memory of the process. When it is full, it evicts what is asked for
// least. It is safe for concurrent use, but each Memory serves one [Store] only.
type Memory struct {
	max     int64
	entries *otter.Cache[stet.ID, *entry]
}

type entry struct {
	record stet.Record
	at     time.Time // by the clock of the process
	weight uint32
}

// NewMemory returns an empty cache of maxBytes; 0 means [DefaultMemoryBytes]. All that a copy takes
// counts, not its body alone. While it evicts, the cache may exceed the limit for a moment. It does
// not keep a copy that takes more than an eighth of maxBytes, because that would evict too many
// others.
func NewMemory(maxBytes int64) *Memory {
	c := &Memory{max: max(cmp.Or(maxBytes, DefaultMemoryBytes), 1)}
	c.entries = otter.Must(&otter.Options[stet.ID, *entry]{
		MaximumWeight: uint64(c.max),
		Weigher:       func(_ stet.ID, e *entry) uint32 { return e.weight },
	})
	return c
}

// Bytes returns the approximate size of all copies in the cache.
func (c *Memory) Bytes() int64 { return int64(c.entries.WeightedSize()) }

func (c *Memory) take(_ context.Context, id stet.ID, now time.Time) (stet.Record, time.Duration, bool, error) {
	e, ok := c.entries.GetIfPresent(id)
	if !ok {
		return stet.Record{}, 0, false, nil
	}
	return e.record, now.Sub(e.at), true, nil
}

func (c *Memory) put(_ context.Context, r stet.Record, _ time.Duration, now time.Time) error {
	size := weigh(&r)
	if size > min(c.max/8, math.MaxUint32) {
		c.entries.Invalidate(r.ID)
		return nil
	}
	// The strings may be parts of a whole request header, which an entry must not keep in memory.
	r.ID = stet.ID{Scope: stet.Scope(strings.Clone(string(r.Scope))), Key: stet.Key(strings.Clone(string(r.Key)))}
	e := &entry{r, now, uint32(size)}
	c.entries.Compute(r.ID, func(old *entry, found bool) (*entry, otter.ComputeOp) {
		if found && newer(&old.record.Head, &r.Head) {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
	return nil
}

func (c *Memory) drop(_ context.Context, id stet.ID) error {
	c.entries.Invalidate(id)
	return nil
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
