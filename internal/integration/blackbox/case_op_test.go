package blackbox

import (
	"fmt"
	"strings"
	"time"
)

// Counters move by exactly one per event.
var casesOP = []Case{
	{ID: "OP-01", Need: NeedMetrics | NeedFaults, Policy: "policy: {max_body_bytes: 1000}", Run: func(c *C) {
		ask := c.counted
		ask("missing_key", func(c *C) { c.POST("/fx/json", noKey).Problem("missing-key") })
		ask("invalid_key", func(c *C) { c.POST("/fx/json", key("")).Problem("invalid-key") })
		ask("unauthenticated", func(c *C) { c.POST("/fx/json", anonymous).Problem("unauthenticated") })
		ask("too_large", func(c *C) { c.POST("/fx/json", body(string(Pattern(1001)))).Problem("payload-too-large") })
		ask("bypass", func(c *C) { c.Do("GET", "/fx/count", body("")).Passed(200) })
		first := c.POST("/fx/json", key("counted"))
		ask("replay", func(c *C) { first.Retry().Replays(first) })
		ask("conflict", func(c *C) { first.Retry(body(`{"a":2}`)).Problem("key-reused") })
		ask("new", func(c *C) { c.POST("/fx/json").First(201) })
		d := c.Named("unknown")
		lost := d.POST("/fx/outcome/unknown").First(504)
		ask("unknown", func(*C) { lost.Retry().Problem("outcome-unknown") })
		d = c.Named("retry")
		d.POST("/fx/second").First(503)
		d.Release(1)
		ask("retry", func(*C) { d.POST("/fx/second").First(201) })
		d = c.Named("running")
		owner := d.Begun("POST", "/fx/hang")
		ask("in_progress", func(*C) { d.POST("/fx/hang").Problem("in-progress") })
		d.Release(1)
		owner.Wait().First(201)
		c.Faults().Down()
		ask("store_error", func(c *C) { c.POST("/fx/json").Problem("store-unavailable") })
		c.Faults().Up()
	}},
	{ID: "OP-02", Need: NeedMetrics, Run: func(c *C) { // executions only
		before := c.metric("idem_execution_ms_count")
		first, _ := c.Twice(201, "/fx/json")
		first.Retry(body(`{"a":2}`)).Problem("key-reused")
		c.Until("the execution is counted", func() bool { return c.metric("idem_execution_ms_count") >= before+1 })
		if got := c.metric("idem_execution_ms_count"); got != before+1 {
			c.Fatalf("%v executions, want 1", got-before)
		}
	}},
	{ID: "OP-03", Need: NeedMetrics, Run: func(c *C) { // no key, scope or body in a label
		c.Twice(201, "/fx/json")
		all, err := c.srv.Metrics()
		if err != nil {
			c.Fatal(err)
		}
		for series := range all {
			if strings.Contains(series, c.name) {
				c.Errorf("a label names the key or the tenant: %s", series)
			}
		}
	}},
	{ID: "OP-04", Need: NeedMetrics | NeedClock, Policy: "policy: {default_ttl_s: 3600}", Run: func(c *C) {
		c.Twice(201, "/fx/json")
		c.Faults().FailComplete(true)
		c.Named("lost").POST("/fx/json").First(201)
		c.Until("the failed write is counted", func() bool { return c.metric("idem_store_errors_total") > 0 })
		c.Faults().Advance(time.Minute)
		c.Faults().FailComplete(false)
	}},
}

// metric sums a counter over its series.
func (c *C) metric(name string) (sum float64) {
	c.Helper()
	all, err := c.srv.Metrics()
	if err != nil {
		c.Fatal(err)
	}
	for series, v := range all {
		if base, _, _ := strings.Cut(series, "{"); base == name {
			sum += v
		}
	}
	return sum
}

// results returns idem_requests_total by its result.
func (c *C) results() map[string]float64 {
	c.Helper()
	all, err := c.srv.Metrics()
	if err != nil {
		c.Fatal(err)
	}
	sums := map[string]float64{}
	for series, v := range all {
		if base, labels, _ := strings.Cut(series, "{"); base == "idem_requests_total" {
			_, rest, _ := strings.Cut(labels, `result="`)
			result, _, _ := strings.Cut(rest, `"`)
			sums[result] += v
		}
	}
	return sums
}

// counted demands that one request moves one result by one, and nothing else.
func (c *C) counted(result string, send func(c *C)) {
	c.Helper()
	before := c.results()
	send(c.Named("counted-" + result))
	c.Until(fmt.Sprintf("%s is counted", result), func() bool { return c.results()[result] > before[result] })
	for name, v := range c.results() {
		want := before[name]
		if name == result {
			want++
		}
		if v != want {
			c.Fatalf("after one %s: %s went from %v to %v", result, name, before[name], v)
		}
	}
}
