package gateway

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// idle puts a connection into the pool, and returns the other end of it.
func idle(p *pool[*directConn]) net.Conn {
	ours, theirs := net.Pipe()
	p.put(newDirectConn(ours, p))
	return theirs
}

func open(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := c.Read(make([]byte, 1))
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

func size(p *pool[*directConn]) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// Connections are closed when they have been idle for defaultUpstreamIdleTimeout, whether or not
// requests come.
func TestPoolPrunes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool[*directConn]{limit: defaultUpstreamIdleTimeout}
		for range 3 { // the timer is used again
			first := idle(&p)
			time.Sleep(defaultUpstreamIdleTimeout / 2)
			second := idle(&p)
			if !open(first) || !open(second) {
				t.Fatal("closed too early")
			}
			time.Sleep(defaultUpstreamIdleTimeout/2 + time.Millisecond)
			if open(first) || !open(second) {
				t.Fatal("want the first to be closed, and the second not")
			}
			time.Sleep(defaultUpstreamIdleTimeout / 2)
			if open(second) || size(&p) != 0 {
				t.Fatal("want both to be closed")
			}
		}
	})
}

func TestPoolIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool[*directConn]{limit: defaultUpstreamIdleTimeout}
		for range maxIdleConns {
			idle(&p)
		}
		if open(idle(&p)) || size(&p) != maxIdleConns {
			t.Fatalf("%d idle connections", size(&p))
		}
		p.closeIdle()
		if size(&p) != 0 {
			t.Fatalf("%d idle connections", size(&p))
		}
	})
}

// A connection is not used beyond its limit either where the timer is late, as after a pause of the
// whole machine.
func TestPoolHasLateTimers(t *testing.T) {
	p := pool[*directConn]{limit: defaultUpstreamIdleTimeout}
	defer p.closeIdle()
	defer idle(&p).Close()
	p.idle[0].since = time.Now().Add(-p.limit)
	if _, ok := p.pop(); ok {
		t.Error("a connection is used that was idle for too long")
	}
}

// A limit that is lowered holds for the connections that are there.
func TestPoolLimitIsLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool[*directConn]{limit: defaultUpstreamIdleTimeout}
		first := idle(&p)
		if !p.lower(time.Second) || p.lower(time.Second) || p.lower(2*time.Second) {
			t.Error("want a limit to be lowered once")
		}
		time.Sleep(time.Second / 2)
		second := idle(&p)
		time.Sleep(time.Second/2 + time.Millisecond)
		if open(first) || !open(second) {
			t.Error("want the first to be closed, and the second not")
		}
		p.closeIdle()
	})
}
