package stet

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// OwnScope is the scope of the records that Stet keeps for itself, such as the jobs of package bulk. No client has it: no field
// value of HTTP begins with a space (RFC 9110 section 5.5), and package stethttp refuses it from every other source. Lists and
// counts leave its records out, unless they ask for this scope.
const OwnScope Scope = " stet"

// withoutOwn removes Stet's own records from a page that did not ask for them.
func withoutOwn(q *Query, heads []Head) []Head {
	if q.Scope == OwnScope {
		return heads
	}
	return slices.DeleteFunc(heads, func(h Head) bool { return h.Scope == OwnScope })
}

// own remembers Stet's own records, of which there are few, so that counts can leave them out: some stores count one scope by
// looking at every record.
type own struct {
	heads      atomic.Pointer[[]Head]
	refreshing sync.Mutex
	until      time.Time // when to look again; guarded by refreshing
}

// ownFor is how long they are remembered at least. Where it took long to learn them it is longer, so that this takes no more
// than a hundredth of the time.
const ownFor = 10 * time.Second

// ownCount is how many of Stet's own records q selects. It is a little old, and 0 where the store cannot tell: a count goes on.
func (e *Engine) ownCount(ctx context.Context, q *Query) (n int) {
	if q.Scope != "" {
		return 0
	}
	o := &e.own
	if o.refreshing.TryLock() { // nobody waits for somebody else's look at the store
		if began := time.Now(); began.After(o.until) {
			if heads, err := ownHeads(ctx, e.store, e.cfg.StoreTimeout/4); err == nil {
				o.heads.Store(&heads)
			}
			o.until = time.Now().Add(max(ownFor, 100*time.Since(began)))
		}
		o.refreshing.Unlock()
	}
	if known := o.heads.Load(); known != nil {
		for i := range *known {
			if q.Matches(&(*known)[i]) {
				n++
			}
		}
	}
	return n
}

// ownHeads leaves time for the count that it is for.
func ownHeads(ctx context.Context, s Store, within time.Duration) (all []Head, err error) {
	l, ok := As[Lister](s)
	if !ok {
		return nil, errNoList
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for q := (Query{Scope: OwnScope, Limit: MaxLimit}); ; {
		heads, next, err := l.List(ctx, q)
		if all = append(all, heads...); err != nil || next == "" {
			return all, err
		}
		q.After = next
	}
}
