// Package freeport gives tests ports for servers that cannot be handed a listener.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// first and last are below the ports that systems give to outgoing connections, one of which could
// take a port before its server does.
const first, last = 11000, 31999

// kept are abstract sockets, each with the number of a port that is this process's as long as it
// lives. Nothing closes them: they end with the process, whatever ends it.
var kept struct {
	mu  sync.Mutex
	all []net.Listener
}

// Of returns n free ports of 127.0.0.1 that no other test of this machine gets while this process
// lives.
func Of(t testing.TB, n int) (free []int) {
	t.Helper()
	kept.mu.Lock()
	defer kept.mu.Unlock()
	for tries := 0; len(free) < n; tries++ {
		port := first + rand.IntN(last-first+1)
		mark, err := take(port)
		switch {
		case err == nil:
			kept.all, free = append(kept.all, mark), append(free, port)
		case tries > 100:
			t.Fatal(err)
		}
	}
	return free
}

// take marks a port, if nothing listens on it and no test has it.
func take(port int) (mark net.Listener, err error) {
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	return net.Listen("unix", fmt.Sprint("@stet-test-port-", port))
}
