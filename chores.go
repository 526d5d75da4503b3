package stet

import (
	"context"
	"math"
	"sync"
)

// chores are what the engine works on by itself. Unlike with a sync.WaitGroup, some may begin while somebody waits.
type chores struct {
	mu    sync.Mutex
	n     int
	idle  chan struct{} // closed when n is 0 again; nil while nobody waits
	hurry chan struct{} // closed while somebody waits; nil while nobody asked
}

// maxCleanups bounds how many reservations are being removed at a time: a store that is away for long must not fill the
// process with work for it. A reservation above that lapses like that of a holder who crashed.
const maxCleanups = 1024

func (c *chores) start(f func()) { c.startUpTo(math.MaxInt, f) }

// startUpTo starts nothing, and reports false, while limit are being worked on.
func (c *chores) startUpTo(limit int, f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n >= limit {
		return false
	}
	c.n++
	go func() {
		defer c.end()
		f()
	}()
	return true
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

// hurried is closed as soon as somebody waits: what could go on for long comes to an end then.
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

// wait returns when nothing is being worked on, or the context's error.
func (c *chores) wait(ctx context.Context) error {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return nil
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
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
