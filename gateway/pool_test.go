package gateway

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// idle puts a connection into the pool, and returns the other end of it.
func idle(p *pool) net.Conn {
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

func size(p *pool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// Connections are closed when they have been idle for idleTimeout, whether or not requests come.
func TestPoolPrunes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pool
		for range 3 { // the timer is used again
			first := idle(&p)
			time.Sleep(idleTimeout / 2)
			second := idle(&p)
			if !open(first) || !open(second) {
				t.Fatal("closed too early")
			}
			time.Sleep(idleTimeout/2 + time.Millisecond)
			if open(first) || !open(second) {
				t.Fatal("want the first to be closed, and the second not")
			}
			time.Sleep(idleTimeout / 2)
			if open(second) || size(&p) != 0 {
				t.Fatal("want both to be closed")
			}
		}
	})
}

func TestPoolIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pool
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
