package operate

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

const (
	readingFor  = time.Second          // how long a reading answers those who ask the same, at least
	readShare   = 20                   // and of so many parts of the time at most one is spent on readings,
	readingMost = 5 * time.Second      // as long as they are not older;
	readingEach = 2 * time.Millisecond // so long for each record: 10 s where there are 5,000
	readingLast = 10 * time.Minute     // how long it is kept for those who cannot wait for the next
	maxReadings = 64                   // that are kept: one for each set of scopes with each filter
)

// readings are the unknown records as they were last read. Each page of the console asks for them,
// and refreshes itself: those who ask the same within a second share one reading, as do those who
// ask while it is being made. One that took long is shared for longer, so that open pages take
// little from clients. Whose context ends before a reading is over gets the one before it.
type readings struct {
	mu   sync.Mutex
	kept map[string]*reading
}

type reading struct {
	before *reading // that was right, if there is one; guarded by the lock of the readings
	began  time.Time
	over   bool          // guarded by the lock of the readings, as is took
	took   time.Duration // once it is over
	done   chan struct{} // closed when all and err are there
	all    tally         // shared, and not changed any more
	err    error
}

// notRead is the problem of those who cannot wait for the first reading.
var notRead = &Problem{Status: 503, Code: "store-unavailable", Title: "The unknown records are still being read", Detail: "Try again in a moment.", Retryable: true, RetryAfter: "1"}

// get returns what read returns, or returned to others who asked by the same name.
func (r *readings) get(ctx context.Context, name string, read func(context.Context) (tally, error)) (tally, error) {
	one, before, first := r.join(name)
	if first { // it goes on if its client leaves, for others wait for it
		go r.fill(context.WithoutCancel(ctx), name, one, read)
	}
	select {
	case <-one.done:
		return one.all, one.err
	case <-ctx.Done():
	}
	select {
	case <-one.done: // both have come
		return one.all, one.err
	default:
	}
	if before == nil {
		return tally{}, notRead
	}
	return before.all, nil
}

// join returns the reading of a name, and the one before it. The first to ask for it has to make it.
func (r *readings) join(name string) (one, before *reading, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if one = r.kept[name]; one != nil && (!one.over || one.fresh(now)) {
		return one, one.before, false
	}
	for other, kept := range r.kept {
		if kept.over && now.Sub(kept.began) > readingLast {
			delete(r.kept, other)
		}
	}
	if r.kept == nil {
		r.kept = map[string]*reading{}
	}
	before, known := r.kept[name]
	if !known && len(r.kept) >= maxReadings {
		r.dropOldest()
	}
	one = &reading{before: before, began: now, done: make(chan struct{})}
	if known || len(r.kept) < maxReadings {
		r.kept[name] = one
	}
	return one, before, true
}

// dropOldest makes room for a reading, if one of those that are kept is over.
func (r *readings) dropOldest() {
	oldest := ""
	for name, kept := range r.kept {
		if kept.over && (oldest == "" || kept.began.Before(r.kept[oldest].began)) {
			oldest = name
		}
	}
	delete(r.kept, oldest)
}

// fresh reports whether a reading that is over is shared by those who ask now.
func (one *reading) fresh(now time.Time) bool {
	records := time.Duration(min(one.all.Unknown, maxUnknown))
	return now.Sub(one.began) < max(readingFor, min(readShare*one.took, readingMost), records*readingEach)
}

// fill makes a reading. If it fails, the one before it is kept.
func (r *readings) fill(ctx context.Context, name string, one *reading, read func(context.Context) (tally, error)) {
	all, err := read(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	one.all, one.err = all, err
	one.all.At = one.began
	one.over, one.took = true, time.Since(one.began)
	close(one.done)
	switch {
	case err == nil:
		one.before = nil
	case r.kept[name] != one: // it was forgotten meanwhile
	case one.before != nil:
		r.kept[name] = one.before
	default:
		delete(r.kept, name)
	}
}

// forget keeps what was read before a change from those who ask after it.
func (r *readings) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.kept)
}

// unknowns returns the unknown records that the caller may see, as they were at the last reading: a
// new one, or, for those who cannot wait for that, the one before it, which says when it was made.
func (d *view) unknowns(ctx context.Context, q IncidentQuery) (tally, error) {
	if err := d.caller.within(&q.Scope); err != nil {
		return tally{}, err
	}
	name := fmt.Sprintf("%q %q", d.caller.Scopes, q)
	return d.readings.get(ctx, name, func(ctx context.Context) (all tally, err error) {
		defer func() { // it has a goroutine of its own, whose panic would end the process
			if cause := recover(); cause != nil {
				d.log.LogAttrs(ctx, slog.LevelError, "the unknown records could not be read: a panic", slog.Any("cause", cause), slog.String("stack", string(debug.Stack())))
				err = unavailable
			}
		}()
		return d.groupUnknown(ctx, q)
	})
}
