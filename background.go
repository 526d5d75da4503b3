package stet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stet-dev/stet/internal/foreign"
	"github.com/stet-dev/stet/internal/rest"
)

// Go runs f in a goroutine that [Engine.Drain] waits for. If limit such goroutines are at work
// already, the engine's own included, it runs nothing and returns false; a limit of 0 means none.
// Packages that answer requests use it for work that no client waits for.
func (e *Engine) Go(limit int, f func()) bool {
	c := &e.chores
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit > 0 && c.n >= limit {
		return false
	}
	c.n++
	go func() {
		defer c.end()
		f()
	}()
	return true
}

// ErrHangs is returned where code that is not Stet's, such as a resolver or the phase of a flow,
// has not returned in its time. What called it has gone on, and nothing else is called about the
// same record before it returns.
var ErrHangs = foreign.ErrHangs

// Foreign is what calls code that is not Stet's about the engine's records. It is for packages of
// this module.
func (e *Engine) Foreign() *foreign.Calls { return e.foreign }

func (e *Engine) tellHanging(h foreign.Event) {
	id, _ := h.Of.(ID)
	result := "left"
	if h.Returned {
		result = "returned"
	}
	e.Observe(Event{Kind: Hangs, ID: id, Op: h.Kind, Result: result, Took: h.Took})
}

// Drain waits for the engine's background work: results that are being stored, reservations that
// are being removed, and the functions given to [Engine.Go]. If ctx ends first, it returns the
// error of ctx, and says how much of this still runs. It does not wait for calls that hang: where
// there are some, its error is [ErrHangs], and says of which kind, how many, and for how long.
func (e *Engine) Drain(ctx context.Context) error {
	c := &e.chores
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return e.foreign.Hanging()
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
		if c.hurry != nil {
			close(c.hurry)
		}
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return e.foreign.Hanging()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%d pieces of the engine's work still run: %w", c.running(), ctx.Err()), e.foreign.Hanging())
	}
}

// sleep pauses before another try, with jitter, and doubles the pause. It returns false when the
// deadline leaves no time for one.
func sleep(ctx context.Context, pause *time.Duration, deadline time.Time) bool {
	p := *pause/2 + rand.N(*pause)
	*pause *= 2
	if time.Until(deadline) <= p {
		return false
	}
	return rest.For(ctx, p)
}

// chores are the engine's goroutines. Unlike with a sync.WaitGroup, new ones may start while a
// caller waits.
type chores struct {
	mu    sync.Mutex
	n     int
	idle  chan struct{} // closed when n is 0 again; nil while no call waits
	hurry chan struct{} // closed while a call waits; nil while none asked
}

// maxCleanups bounds how many reservations are removed at a time, so that a store that is away for
// long does not fill the process with work for it. A reservation beyond the bound lapses, like that
// of a holder that crashed.
const maxCleanups = 1024

func (c *chores) running() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *chores) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 && c.idle != nil {
		close(c.idle)
		c.idle, c.hurry = nil, nil
	}
}

// hurried returns a channel that is closed when a caller waits in Drain: work that could take long
// ends early then.
func (c *chores) hurried() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hurry == nil {
		c.hurry = make(chan struct{})
		if c.idle != nil {
			close(c.hurry)
		}
	}
	return c.hurry
}

// detached is a context that carries the values of another, but not its end: what has been promised
// to a store is not taken back because a client hung up (I8, W12). It has a deadline of its own.
// The timer behind the deadline is made by the first call of Done, so that a store in memory pays
// for none.
type detached struct {
	parent context.Context // for its values
	began  time.Time       // before the first call: a lease granted by one lasts at least from here
	within time.Duration
	most   int64 // of a body that is read: see [WithMaxBody]

	mu   sync.Mutex
	how  callEnd
	done *ringing // nil until it is asked for
}

// callEnd is how a detached context ended.
type callEnd uint8

const (
	open callEnd = iota
	released
	late
)

var callErrors = [...]error{released: context.Canceled, late: context.DeadlineExceeded}

type ringing struct {
	timer *time.Timer
	over  chan struct{}
}

func detach(ctx context.Context, within time.Duration) *detached {
	d := new(detached)
	d.begin(ctx, time.Now(), within)
	return d
}

func (d *detached) begin(ctx context.Context, now time.Time, within time.Duration) {
	d.parent, d.began, d.within, d.most = ctx, now, within, SmallBody
}

func (d *detached) deadline() time.Time { return d.began.Add(d.within) }

// Value answers as the parent does, without its cancellation, which package context looks up by a
// key of its own, and with another [MaxBody].
func (d *detached) Value(key any) any {
	if key == (maxBodyKey{}) {
		return &d.most
	}
	return context.WithoutCancel(d.parent).Value(key)
}

func (d *detached) Deadline() (time.Time, bool) { return d.deadline(), true }

func (d *detached) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		d.done = &ringing{over: make(chan struct{})}
		if d.how != open {
			close(d.done.over)
		} else {
			d.done.timer = time.AfterFunc(time.Until(d.deadline()), func() { d.end(late) })
		}
	}
	return d.done.over
}

func (d *detached) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.how == open && d.done == nil && time.Since(d.began) >= d.within {
		d.how = late
	}
	return callErrors[d.how]
}

// end stops the timer. How it ended first stands.
func (d *detached) end(how callEnd) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.how != open {
		return
	}
	if d.how = how; d.done != nil {
		close(d.done.over)
		d.done.timer.Stop()
	}
}

// release ends the context after the call, so that no timer is left behind.
func (d *detached) release() { d.end(released) }
