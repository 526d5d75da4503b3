package operate

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	readingFor  = time.Second          // how long a reading answers those who ask the same, at least
	readShare   = 20                   // and of so many parts of the time at most one is spent on readings,
	readingMost = 5 * time.Second      // as long as they are not older;
	readingEach = 2 * time.Millisecond // so long for each record: 10 s where there are 5,000
	maxReadings = 64                   // that are kept: one for each set of scopes with each filter
)

// readings are the unknown records as they were last read. Each page of the console asks for them,
// and refreshes itself: those who ask the same within a second share one reading, as do those who
// ask while it is being made. One that took long is shared for longer, so that open pages take
// little from clients.
type readings struct {
	mu   sync.Mutex
	kept map[string]*reading
}

type reading struct {
	began time.Time
	over  bool          // guarded by the lock of the readings, as is took
	took  time.Duration // once it is over
	done  chan struct{} // closed when all and err are there
	all   tally         // shared, and not changed any more
	err   error
}

// get returns what read returns, or returned to others who asked by the same name.
func (r *readings) get(ctx context.Context, name string, read func(context.Context) (tally, error)) (tally, error) {
	one, first := r.join(name)
	if first {
		r.fill(ctx, name, one, read)
	}
	select {
	case <-one.done:
		return one.all, one.err
	case <-ctx.Done():
		return tally{}, unavailable
	}
}

// join returns the reading of a name. The first to ask for it has to make it.
func (r *readings) join(name string) (one *reading, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if one = r.kept[name]; one != nil && (!one.over || one.fresh(now)) {
		return one, false
	}
	for other, kept := range r.kept {
		if kept.over && !kept.fresh(now) {
			delete(r.kept, other)
		}
	}
	one = &reading{began: now, done: make(chan struct{})}
	if r.kept == nil {
		r.kept = map[string]*reading{}
	}
	if len(r.kept) < maxReadings {
		r.kept[name] = one
	}
	return one, true
}

// fresh reports whether a reading that is over is shared by those who ask now.
func (one *reading) fresh(now time.Time) bool {
	records := time.Duration(min(one.all.Unknown, maxUnknown))
	return now.Sub(one.began) < max(readingFor, min(readShare*one.took, readingMost), records*readingEach)
}

// fill makes a reading. It goes on if its client leaves, for others wait for it, and is not kept if
// it fails.
func (r *readings) fill(ctx context.Context, name string, one *reading, read func(context.Context) (tally, error)) {
	one.err = unavailable // where read panics
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		one.over, one.took = true, time.Since(one.began)
		if close(one.done); one.err != nil && r.kept[name] == one {
			delete(r.kept, name)
		}
	}()
	one.all, one.err = read(context.WithoutCancel(ctx))
}

// forget keeps what was read before a change from those who ask after it.
func (r *readings) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.kept)
}

// unknowns returns the unknown records that the caller may see, as they were at the last reading.
func (d *Desk) unknowns(ctx context.Context, q IncidentQuery) (tally, error) {
	if err := d.caller.within(&q.Scope); err != nil {
		return tally{}, err
	}
	name := fmt.Sprintf("%q %q", d.caller.Scopes, q)
	return d.readings.get(ctx, name, func(ctx context.Context) (tally, error) { return d.groupUnknown(ctx, q) })
}
