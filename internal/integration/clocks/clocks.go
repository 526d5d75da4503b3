// Package clocks runs two nodes on one server whose clocks do not agree.
package clocks

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/storetest"
)

const (
	patience = 20 * time.Second
	short    = 300 * time.Millisecond // a lease that runs out within the test
)

// Run has one node in a synctest bubble, where it is the year 2000 and time stands still while
// others work, and one outside: what is due, and whose lease it is, goes by the server's clock
// alone (CR-16, W10, I6).
func Run(t *testing.T, b storetest.Backend) {
	dir := t.TempDir()
	open := func(t *testing.T) *stet.Engine {
		s := b.Open(t, dir, nil)
		if c, ok := s.(io.Closer); ok {
			t.Cleanup(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		e, err := stet.New(s, stet.Config{Holder: "outside"})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	outside := node{t, open(t)}
	calls := make(chan func())
	answered := make(chan struct{})
	go func() {
		for f := range calls {
			go func() {
				defer func() { answered <- struct{}{} }() // also where f ends the test
				f()
			}()
		}
	}()
	defer close(calls)
	synctest.Test(t, func(t *testing.T) {
		past := node{t, open(t)}
		if off := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); off > time.Hour {
			t.Fatalf("the bubble's clock is %s after 2000", off)
		}
		there := func(f func()) { // outside the bubble
			calls <- f
			<-answered
		}

		// A lease of a node whose clock is behind is not over for others.
		claim := past.begin("held in the past", stet.Execute, time.Minute)
		there(func() {
			outside.begin("held in the past", stet.InProgress, time.Minute)
			outside.sweeps(0)
		})
		past.settle(claim, nil)
		there(func() {
			outside.begin("held in the past", stet.Replay, time.Minute)
			if at := outside.get("held in the past").CreatedAt; time.Since(at).Abs() > time.Hour {
				outside.t.Errorf("created at %s", at)
			}
		})

		// Nor is one that a node holds whose clock is ahead.
		var ahead *stet.Claim
		there(func() { ahead = outside.begin("held outside", stet.Execute, time.Minute) })
		past.begin("held outside", stet.InProgress, time.Minute)
		past.sweeps(0)
		there(func() { outside.settle(ahead, nil) })
		past.begin("held outside", stet.Replay, time.Minute)

		// A lease that is over is over for both: each sweeps what the other has left, and the late
		// holder changes nothing.
		late := past.begin("left in the past", stet.Execute, short)
		there(func() {
			outside.until("the lease is over", func() bool { h := outside.get("left in the past"); return h.Over() })
			outside.sweeps(1)
			outside.begin("left in the past", stet.Unresolved, time.Minute)
		})
		past.settle(late, stet.ErrFenced)
		var abandoned stet.Record
		there(func() {
			abandoned = outside.leave("left outside")
			outside.until("the lease is over", func() bool { h := outside.get("left outside"); return h.Over() })
		})
		past.sweeps(1)
		if h := past.get("left outside"); h.State != stet.Unknown || h.CreatedAt != abandoned.CreatedAt {
			t.Errorf("%s, created at %s", h.State, h.CreatedAt)
		}
	})
}

// node is an engine on the server.
type node struct {
	t *testing.T
	e *stet.Engine
}

func id(key string) stet.ID { return stet.ID{Scope: "clocks", Key: stet.Key(key)} }

func (n node) begin(key string, want stet.Verdict, lease time.Duration) *stet.Claim {
	n.t.Helper()
	p := n.e.Policy()
	p.Lease = lease
	d, err := n.e.Begin(context.Background(), stet.Request{ID: id(key), Subject: stet.Subject{Body: []byte("1")}, Policy: &p})
	if err != nil || d.Verdict != want {
		n.t.Fatalf("%s: %s, want %s (%v)", key, d.Verdict, want, err)
	}
	return d.Claim
}

func (n node) settle(c *stet.Claim, want error) {
	n.t.Helper()
	if err := c.Settle(context.Background(), stet.Outcome{Response: stet.Response{Status: 201}}); !errors.Is(err, want) {
		n.t.Fatalf("settled: %v, want %v", err, want)
	}
}

// leave stores a record as a process does that dies then.
func (n node) leave(key string) stet.Record {
	n.t.Helper()
	r, err := n.e.Store().Create(context.Background(), stet.Record{Head: stet.Head{ID: id(key), Version: 7, State: stet.Running, Attempt: 1,
		Fingerprint: stet.Fingerprint{Recipe: "1 auto"}, Holder: "dead", DueIn: short, Rules: stet.Rules{Retain: time.Hour}}})
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

func (n node) sweeps(want int) {
	n.t.Helper()
	if got, _, err := n.e.Operator().Sweep(context.Background(), "", 100); err != nil || got != want {
		n.t.Fatalf("%d were swept, want %d (%v)", got, want, err)
	}
}

func (n node) get(key string) stet.Record {
	n.t.Helper()
	r, err := n.e.Get(context.Background(), id(key))
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

func (n node) until(what string, so func() bool) {
	n.t.Helper()
	for end := time.Now().Add(patience); !so(); {
		if time.Now().After(end) {
			n.t.Fatalf("it never came about that %s", what)
		}
	}
}
