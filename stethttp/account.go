package stethttp

import (
	"context"
	"errors"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/stopwatch"
)

// bounds limit the new keys of one scope, or of all scopes if scope is empty.
type bounds struct {
	scope    stet.Scope
	rate     float64 // a second; 0: no limit
	burst    int
	most     int // stored; 0: no limit
	replicas int
}

// refusal is the error of a new key that is not admitted.
type refusal struct {
	code  Code
	after time.Duration // when a key may be admitted again; 0: not known
}

func (r *refusal) Error() string { return "stethttp: " + string(r.code) }

// These bound how often the store is asked. A store shows a record a little after the time at which
// it was made; so a look leaves out records younger than settling, and finds them the next time.
const (
	lookEvery   = time.Second
	lookAtLeast = 10 * time.Second
	settling    = 200 * time.Millisecond
	lookBack    = time.Minute // how far a look goes back: the store walks through everything made since
	countWithin = time.Minute
	countShare  = 20 // counting takes at most this fraction of the time
)

// account is what a scope has used of its bounds. The number of its keys is an estimate. The store
// counts them once; the estimate then follows what this process makes and hears of, and the store
// counts again when it says that there is no room.
type account struct {
	bucket       // its lock is the account's
	inflight int // admitted, with no outcome yet

	known    bool // the keys were counted
	keys     int
	counting chan struct{} // closed when the running count ends; nil: none is running
	unseen   int           // admitted keys that the running count may have missed
	next     time.Time     // the earliest time of the next count
	failed   error         // the error of the last count

	// These are about the other processes.
	looking bool
	looked  time.Time // the time up to which the keys of others are known
	own     int       // keys made by this process since then, or not shown by the store yet
	carried int       // of own
	others  float64   // estimated keys per second of the others; the bucket fills slower by it
}

// enter takes a token and room for a key. It takes both or none.
func (a *account) enter(ctx context.Context, e *stet.Engine, b bounds) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.looked.IsZero() {
		a.looked = time.Now()
	}
	if a.lookIsDue(time.Now(), b) {
		a.look(ctx, e, b)
	}
	for {
		a.refill(b)
		if b.rate > 0 && !a.has() {
			return &refusal{RateLimited, a.until(1, a.pace(b))}
		}
		again, err := a.room(ctx, e, b)
		switch {
		case err != nil:
			return err
		case !again:
			a.take(b)
			return nil
		}
	}
}

func (a *account) take(b bounds) {
	if b.rate > 0 {
		a.tokens--
	}
	a.keys++
	a.inflight++
	a.own++
	if a.counting != nil {
		a.unseen++
	}
}

// leave ends what enter began; made reports whether there is a key now.
func (a *account) leave(made bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inflight--
	if made {
		return
	}
	a.tokens++ // this may be one too many, until the bucket is filled
	a.keys = max(0, a.keys-1)
	a.own = max(0, a.own-1)
	a.unseen = max(0, a.unseen-1)
}

// room checks that there is room for a key. again reports that the lock was released meanwhile.
func (a *account) room(ctx context.Context, e *stet.Engine, b bounds) (again bool, err error) {
	if b.most <= 0 {
		a.known = false // it is not kept up to date
		return false, nil
	}
	if a.known && a.keys < b.most {
		return false, nil
	}
	if a.counting == nil && !time.Now().Before(a.next) {
		a.count(ctx, e, b)
	}
	if a.counting != nil {
		if err = a.await(ctx); err == nil || !a.known {
			return true, err
		}
	}
	switch {
	case !a.known && errors.Is(a.failed, stet.ErrUnsupported): // such a store has no such limit
		return false, nil
	case !a.known:
		return false, a.failed
	}
	return false, &refusal{code: KeyQuotaExceeded}
}

// await waits for the running count. The caller holds the lock, which is released while it waits.
func (a *account) await(ctx context.Context) (err error) {
	counted := a.counting
	a.outside(func() {
		select {
		case <-counted:
		case <-ctx.Done():
			err = ctx.Err()
		}
	})
	return err
}

// count starts a count of the keys by the store. It runs for all who wait, so it does not end with
// any of their requests: on a large, busy table it may take longer than a request can wait.
func (a *account) count(ctx context.Context, e *stet.Engine, b bounds) {
	a.counting, a.unseen = make(chan struct{}), a.inflight
	e.Go(0, func() {
		began := time.Now()
		n, err := count(context.WithoutCancel(ctx), e, stet.Query{Scope: b.scope, Limit: b.most})
		a.mu.Lock()
		defer a.mu.Unlock()
		close(a.counting)
		a.counting = nil
		a.next = time.Now().Add(max(lookEvery, countShare*time.Since(began)))
		if a.failed = err; err == nil { // after an error, the old number is better than none
			a.known, a.keys = true, n+a.unseen
		}
	})
}

