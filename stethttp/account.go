package stethttp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/stopwatch"
)

// bounds is what limits the new keys of a scope, or of all scopes ("").
type bounds struct {
	scope    stet.Scope
	rate     float64 // a second; 0: no limit
	burst    int
	most     int // stored; 0: no limit
	replicas int
}

// refusal is why no new key may be made.
type refusal struct {
	code  Code
	after time.Duration // until it may be; 0: nobody knows
}

func (r *refusal) Error() string { return "stethttp: " + string(r.code) }

// How often the store is asked at most. A store shows a record a little after the instant that it says the record was made: a look
// at what others made leaves out what is younger than settling, and finds it the next time.
const (
	lookEvery   = time.Second
	lookAtLeast = 10 * time.Second
	settling    = 200 * time.Millisecond
	lookBack    = time.Minute // no further: all that was made since is walked through
	countWithin = time.Minute
	countShare  = 20 // a count takes up no more of the time than one part in so many
)

// account is what a scope has used up of its bounds. The number of its keys is an estimate: counted once by the store, kept up by
// what this process makes and hears of, and counted again where it says that there is no room.
type account struct {
	mu sync.Mutex
	bucket
	inflight int // admitted, and not known to be made or not

	known    bool // the keys were counted
	keys     int
	counting chan struct{} // closed when the count that goes on has ended; nil: none does
	unseen   int           // admitted keys which that count may not have seen
	next     time.Time     // not before this may be counted again
	failed   error         // the last count, where there is none that did not

	// Between processes:
	looking bool
	looked  time.Time // up to when it is known what others made
	own     int       // made by this process since, or not shown by the store yet
	carried int       // of own
	others  float64   // what others make in a second, as far as can be told: the bucket fills slower by that
}

// enter takes a token and room for a key, both or none.
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

// leave ends what enter began.
func (a *account) leave(made bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inflight--
	if made {
		return
	}
	a.tokens++ // which is one too many only until it is filled
	a.keys = max(0, a.keys-1)
	a.own = max(0, a.own-1)
	a.unseen = max(0, a.unseen-1)
}

// room sees to it that there is room for a key. again: it was let go of the lock meanwhile.
func (a *account) room(ctx context.Context, e *stet.Engine, b bounds) (again bool, err error) {
	if b.most <= 0 {
		a.known = false // nobody keeps it up
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
	case !a.known && errors.Is(a.failed, stet.ErrUnsupported): // then there is no such limit
		return false, nil
	case !a.known:
		return false, a.failed
	}
	return false, &refusal{code: KeyQuotaExceeded}
}

// await waits for the count that goes on. The caller has the lock, and has it again.
func (a *account) await(ctx context.Context) error {
	counted := a.counting
	a.mu.Unlock()
	defer a.mu.Lock()
	select {
	case <-counted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count asks the store for the number of keys. It is for all who wait, and so ends with none of them: on a large table that is busy
// it may take longer than a request can wait.
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
		if a.failed = err; err == nil { // else what was known is better than nothing
			a.known, a.keys = true, n+a.unseen
		}
	})
}

// count is [stet.Operator.Count] with more time.
func count(ctx context.Context, e *stet.Engine, q stet.Query) (int, error) {
	c, ok := stet.As[stet.Counter](e.Store())
	if !ok {
		return 0, stet.ErrUnsupported
	}
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	began := stopwatch.Start(e.Observed())
	n, err := c.Count(ctx, q)
	e.Observe(stet.Event{Kind: stet.StoreCall, Op: "count", Took: stopwatch.Since(began), Err: err})
	return n, err
}

// outside asks the store while the lock is free.
func (a *account) outside(ask func()) {
	a.mu.Unlock()
	defer a.mu.Lock()
	ask()
}

// lookIsDue reports whether it matters what other processes made. One that makes no more than its part of the rate goes by its own
// bucket: those that make more see what it makes.
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

// look takes what other processes made from what is left. A look that fails is left to the next one.
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
	if from := now.Add(-age); b.rate > 0 && a.at.Before(from) { // what others make is taken from what there was when they made it
		a.fill(from, a.pace(b), b.burst)
	}
	most := own + b.replicas*(b.burst+int(b.rate*age.Seconds())+1)
	if a.known {
		most = max(most, own+b.most-a.keys)
	}
	var n int
	var err error
	a.outside(func() {
		n, err = e.Operator().Count(context.WithoutCancel(ctx), stet.Query{Scope: b.scope, NewerThan: age + settling, OlderThan: settling, Limit: max(1, most)})
	})
	a.looking, a.looked = false, now
	if err != nil {
		n = own
	}
	others := max(0, n-own)
	a.carried = min(max(0, own-n), max(0, own-carried)) // nothing is waited for twice
	a.own = max(0, a.own+a.carried-own)
	if !counted {
		a.keys += others
	}
	if b.rate > 0 {
		part := a.others * age.Seconds() // has been left out before
		a.tokens = max(a.tokens+part-float64(others), -float64(b.replicas-1)*(float64(b.burst)+b.rate))
		a.others = min(max(float64(others)/age.Seconds(), a.others*0.9), b.rate*float64(b.replicas-1)/float64(b.replicas))
	}
}

// pace is how fast the bucket fills.
func (a *account) pace(b bounds) float64 {
	if b.replicas <= 1 {
		return b.rate
	}
	return b.rate - min(a.others, b.rate*float64(b.replicas-1)/float64(b.replicas))
}

// refill fills the bucket. Where there is no limit there is none.
func (a *account) refill(b bounds) {
	if b.rate <= 0 {
		a.bucket = bucket{}
		return
	}
	a.fill(time.Now(), a.pace(b), b.burst)
}

// state is how many keys may be made now, and how long until one may, or as many as ever may at once.
func (a *account) state(b bounds) (left int, after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(b)
	if !a.has() {
		return 0, a.until(1, a.pace(b))
	}
	return int(a.tokens + 1 - whole), a.until(float64(b.burst), a.pace(b))
}

// idle: nothing is lost when it is forgotten, but that its keys are counted again.
func (a *account) idle(b bounds) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(b)
	return a.inflight == 0 && (b.rate <= 0 || a.tokens >= float64(b.burst))
}
