package gateway

import (
	"sync"
	"time"
)

// pool keeps idle connections, the most recently used one on top.
type pool struct {
	mu    sync.Mutex
	limit time.Duration // for a connection to be idle
	idle  []idleConn
	timer *time.Timer // runs while there are idle ones
}

type idleConn struct {
	*directConn
	since time.Time
}

// take returns an idle connection that its peer has not closed.
func (p *pool) take() (*directConn, bool) {
	for {
		c, ok := p.pop()
		if !ok || c.peer.silent() {
			return c, ok
		}
		_ = c.Close()
	}
}

func (p *pool) pop() (*directConn, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 || time.Since(p.idle[last].since) >= p.limit { // the timers of a process that was suspended are late
		return nil, false
	}
	c := p.idle[last].directConn
	p.idle[last] = idleConn{}
	p.idle = p.idle[:last]
	return c, true
}

func (p *pool) put(c *directConn) {
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
	p.idle = append(p.idle, idleConn{c, time.Now()})
}

// prune closes connections that have been idle for too long.
func (p *pool) prune() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.idle) && time.Since(p.idle[n].since) >= p.limit {
		_ = p.idle[n].Close()
		n++
	}
	p.idle = append(p.idle[:0], p.idle[n:]...)
	if len(p.idle) > 0 {
		p.timer.Reset(p.limit - time.Since(p.idle[0].since))
	}
}

// lower lowers the limit, and reports whether it was higher.
func (p *pool) lower(limit time.Duration) bool {
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

func (p *pool) idleLimit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// closeIdle closes all idle connections.
func (p *pool) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
}
