package blackbox

import (
	"context"
	"strconv"
	"time"
)

const (
	briefly    = "policy: {lease_s: 1}"
	reconciler = "time has to pass for it: reconcile/reconciler_test.go, reconcile/hook_test.go, cmd/stet/testdata/script/reconcile.txtar"
	outbox     = "the outbox is used by services: internal/integration/outbox"
)

// Crashes, leases and unknown outcomes.
var casesCR = []Case{
	{ID: "CR-01", Policy: briefly, Need: NeedKill, Run: func(c *C) {
		owner := c.Begun("POST", "/fx/hang?before&obey")
		c.srv.Kill(0)
		owner.Wait().Broken()
		c.srv.Start(0, briefly)
		c.lapsed(func() *Answer { return c.POST("/fx/hang?before&obey") })
		c.Effects(0)
		c.Seen(1)
	}},
	{ID: "CR-02", Policy: briefly, Need: NeedNodes | NeedPause, Run: func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		c.srv.Pause(0)
		other := c.Node(1)
		retry := func() *Answer { return other.POST("/fx/hang") }
		c.lapsed(retry)
		c.srv.Continue(0)
		c.Release(1)
		owner.Wait() // what its caller hears is true, but it is no longer what the record says
		for range 3 {
			retry().Problem("outcome-unknown")
			c.POST("/fx/hang").Problem("outcome-unknown")
		}
		c.Effects(1)
	}},
	{ID: "CR-03", Policy: "policy: {lease_s: 4}", Run: func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		began := time.Now()
		c.Until("three leases have passed", func() bool {
			c.POST("/fx/hang").Problem("in-progress")
			return time.Since(began) > 12100*time.Millisecond
		})
		c.Release(1)
		first := owner.Wait().First(201)
		first.Retry().Replays(first)
		c.Effects(1)
	}},
	{ID: "CR-lost", Policy: "policy: {lease_s: 0.5}", Need: NeedFaults, Run: func(c *C) {
		owner := c.Begun("POST", "/fx/hang?obey")
		c.Faults().Slow(600 * time.Millisecond) // no renewal is in time, and the handler is told to stop
		first := owner.Wait()
		first.Problem("outcome-unknown")
		c.Left(1)
		c.Faults().Up()
		first.Retry().Problem("outcome-unknown") // asked again, not replayed: that answer was no outcome
		c.State("unknown")
		c.Effects(1)
	}},
	{ID: "CR-04", Policy: briefly, Need: NeedKill, Run: func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		c.srv.Kill(0)
		owner.Wait().Broken()
		c.srv.Start(0, briefly)
		retry := func() *Answer { return c.POST("/fx/hang") }
		c.lapsed(retry)
		c.Release(1)
		retry().Problem("outcome-unknown")
		c.State("unknown")
		c.Effects(1)
	}},
	{ID: "CR-05", Policy: "policy: {lease_s: 3, on_lease_expiry: reexecute}", Need: NeedKill, Run: func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		c.srv.Kill(0)
		owner.Wait().Broken()
		c.srv.Start(0, c.row.Policy)
		c.Release(2) // the one that died with its server, and the next
		c.settled(func() *Answer { return c.POST("/fx/hang") }).First(201)
		seen := c.Seen(2)
		if one, two := seen[0].Header.Get(echo), seen[1].Header.Get(echo); one == "" || one != two {
			c.Fatalf("keys %q and %q: a provider could not tell that they are one", one, two)
		}
		if c.target.Gateway {
			grows(c, seen[0].Header.Get("Stet-Fence"), seen[1].Header.Get("Stet-Fence"))
			grows(c, seen[0].Header.Get("Stet-Attempt"), seen[1].Header.Get("Stet-Attempt"))
		}
	}},
	{ID: "CR-06", Skip: reconciler},
	{ID: "CR-07", Skip: reconciler},
	{ID: "CR-08", Skip: reconciler},
	{ID: "CR-09", Skip: reconciler},
	{ID: "CR-10", Need: NeedKill, Run: func(c *C) { // W6: no byte reached the caller: it had gone
		ctx, cancel := context.WithCancel(c.ctx)
		owner := c.Begun("POST", "/fx/hang", within(ctx))
		cancel()
		owner.Wait().Broken()
		c.Release(1)
		c.Until("the result is stored", func() bool { return c.Records(1)[0].State == "completed" })
		c.srv.Kill(0)
		c.srv.Start(0, c.row.Policy)
		c.POST("/fx/hang").marked(201, `{"id":"1"}`)
		c.Effects(1)
	}},
	{ID: "CR-11", Skip: outbox},
	{ID: "CR-12", Skip: outbox},
	{ID: "CR-13", Skip: outbox},
	{ID: "CR-14", Skip: "recovery points are set by services: flow, internal/integration/flow"},
	{ID: "CR-15", Need: NeedClock, Run: func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		c.Faults().Advance(2 * time.Minute)
		for _, a := range take(c.Race(10, "POST", "/fx/hang"), 10) {
			a.Problem("outcome-unknown")
		}
		c.Release(1)
		owner.Wait()
		c.State("unknown")
		c.Effects(1)
		d := c.Named("swept") // no client asks for this one
		owner = d.Start("POST", "/fx/hang")
		d.Entered(1)
		c.Faults().Advance(2 * time.Minute)
		c.Until("the sweeper has found it", func() bool { return d.Records(1)[0].State == "unknown" })
		d.Release(1)
		owner.Wait()
		d.POST("/fx/hang").Problem("outcome-unknown")
		d.Effects(1)
	}},
	{ID: "CR-16", Skip: "these stores take the clock of their one host; clocks.Run has two nodes on each server, 26 years apart"},
}

// grows demands that two numbers follow each other upwards.
func grows(c *C, one, two string) {
	c.Helper()
	a, err1 := strconv.ParseInt(one, 10, 64)
	b, err2 := strconv.ParseInt(two, 10, 64)
	if err1 != nil || err2 != nil || b <= a {
		c.Fatalf("%q, then %q: want two numbers, the second one greater", one, two)
	}
}
