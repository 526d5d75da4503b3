// Package foreign calls code that is not Stet's: resolvers, the phases of flows, handlers of
// messages. Such code may ignore its context, panic, or end its goroutine, and none of that may
// stop the loop that calls it.
//
// A caller waits until the call's context has ended and for [Grace] after that, and then goes on
// without the call, which hangs: it has a goroutine of its own until it returns. Nothing else is
// called about the same thing meanwhile, and at most [MaxHanging] calls of a kind hang. So one call
// costs its caller a known time, and a process a known number of goroutines.
package foreign

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// Grace is how long a call may take to return after its context has ended.
	Grace = time.Second
	// MaxHanging is how many calls of one kind may hang before no other is made.
	MaxHanging = 100
)

// ErrHangs is returned for a call that did not return in its time, or that was not made because an
// earlier one has not returned. It may still have its effect.
var ErrHangs = errors.New("code that was called has not returned")

var errEnded = errors.New("the code that was called ended its goroutine")

// About says what a call is for: its kind in a word, such as resolver, and what it is about, which
// is comparable. An Of of nil is about nothing that others are about, too.
type About struct {
	Kind string
	Of   any
}

// Event tells that a call is left alone, or that one which was has returned.
type Event struct {
	About
	Took     time.Duration // so far
	Returned bool
}

// Calls are the foreign calls of an engine, or of a worker. The zero value is ready, and is not
// copied once it was used.
type Calls struct {
	// Tell is called with each event; optional. It must not block.
	Tell func(Event)

	mu   sync.Mutex
	hung []*call // in the order in which they were left
}

type call struct {
	About
	began time.Time
	ended bool
}

// Do calls f and returns what it returns. If f has not returned Grace after ctx has ended, or
// cannot be called because of others that hang, the error is [ErrHangs]. A panic is an error, too,
// without its text, which may hold anything.
func Do[T any](ctx context.Context, c *Calls, about About, f func(ctx context.Context) (T, error)) (got T, err error) {
	if err := c.admit(about); err != nil {
		return got, err
	}
	type result struct {
		got T
		err error
	}
	one, returned := &call{About: about, began: time.Now()}, make(chan result, 1)
	go func() {
		r := result{err: errEnded}
		defer func() {
			if p := recover(); p != nil {
				r.err = panicked(p)
			}
			returned <- r
			c.end(one)
		}()
		r.got, r.err = f(ctx)
	}()
	select {
	case r := <-returned:
		return r.got, r.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case r := <-returned:
		return r.got, r.err
	case <-grace.C:
	}
	if !c.leave(one) {
		r := <-returned
		return r.got, r.err
	}
	return got, fmt.Errorf("%w, %s after it was called: %w", ErrHangs, time.Since(one.began).Truncate(time.Millisecond), context.Cause(ctx))
}

// panicked is the error of a panic. Its text may hold anything, such as a key, and is left out.
func panicked(p any) error {
	if err, ok := p.(runtime.Error); ok {
		return fmt.Errorf("the code that was called panicked: %w", err)
	}
	return fmt.Errorf("the code that was called panicked with a %T", p)
}

// admit returns why a call cannot be made now, or nil.
func (c *Calls) admit(about About) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, one := range c.hung {
		switch {
		case one.Kind != about.Kind:
			continue
		case about.Of != nil && one.Of == about.Of:
			return fmt.Errorf("%w: an earlier call of a %s about the same runs for %s", ErrHangs, about.Kind, since(one.began))
		}
		n++
	}
	if n >= MaxHanging {
		return fmt.Errorf("%w: %d calls of a %s hang, and no other is made before one returns", ErrHangs, n, about.Kind)
	}
	return nil
}

// Room is how many more calls of a kind may hang. With none no call is made.
func (c *Calls) Room(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := MaxHanging
	for _, one := range c.hung {
		if one.Kind == kind {
			room--
		}
	}
	return max(0, room)
}

// Hangs reports whether a call about this hangs, so that no other would be made.
func (c *Calls) Hangs(about About) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.hung, func(one *call) bool { return one.About == about })
}

// Hanging returns an [ErrHangs] that says how many calls of which kinds still run although they
// were left, and for how long; nil if there is none.
func (c *Calls) Hanging() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.hung) == 0 {
		return nil
	}
	count, oldest := map[string]int{}, map[string]time.Time{}
	var kinds, texts []string
	for _, one := range c.hung {
		if count[one.Kind]++; count[one.Kind] == 1 || one.began.Before(oldest[one.Kind]) {
			oldest[one.Kind] = one.began
		}
		if !slices.Contains(kinds, one.Kind) {
			kinds = append(kinds, one.Kind)
		}
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		text := fmt.Sprintf("%d %s, for %s", count[kind], kind, since(oldest[kind]))
		if count[kind] > 1 {
			text = fmt.Sprintf("%d %ss, the oldest for %s", count[kind], kind, since(oldest[kind]))
		}
		texts = append(texts, text)
	}
	return fmt.Errorf("%w: %s", ErrHangs, strings.Join(texts, "; "))
}

func since(began time.Time) time.Duration { return time.Since(began).Truncate(time.Second) }

// leave has the call hang from now on. It reports false if it has ended.
func (c *Calls) leave(one *call) bool {
	c.mu.Lock()
	if one.ended {
		c.mu.Unlock()
		return false
	}
	c.hung = append(c.hung, one)
	c.mu.Unlock()
	c.tell(one, false)
	return true
}

func (c *Calls) end(one *call) {
	c.mu.Lock()
	one.ended = true
	i := slices.Index(c.hung, one)
	if i >= 0 {
		c.hung = slices.Delete(c.hung, i, i+1)
	}
	c.mu.Unlock()
	if i >= 0 {
		c.tell(one, true)
	}
}

func (c *Calls) tell(one *call, returned bool) {
	if c.Tell != nil {
		c.Tell(Event{one.About, time.Since(one.began), returned})
	}
}
