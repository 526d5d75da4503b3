package blackbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stet-dev/stet/internal/tier"
)

const waiting = "policy: {wait_policy: wait}"

// Duplicates at the same time.
var casesCC = []Case{
	{ID: "CC-01", Run: func(c *C) { racersConflict(c, []*C{c}) }},
	{ID: "CC-02", Need: NeedNodes, Run: func(c *C) { racersConflict(c, []*C{c.Node(0), c.Node(1), c.Node(2)}) }},
	{ID: "CC-03", Policy: waiting, Run: func(c *C) {
		answers := take(c.Race(100, "POST", "/fx/slow?ms=300"), 100)
		firsts, replays := c.count(answers)
		if firsts != 1 || replays != 99 {
			c.Fatalf("%d first responses and %d replays, want 1 and 99", firsts, replays)
		}
		for _, a := range answers[1:] {
			if string(a.Body) != string(answers[0].Body) {
				a.fail("racers got different bodies")
			}
		}
		c.Effects(1)
	}},
	{ID: "CC-04", Policy: "policy: {wait_policy: wait, wait_timeout_s: 0.2}", Run: func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		began := time.Now()
		c.POST("/fx/hang").Problem("in-progress")
		took := time.Since(began)
		if tier.Took(c, "a wait of 200 ms", took, 5*time.Second); took < 150*time.Millisecond {
			c.Fatalf("it waited %s, want about 200 ms", took)
		}
		c.Release(1)
		owner.Wait().First(201)
		c.Effects(1)
	}},
	{ID: "CC-05", Policy: "policy: {wait_policy: wait, wait_timeout_s: 15, lease_s: 1}", Need: NeedKill | NeedNodes, Run: func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		waiter := c.Node(1).Start("POST", "/fx/hang")
		c.srv.Kill(0)
		owner.Wait().Broken()
		waiter.Wait().Problem("outcome-unknown")
		c.Effects(1)
	}},
	{ID: "CC-06", Policy: waiting, Run: func(c *C) { // the suite fails if a goroutine stays behind
		owner := c.Begun("POST", "/fx/hang")
		ctx, cancel := context.WithTimeout(c.ctx, 100*time.Millisecond)
		defer cancel()
		c.POST("/fx/hang", within(ctx)).Broken()
		c.Release(1)
		first := owner.Wait().First(201)
		first.Retry().Replays(first)
		c.Effects(1)
	}},
	{ID: "CC-07", Policy: "policy: {wait_policy: accepted}", Run: func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		c.POST("/fx/hang").Problem("in-progress", 202)
		c.Release(1)
		first := owner.Wait().First(201)
		first.Retry().Replays(first)
		c.Effects(1)
	}},
	{ID: "CC-08", Run: func(c *C) {
		for policy, most := range map[string]int{
			"": 30, "policy: {lease_s: 5}": 5, "policy: {retry_after_max_s: 3}": 3,
		} {
			d := c.With(policy).Named(most)
			owner := d.Begun("POST", "/fx/hang")
			a := d.POST("/fx/hang")
			a.Problem("in-progress")
			a.RetryAfter(most)
			d.Release(1)
			owner.Wait().First(201)
			d.Effects(1)
		}
	}},
	{ID: "CC-09", Run: func(c *C) {
		for _, policy := range []string{"", waiting} {
			d := c.With(policy).Named(policy == waiting)
			owner := d.Begun("POST", "/fx/hang", body(`{"payer":"alice"}`))
			d.POST("/fx/hang", body(`{"payer":"mallory"}`)).Problem("key-reused")
			d.Release(1)
			owner.Wait().First(201)
			d.Effects(1)
		}
	}},
	{ID: "CC-10", Run: func(c *C) {
		const keys, workers = 1000, 50
		work := make(chan int)
		var all sync.WaitGroup
		bad := make(chan *Answer, keys)
		for range workers {
			all.Go(func() {
				for i := range work {
					if a := c.POST("/fx/json", key(fmt.Sprintf("key-%d", i))); a.Err != nil || a.Status != 201 {
						bad <- a
					}
				}
			})
		}
		for i := range keys {
			work <- i
		}
		close(work)
		all.Wait()
		if len(bad) > 0 {
			(<-bad).fail("one of %d that failed", len(bad)+1)
		}
		c.Effects(keys)
	}},
	{ID: "CC-11", Run: func(c *C) {
		c.POST("/fx/second").First(503)
		c.Effects(0)
		race := c.Race(2, "POST", "/fx/second")
		(<-race).Problem("in-progress")
		c.Release(1)
		first := (<-race).First(201)
		first.Retry().Replays(first)
		c.Effects(1)
	}},
	{ID: "CC-12", Need: NeedClock, Run: func(c *C) { // each round, the reservation the racers lose to is one that expires
		for round := 1; round <= 10; round++ {
			firsts, replays := c.count(take(c.Race(8, "POST", "/fx/json"), 8))
			if firsts != 1 {
				c.Fatalf("round %d: %d first responses and %d replays", round, firsts, replays)
			}
			c.Effects(round)
			c.Faults().Advance(25 * time.Hour)
		}
	}},
}

// racersConflict sends a hundred equal requests to each node at once: one runs, and all others are
// turned away (I1).
func racersConflict(c *C, nodes []*C) {
	n := 100 * len(nodes)
	answers := make(chan *Answer, n)
	for i := range n {
		go func() { answers <- nodes[i%len(nodes)].POST("/fx/hang") }()
	}
	losers := take(answers, n-1)
	for _, a := range losers {
		a.Problem("in-progress")
	}
	c.Effects(1)
	c.Release(1)
	first := (<-answers).First(201)
	for _, a := range losers {
		a.Retry().Replays(first)
	}
	c.Effects(1)
}
