package blackbox

import (
	"fmt"
	"strings"
)

// Limits.
var casesLM = []Case{
	{ID: "LM-01", Run: func(c *C) {
		const limit = 1 << 20
		c.POST("/fx/json", body(string(Pattern(limit)))).First(201)
		n := c.Dial() // over the limit by its length: refused before the body
		n.Write("%s", c.head("POST /fx/json HTTP/1.1", `Idempotency-Key: "length"`, fmt.Sprintf("Content-Length: %d", limit+1)))
		n.ReadSoon().Problem("payload-too-large")
		c.POST("/fx/json", key(`"chunked"`), body(string(Pattern(limit+1))), chunked).Problem("payload-too-large")
		c.Records(1)
		c.Effects(1)
		c.POST("/fx/json", key(`"chunked"`)).First(201)
	}},
	{ID: "LM-02", Run: func(c *C) { // W27
		const over = 1<<20 + 1
		first := c.POST(fmt.Sprintf("/fx/large?bytes=%d", over)).First(201).Says(string(Pattern(over)))
		a := c.settledOrUnknown(func() *Answer { return first.Retry() }) // a live response is over before its record is
		if d := a.Problem("result-not-retained"); d.OriginalStatus != 201 {
			a.fail("original_status has to be 201")
		}
		c.Effects(1)
	}},
	{ID: "LM-03", Policy: "policy: {on_oversize: omit-body, max_response_bytes: 1000}", Run: func(c *C) {
		first := c.POST("/fx/large?bytes=1001").First(201).Says(string(Pattern(1001)))
		c.settled(func() *Answer { return first.Retry() }).marked(201, "").Has("Stet-Body", "omitted").Has("Content-Type", "application/octet-stream")
		c.Effects(1)
		c.Named("under").Twice(201, "/fx/large?bytes=1000")
	}},
	{ID: "LM-04", Run: func(c *C) {
		first := c.POST("/fx/large?bytes=10&head=70000").First(201).Says(string(Pattern(10)))
		a := first.Retry()
		if d := a.Problem("result-not-retained"); d.OriginalStatus != 201 {
			a.fail("original_status has to be 201")
		}
		c.Effects(1)
	}},
	{ID: "LM-05", Policy: "limits: {max_keys_per_scope: 5}", Need: NeedOwn, Run: func(c *C) {
		first := c.POST("/fx/json", key("k0")).First(201)
		for i := range 4 {
			c.POST("/fx/json", key(fmt.Sprint("k", i+1))).First(201)
		}
		refused := c.POST("/fx/json", key("k5"))
		refused.Problem("key-quota-exceeded")
		c.Effects(5)
		c.POST("/fx/json", key("k5"), as(c.who("t2:u1"))).First(201)
		first.Retry().Replays(first)
		c.Effects(6)
		c.Records(5)
	}},
	{ID: "LM-06", Policy: "limits: {new_keys_per_second: 2, burst: 3}", Need: NeedOwn, Run: func(c *C) {
		var first, refused *Answer
		for i := 0; refused == nil; i++ {
			if a := c.POST("/fx/json", key(fmt.Sprint("k", i))); a.Status == 429 {
				a.Problem("rate-limited")
				refused = a
			} else {
				first = a.First(201)
			}
			if i == 1000 {
				c.Fatal("a thousand new keys, and no limit")
			}
		}
		first.Retry().Replays(first) // never limited
		ran := c.srv.Fixture().Effects(c.name)
		c.Records(ran)
		c.Until("the bucket has refilled", func() bool { return refused.Retry().Status == 201 })
		c.Effects(ran + 1)
	}},
	{ID: "LM-07", Policy: "limits: {lookups_per_second: 1, burst: 3}", Need: NeedOwn, Run: func(c *C) {
		first := c.POST("/fx/json").First(201)
		var limited int
		for i := range 20 {
			a := first.Retry(body(fmt.Sprintf(`{"guess":%d}`, i)))
			if a.Status == 429 {
				a.Problem("rate-limited")
				limited++
			} else {
				a.Problem("key-reused")
			}
		}
		if limited == 0 {
			c.Fatal("20 guesses at once, and no limit")
		}
		first.Retry().Replays(first)
		c.Effects(1)
	}},
	{ID: "LM-08", Policy: "limits: {max_keys: 5}", Need: NeedOwn, Run: func(c *C) {
		var kept []*Answer
		for i := range 5 {
			kept = append(kept, c.POST("/fx/json", key(fmt.Sprint("k", i)), as(c.who(fmt.Sprint("t", i, ":u")))).First(201))
		}
		a := c.POST("/fx/json", key("k5"))
		if a.Status != 503 {
			a.Problem("key-quota-exceeded")
		}
		for _, first := range kept {
			first.Retry().Replays(first) // refused rather than evicted
		}
		c.Effects(5)
	}},
	{ID: "LM-09", Policy: "read_timeout_s: 2", Run: func(c *C) {
		n := c.Dial()
		n.Write("%s", c.head("POST /fx/json HTTP/1.1", `Idempotency-Key: "slow"`, "Content-Length: 7")+`{"a`)
		n.ReadSoon().Problem("request-timeout")
		c.Seen(0)
		c.Records(0)
		c.POST("/fx/json", key(`"slow"`)).First(201)
	}},
}

// long is a key of n bytes.
func long(letter string, n int) string { return `"` + strings.Repeat(letter, n) + `"` }
