package blackbox

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Malice.
var casesSE = []Case{
	{ID: "SE-01", Run: func(c *C) {
		keys := []string{`"../../etc/passwd"`, `"a/b"`, `"a\\b"`, `"CON"`, `"."`, `".."`, `"a b"`, long("A", 255), long("a", 255)}
		c.independent(keys)
	}},
	{ID: "SE-02", Skip: "a row for the file store alone: it runs beside it, not over HTTP"},
	{ID: "SE-03", Run: func(c *C) {
		c.independent([]string{`"'; DROP TABLE x;--"`, `"{a}b"`, `"*"`, `"a\\nSET x"`, `"%"`, `"_"`, `"a' OR '1'='1"`})
	}},
	{ID: "SE-04", Run: func(c *C) {
		k := `"a\"b\\c"`
		first, second := c.Twice(201, "/fx/json", key(k+";p=1"))
		first.Has(echo, k)
		second.Has(echo, k)
		c.Effects(1)
	}},
	{ID: "SE-05", Run: func(c *C) {
		first, second := c.Twice(201, "/fx/crlf")
		first.Lacks("X-Injected")
		second.Lacks("X-Injected")
		c.Effects(1)
	}},
	{ID: "SE-06", Run: func(c *C) {
		first := c.POST("/fx/json", header(replayed, "true"), header(replay, "true")).First(201)
		first.Retry().Replays(first)
		c.Effects(1)
	}},
	{ID: "SE-07", Need: NeedFaults, Run: func(c *C) {
		const secret = "key-4cab1e"
		text := `{"iban":"DE00secret"}`
		send := func(path string, o ...option) *Answer {
			return c.POST(path, append(opts(key(secret), body(text)), o...)...)
		}
		send("/fx/json").First(201)
		send("/fx/json").Is(201)
		send("/fx/json", body(`{"iban":"DE11secret"}`)).Problem("key-reused")
		send("/fx/panic?when=after", key(secret+"2"))
		send("/fx/panic?when=after", key(secret+"2")).Problem("outcome-unknown")
		send("/fx/json", key(`"`+secret)).Problem("invalid-key")
		c.Faults().Down()
		send("/fx/json", key(secret+"3")).Problem("store-unavailable")
		c.Faults().Up()
		for _, private := range []string{secret, "DE00secret", "DE11secret"} {
			if log := c.srv.Log(); strings.Contains(log, private) {
				c.Fatalf("the log has %q:\n%s", private, log)
			}
		}
	}},
	{ID: "SE-08", Skip: "it looks into the store: cmd/stet/testdata/script/encryption.txtar, store/sealstore; the cases run over sealed stores as well"},
	{ID: "SE-09", Run: func(c *C) {
		for _, k := range []string{"\"р1\"", "\"e\u0301\"", "\"\u00e9\""} { // Cyrillic er; é in both normal forms
			c.POST("/fx/json", key(k)).Problem("invalid-key")
		}
		c.Effects(0)
	}},
	{ID: "SE-10", Policy: "policy: {max_request_age_s: 60}", Run: func(c *C) {
		sent := func(ago time.Duration) option {
			return header("Idempotency-First-Sent", time.Now().Add(-ago).UTC().Format(http.TimeFormat))
		}
		c.POST("/fx/json").Problem("request-too-old")
		c.POST("/fx/json", sent(5*time.Minute)).Problem("request-too-old")
		c.POST("/fx/json", header("Idempotency-First-Sent", "yesterday")).Problem("request-too-old")
		c.Effects(0)
		c.Records(0)
		first := c.POST("/fx/json", sent(time.Second)).First(201)
		first.Retry(sent(2 * time.Second)).Replays(first)
		c.Effects(1)
	}},
	{ID: "SE-11", Run: func(c *C) {
		on := c.With("policy: {early_data: true}")
		on.POST("/fx/json", header("Early-Data", "1")).Problem("too-early")
		on.Records(0)
		first := on.POST("/fx/json").First(201)
		first.Retry().Replays(first)
		c.Effects(0)
		on.Effects(1)
		c.Named("off").POST("/fx/json", header("Early-Data", "1")).First(201)
	}},
}

// independent demands that each key is one of its own, and works.
func (c *C) independent(keys []string) {
	c.Helper()
	var firsts []*Answer
	for i, k := range keys {
		firsts = append(firsts, c.POST("/fx/json", key(k)).First(201).Says(fmt.Sprintf(`{"id":"%d"}`, i+1)))
	}
	for _, first := range firsts {
		first.Retry().Replays(first)
	}
	c.Effects(len(keys))
}
