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

// DefaultCacheBytes is how large a [Cache] of no given size may become.
const DefaultCacheBytes = 64 << 20

// Cache is a front in the process's own memory. It forgets what is asked for least when it is full. It is safe for concurrent
// use, and may serve one [Store] only.
type Cache struct {
	max     int64
	entries *otter.Cache[stet.ID, *entry]
}

type entry struct {
	record stet.Record
	at     time.Time // by the process's clock
	weight uint32
}

// NewCache returns an empty cache that holds so many bytes of responses and all that belongs to them; 0 means
// [DefaultCacheBytes]. While it evicts it may be over that for a moment. A copy that would take more than an eighth of the whole
// is not kept: it would push out too many others.
func NewCache(maxBytes int64) *Cache {
	c := &Cache{max: max(cmp.Or(maxBytes, DefaultCacheBytes), 1)}
	c.entries = otter.Must(&otter.Options[stet.ID, *entry]{
		MaximumWeight: uint64(c.max),
		Weigher:       func(_ stet.ID, e *entry) uint32 { return e.weight },
	})
	return c
}

// Bytes is about how much the cache holds.
func (c *Cache) Bytes() int64 { return int64(c.entries.WeightedSize()) }

func (c *Cache) take(_ context.Context, id stet.ID, now time.Time) (stet.Record, time.Duration, bool, error) {
	e, ok := c.entries.GetIfPresent(id)
	if !ok {
		return stet.Record{}, 0, false, nil
	}
	return e.record, now.Sub(e.at), true, nil
}

func (c *Cache) put(_ context.Context, r stet.Record, _ time.Duration, now time.Time) error {
	size := weigh(&r)
	if size > min(c.max/8, math.MaxUint32) {
		c.entries.Invalidate(r.ID)
		return nil
	}
	id := stet.ID{Scope: stet.Scope(strings.Clone(string(r.Scope))), Key: stet.Key(strings.Clone(string(r.Key)))} // of a whole header, maybe
	r.ID = id
	e := &entry{r, now, uint32(size)}
	c.entries.Compute(id, func(old *entry, found bool) (*entry, otter.ComputeOp) {
		if found && newer(&old.record.Head, &r.Head) {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
	return nil
}

func (c *Cache) drop(_ context.Context, id stet.ID) error {
	c.entries.Invalidate(id)
	return nil
}

func (c *Cache) local() bool  { return true }
func (c *Cache) close() error { c.entries.InvalidateAll(); return nil }

// overhead is about what an entry takes beside its strings and bytes.
const overhead = 1024

// weigh is about what a copy of r takes.
func weigh(r *stet.Record) int64 {
	h, b := &r.Head, &r.Body
	n := overhead + len(b.Request) + len(b.Progress) + len(h.Scope) + len(h.Key)
	for _, s := range [...]string{h.Fingerprint.Recipe, h.Point, h.Cause, h.Holder, h.Route, h.Method, h.Path, h.TraceID, h.DownstreamKey, h.DownstreamID} {
		n += len(s)
	}
	const perString = 16
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
