package blackbox

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet/internal/tier"
)

// A store that fails.
var casesSF = []Case{
	{ID: "SF-01", Need: NeedFaults, Run: func(c *C) {
		c.Faults().Down()
		first := c.POST("/fx/json")
		first.Problem("store-unavailable")
		c.Seen(0)
		c.Faults().Up()
		done := first.Retry().First(201)
		done.Retry().Replays(done)
		c.Effects(1)
	}},
	{ID: "SF-02", Policy: "store: {timeout_s: 1}", Need: NeedFaults, Run: func(c *C) {
		c.Faults().Slow(time.Hour)
		began := time.Now()
		first := c.POST("/fx/json")
		first.Problem("store-unavailable")
		tier.Took(c, "giving up on a store with a timeout of 1 s", time.Since(began), 4*time.Second)
		c.Seen(0)
		c.Faults().Up()
		c.settled(func() *Answer { return first.Retry() }).First(201)
		c.Effects(1)
	}},
	{ID: "SF-03", Policy: "policy: {fail_mode: open}", Need: NeedFaults, Run: func(c *C) {
		c.Faults().Down()
		first := c.POST("/fx/json").Is(201).Unmarked().Has("Stet-Unprotected", "store-unavailable")
		first.Retry().Is(201).Unmarked().Has("Stet-Unprotected", "store-unavailable")
		c.Effects(2)
		c.Faults().Up()
		first.Retry().First(201).Lacks("Stet-Unprotected")
		c.Effects(3)
	}},
	{ID: "SF-04", Policy: `routes: [{match: "POST /fx/echo", mode: off}]`, Need: NeedFaults, Run: func(c *C) {
		c.Faults().Down()
		c.Do("GET", "/fx/count", body("")).Passed(200)
		c.POST("/fx/echo").Passed(201)
		c.Do("PUT", "/fx/json", noKey).Passed(201)
		c.POST("/fx/json").Problem("store-unavailable")
		c.Effects(2)
	}},
	{ID: "SF-05", Need: NeedFaults, Run: func(c *C) {
		c.Faults().FailComplete(true)
		first := c.POST("/fx/json").First(201).Says(`{"id":"1"}`)
		if a := first.Retry(); a.document().Code != "store-unavailable" || !c.behindBreaker() {
			a.Problem("in-progress")
		}
		c.Faults().Up()
		c.settled(func() *Answer { return first.Retry() }).marked(201, `{"id":"1"}`)
		c.Effects(1)
	}},
	{ID: "SF-05-late", Need: NeedClock, Run: func(c *C) { // the lease is over before the store comes back
		c.Faults().FailComplete(true)
		first := c.POST("/fx/json").First(201)
		c.Faults().Advance(2 * time.Minute)
		first.Retry().Problem("outcome-unknown")
		c.Faults().FailComplete(false)
		c.settled(func() *Answer { return first.Retry() }).marked(201, `{"id":"1"}`) // the holder's word counts, though it comes late
		c.Effects(1)
	}},
	{ID: "SF-06", Need: NeedFaults, Run: func(c *C) {
		first := c.POST("/fx/json", key(`"torn"`), body(`{"secret":"card number"}`)).First(201)
		c.Faults().Corrupt(c.Tenant(), "torn")
		a, copied := first.Retry(), strings.HasSuffix(c.target.Store, cached+sealed)
		if c.target.Gateway && !copied { // its own cache has a copy, too, for as long as it is said to
			c.Until("copy that is too old", func() bool { a = first.Retry(); return a.Status != 201 })
		}
		if copied { // the copy in front is whole
			a.Replays(first)
		} else if a.Status != 503 && a.Status != 409 {
			a.fail("want 503 or 409: a record that cannot be read proves nothing")
		} else {
			a.Unmarked()
		}
		a.discreet()
		first.Retry(body(`{"a":2}`))
		c.Effects(1)
		c.POST("/fx/json", key(`"sound"`)).First(201) // others go on
		if bytes.Contains([]byte(c.srv.Log()), []byte("card number")) {
			c.Fatalf("the log quotes the request:\n%s", c.srv.Log())
		}
	}},
	{ID: "SF-07", Skip: "it takes a store that can be cut off: TestBreaker"},
	{ID: "SF-08", Skip: "it takes Redis servers with settings of their own: internal/integration/redis"},
	{ID: "SF-09", Only: "gateway", Why: "how many replicas there are is the gateway's to know", Run: func(c *C) {
		_, err := c.target.Open(c.TB, Spec{Policy: "replicas: 2"})
		if slices.Contains(serverStores, c.target.Store) { // that is what a server is for
			if err != nil {
				c.Fatal(err)
			}
			return
		}
		if err == nil {
			c.Fatal("two replicas on a store of one process, and it started")
		}
		if said := err.Error(); !strings.Contains(said, "exit status 2") || !strings.Contains(said, "replicas") {
			c.Fatalf("want exit status 2 and a word about replicas, got: %v", err)
		}
	}},
}

// behindBreaker reports whether a circuit breaker stands before the store: several failures of any
// kind, and it is left alone.
func (c *C) behindBreaker() bool { return slices.Contains(serverStores, c.target.Store) }

// settledOrUnknown retries a request until it is no longer running, and returns that answer.
func (c *C) settledOrUnknown(retry func() *Answer) (a *Answer) {
	c.Helper()
	c.Until("it runs no longer", func() bool {
		a = retry()
		return a.Status != 409 || a.document().Code != "in-progress"
	})
	return a
}