// count is [stet.Operator.Count] with a longer timeout.
func count(ctx context.Context, e *stet.Engine, q stet.Query) (int, error) {
	c, ok := stet.As[stet.Counter](e.Store())
	if !ok {
		return 0, stet.ErrUnsupported
	}
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	began := stopwatch.Start(e.Observed())
	n, err := ofClients(q, func(q stet.Query) (int, error) { return c.Count(ctx, q) })
	e.Observe(stet.Event{Kind: stet.StoreCall, Op: "count", Took: stopwatch.Since(began), Err: err})
	return n, err
}

// maxOwn is how many records of Stet's own are counted.
const maxOwn = 10_000

// ofClients counts the records that clients made. Stet's own, such as those of jobs and of the
// gateways' figures, take no client's place.
func ofClients(q stet.Query, count func(stet.Query) (int, error)) (int, error) {
	if q.Scope != "" {
		return count(q)
	}
	own := q
	own.Scope, own.Limit, q.Limit = stet.OwnScope, maxOwn, q.Limit+maxOwn
	var all, was int
	n, err := count(own)
	for was = -1; err == nil && n != was; { // one that comes between two counts would be in one of them
		was = n
		if all, err = count(q); err == nil {
			n, err = count(own)
		}
	}
	return max(0, all-n), err
}

// outside calls ask with the lock released.
func (a *account) outside(ask func()) {
	a.mu.Unlock()
	defer a.mu.Lock()
	ask()
}

// lookIsDue reports whether it matters what other processes made. A process that makes no more than
// its part of the rate follows its own bucket; processes that make more look at what it makes.
func (a *account) lookIsDue(now time.Time, b bounds) bool {
	age := now.Sub(a.looked)
	switch {
	case b.replicas <= 1, a.looking, age < lookEvery:
		return false
	case a.known && b.most > 0 && (2*a.keys >= b.most || age >= lookAtLeast):
		return true
	case b.rate > 0 && (float64(a.own*b.replicas) > b.rate*age.Seconds() || a.tokens < whole):
		return true
	case b.most <= 0:
		a.looked, a.own, a.carried = now, 0, 0
	}
	return false
}

// look subtracts what other processes made. If it fails, the next look makes up for it.
func (a *account) look(ctx context.Context, e *stet.Engine, b bounds) {
	now, own, carried := time.Now(), a.own, a.carried
	age := now.Sub(a.looked)
	a.looking = true
	counted := a.known && age > lookBack && a.counting == nil
	if counted {
		a.count(ctx, e, b)
		_ = a.await(ctx)
	}
	age = min(age, lookBack)
	if from := now.Add(-age); b.rate > 0 && a.at.Before(from) { // keys of others come out of what was there when they made them
		a.fill(from, a.pace(b), b.burst)
	}
	most := own + b.replicas*(b.burst+int(b.rate*age.Seconds())+1)
	if a.known {
		most = max(most, own+b.most-a.keys)
	}
	var n int
	var err error
	a.outside(func() {
		n, err = e.Operator().Count(context.WithoutCancel(ctx), // without Stet's own
			stet.Query{Scope: b.scope, NewerThan: age + settling, OlderThan: settling, Limit: max(1, most)})
	})
	a.looking, a.looked = false, now
	if err != nil {
		n = own
	}
	others := max(0, n-own)
	a.carried = min(max(0, own-n), max(0, own-carried)) // no key is waited for twice
	a.own = max(0, a.own+a.carried-own)
	if !counted {
		a.keys += others
	}
	if b.rate > 0 {
		part := a.others * age.Seconds() // it was subtracted before
		a.tokens = max(a.tokens+part-float64(others), -float64(b.replicas-1)*(float64(b.burst)+b.rate))
		a.others = min(max(float64(others)/age.Seconds(), a.others*0.9), b.rate*float64(b.replicas-1)/float64(b.replicas))
	}
}

// pace is the rate at which the bucket fills.
func (a *account) pace(b bounds) float64 {
	if b.replicas <= 1 {
		return b.rate
	}
	return b.rate - min(a.others, b.rate*float64(b.replicas-1)/float64(b.replicas))
}

// refill fills the bucket. Without a rate there is no bucket.
func (a *account) refill(b bounds) {
	if b.rate <= 0 {
		a.tokens, a.at = 0, time.Time{}
		return
	}
	a.fill(time.Now(), a.pace(b), b.burst)
}

// state returns how many keys may be made now, and the time until the next one or, if there are
// any, until the bucket is full.
func (a *account) state(b bounds) (left int, after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(b)
	if !a.has() {
		return 0, a.until(1, a.pace(b))
	}
	return int(a.tokens + 1 - whole), a.until(float64(b.burst), a.pace(b))
}

// idle reports whether the account can be forgotten. Its keys are then counted again.
func (a *account) idle(b bounds) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(b)
	return a.inflight == 0 && (b.rate <= 0 || a.tokens >= float64(b.burst))
}
