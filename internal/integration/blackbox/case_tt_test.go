package blackbox

import (
	"fmt"
	"time"

	"github.com/stet-dev/stet/internal/tier"
)

const day = 24 * time.Hour

// How long a result stands.
var casesTT = []Case{
	{ID: "TT-01", Need: NeedClock, Run: func(c *C) {
		first, _ := c.Twice(201, "/fx/json")
		c.Faults().Advance(day - time.Minute)
		first.Retry().Replays(first)
		c.Faults().Advance(2 * time.Minute)
		first.Retry().First(201).Says(`{"id":"2"}`)
		c.Effects(2)
	}},
	{ID: "TT-02", Run: func(c *C) {
		for hint, want := range map[string]time.Duration{"10": time.Hour, "99999999": 30 * day, "7200": 2 * time.Hour} {
			d := c.Named(hint)
			d.POST("/fx/json", header("Idempotency-TTL", hint)).First(201).goodFor(want)
			d.Effects(1)
		}
	}},
	{ID: "TT-03", Run: func(c *C) {
		for _, hint := range []string{"-1", "abc", "1.5", "1, 2", "1000000000000000000000000000000", "0x10", "+5"} {
			d := c.Named(hint)
			d.POST("/fx/json", header("Idempotency-TTL", hint)).First(201).goodFor(day)
			d.Effects(1)
		}
	}},
	{ID: "TT-04", Run: func(c *C) {
		first, second := c.Twice(201, "/fx/json")
		first.goodFor(day)
		if !first.Expires().Equal(second.Expires()) {
			second.fail("another instant than %s", first.Expires())
		}
		c.Effects(1)
	}},
	{ID: "TT-05", Need: NeedClock, Run: func(c *C) { // a run that outlives its retention is no expired result
		owner := c.Begun("POST", "/fx/hang")
		c.Faults().Advance(40 * day)
		c.POST("/fx/hang").Problem("outcome-unknown")
		c.State("unknown")
		c.Release(1)
		owner.Wait()
		c.POST("/fx/hang").Problem("outcome-unknown")
		c.Effects(1)
	}},
	{ID: "TT-06", Need: NeedClock, Run: func(c *C) {
		first := c.POST("/fx/outcome/unknown").First(504)
		first.Retry().Problem("outcome-unknown")
		c.Faults().Advance(40 * day)
		first.Retry().Problem("outcome-unknown")
		c.State("unknown")
		c.Effects(1)
	}},
	{ID: "TT-07", Need: NeedClock, Only: "middleware", Why: "the gateway reaps once a minute: too rarely for a test, and with the same reaper",
		Run: func(c *C) {
			const n = 100
			for i := range n {
				c.POST("/fx/json", key(fmt.Sprint("key-", i))).First(201)
			}
			c.Records(n)
			c.Faults().Advance(day + time.Minute)
			busy := c.Named("busy")
			c.Until("the reaper is through, while others work", func() bool {
				began := time.Now()
				busy.POST("/fx/json", key(fmt.Sprint("key-", busy.srv.Fixture().Effects(busy.name)))).First(201)
				tier.Took(c, "a request beside the reaper", time.Since(began), 5*time.Second)
				all, err := c.srv.Records(c.Tenant())
				return err == nil && len(all) == 0
			})
			c.Effects(n)
		}},
	{ID: "TT-08", Policy: "policy: {on_expired: reject}", Need: NeedClock, Run: func(c *C) {
		first, _ := c.Twice(201, "/fx/json")
		c.Faults().Advance(day + time.Minute)
		first.Retry().Problem("expired-key")
		first.Retry(body(`{"a":2}`)).Problem("expired-key")
		c.Effects(1)
		c.Faults().Advance(31 * day) // keep_expired_s is over too
		first.Retry().First(201)
		c.Effects(2)
	}},
	{ID: "TT-09", Need: NeedClock, Run: func(c *C) {
		c.POST("/fx/slow?ms=50").First(201)
		c.Faults().Advance(day + time.Minute)
		if firsts, _ := c.count(take(c.Race(10, "POST", "/fx/slow?ms=50"), 10)); firsts != 1 {
			c.Fatalf("%d executions of an expired key", firsts)
		}
		c.Effects(2)
	}},
	{ID: "TT-10", Run: func(c *C) {
		first := c.POST("/fx/json").First(201)
		for _, hint := range []string{"7200", "2000000"} {
			first.Retry(header("Idempotency-TTL", hint)).Replays(first) // Idempotency-Expires included
		}
		c.Effects(1)
	}},
}
