package gateway

import (
	"sync"
	"time"
)

// pool keeps connections that can take a request, the most recently used one on top.
type pool[C pooled] struct {
	mu    sync.Mutex
	limit time.Duration // for a connection to be idle
	idle  []idleConn[C]
	timer *time.Timer // runs while there are idle ones
}

type pooled interface {
	ready() bool // it can take a request still, and is the caller's
	Close() error
}

type idleConn[C pooled] struct {
	conn  C
	since time.Time
}

// take returns a connection that its peer has not closed.
func (p *pool[C]) take() (C, bool) {
	for {
		c, ok := p.pop()
		if !ok || c.ready() {
			return c, ok
		}
		_ = c.Close()
	}
}

func (p *pool[C]) pop() (c C, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 || time.Since(p.idle[last].since) >= p.limit { // the timers of a process that was suspended are late
		return c, false
	}
	c = p.idle[last].conn
	p.idle[last] = idleConn[C]{}
	p.idle = p.idle[:last]
	return c, true
}

func (p *pool[C]) put(c C) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= maxIdleConns {
		_ = c.Close()
		return
	}
	if p.timer == nil {
		p.timer = time.AfterFunc(p.limit, p.prune)
	} else if len(p.idle) == 0 {
		p.timer.Reset(p.limit)
	}
	p.idle = append(p.idle, idleConn[C]{c, time.Now()})
}

// prune closes connections that have been idle for too long.
func (p *pool[C]) prune() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.idle) && time.Since(p.idle[n].since) >= p.limit {
		_ = p.idle[n].conn.Close()
		n++
	}
	p.idle = append(p.idle[:0], p.idle[n:]...)
	if len(p.idle) > 0 {
		p.timer.Reset(p.limit - time.Since(p.idle[0].since))
	}
}

// lower lowers the limit, and reports whether it was higher.
func (p *pool[C]) lower(limit time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if limit >= p.limit {
		return false
	}
	if p.limit = limit; len(p.idle) > 0 {
		p.timer.Reset(0)
	}
	return true
}

func (p *pool[C]) idleLimit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// closeIdle closes all idle connections.
func (p *pool[C]) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		_ = c.conn.Close()
	}
	p.idle = nil
}
