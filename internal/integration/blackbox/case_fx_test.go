package blackbox

import (
	"context"
	"fmt"
)

const (
	release   = "policy: {on_5xx: release}"
	asTheyAre = "policy: {status_outcome: {}}" // a 5xx is a result, also of a proxy
	// lost is why a row about a panic is not one about a gateway.
	lost = "to a gateway, an upstream that panics is a lost answer, whatever on_panic says: see GW-01"
)

// What a failure leaves behind.
var casesFX = []Case{
	{ID: "FX-01", Run: func(c *C) {
		for _, status := range []int{404, 409, 410, 422} {
			d := c.Named(status)
			d.Twice(status, fmt.Sprintf("/fx/status/%d", status))
			d.Effects(1)
		}
	}},
	{ID: "FX-02", Run: func(c *C) {
		for _, status := range []int{401, 403, 407, 408, 421, 425, 429} {
			d := c.Named(status)
			first := d.POST(fmt.Sprintf("/fx/status/%d", status)).First(status)
			first.Lacks(expires)
			first.Retry().First(status)
			d.Effects(2)
		}
	}},
	{ID: "FX-03", Run: func(c *C) {
		for _, status := range []int{500, 502, 503, 504} {
			path := fmt.Sprintf("/fx/status/%d", status)
			d := c.With(asTheyAre).Named(status)
			d.Twice(status, path)
			d.Effects(1)
			if d = c.Named(fmt.Sprint("default", status)); c.target.Gateway && status != 500 { // it may be the page of a proxy in between
				d.POST(path).First(status).Retry().Problem("outcome-unknown")
			} else {
				d.Twice(status, path)
			}
			d.Effects(1)
			d = c.With(release).Named(fmt.Sprint("release", status))
			d.POST(path).First(status).Retry().First(status)
			d.Effects(2)
			d = c.With("policy: {on_5xx: unknown}").Named(fmt.Sprint("unknown", status))
			d.POST(path).First(status).Says(fmt.Sprintf("status:%d", status)).Retry().Problem("outcome-unknown")
			d.Effects(1)
		}
	}},
	{ID: "FX-04", Run: func(c *C) {
		first := c.POST("/fx/second").First(503)
		first.Lacks(OutcomeHeader)
		c.Effects(0)
		c.State("retryable")
		first.Retry(body(`{"a":2}`)).Problem("key-reused") // the fingerprint stays
		c.Release(1)
		done := first.Retry().First(201)
		done.Retry().Replays(done)
		c.Effects(1)
	}},
	{ID: "FX-05", Run: func(c *C) { givesUp(c, "/fx/panic?when=after") }},
	{ID: "FX-06", Policy: "policy: {on_panic: release}", Only: "middleware", Why: lost, Run: func(c *C) {
		first := c.POST("/fx/panic?when=before")
		first.Broken()
		first.Retry().Broken()
		c.Seen(2)
		c.Effects(0)
	}},
	{ID: "FX-07", Run: func(c *C) { givesUp(c, "/fx/abort") }},
	{ID: "FX-08", Run: func(c *C) {
		ctx, cancel := context.WithCancel(c.ctx)
		owner := c.Begun("POST", "/fx/hang?obey", within(ctx))
		cancel()
		owner.Wait().Broken()
		c.POST("/fx/hang?obey").Problem("in-progress") // it goes on: its context has not ended
		c.Release(1)
		c.settled(func() *Answer { return c.POST("/fx/hang?obey") }).marked(201, `{"id":"1"}`)
		c.Effects(1)
	}},
	{ID: "FX-09", Run: func(c *C) {
		n := c.Dial()
		n.Write("%s", c.head("POST /fx/json HTTP/1.1", `Idempotency-Key: "half"`, "Content-Length: 7")+`{"a`)
		n.Close()
		c.POST("/fx/json", key(`"half"`)).First(201)
		c.Effects(1)
	}},
	{ID: "FX-10", Policy: "policy: {execution_timeout_s: 2, lease_s: 3}", Run: func(c *C) {
		first := c.POST("/fx/hang?obey")
		first.Problem("execution-timeout")
		first.Retry().Problem("outcome-unknown")
		c.State("unknown")
		c.Effects(1)
	}},
	{ID: "FX-11", Policy: "policy: {execution_timeout_s: 2}", Run: func(c *C) { // N04
		first := c.Begun("POST", "/fx/hang")
		first.Wait().Problem("execution-timeout")
		c.POST("/fx/hang").Problem("outcome-unknown")
		c.Release(1) // the handler ignored its context, and finishes after all
		c.settled(func() *Answer { return c.POST("/fx/hang") }).marked(201, `{"id":"1"}`)
		c.Effects(1)
	}},
	{ID: "FX-12", Policy: "policy: {max_body_bytes: 100}", Run: func(c *C) {
		c.POST("/fx/json", noKey).Problem("missing-key")
		c.POST("/fx/json", body(string(Pattern(101)))).Problem("payload-too-large")
		c.Records(0)
		first := c.POST("/fx/json").First(201)
		first.Retry(body(`{"a":2}`)).Problem("key-reused")
		first.Retry().Replays(first)
		c.Effects(1)
	}},
	{ID: "FX-13", Skip: "services do it: stethttp/atomic_test.go, internal/integration/sqlite/atomic_test.go"},
	{ID: "FX-14", Skip: "services do it: stethttp/atomic_test.go, internal/integration/sqlite/atomic_test.go"},
	{ID: "FX-15", Skip: "an operator does it: cmd/stet/testdata/script/keys_change.txtar"},
}

// givesUp: a handler that ends without an answer, after its effect. The layer lives, and the key
// waits for evidence.
func givesUp(c *C, path string) {
	first := c.POST(path)
	if c.target.Gateway {
		first.Problem("upstream-failed")
	} else {
		first.Broken() // re-panicked: net/http closes the connection
	}
	first.Retry().Problem("outcome-unknown")
	c.State("unknown")
	c.Effects(1)
	c.POST("/fx/json", key("another")).First(201)
}
