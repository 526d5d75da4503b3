package blackbox

import "strings"

const uuid = "8e03978e-40d5-43e8-bc93-6894a57f9324"

// seedOnly is why profile seed-strict runs on memory alone.
const seedOnly = "seed-strict keeps nothing unencrypted on a disk, and encryption belongs to an issue of its own"

// Key syntax.
var casesKS = []Case{
	{ID: "KS-01", Run: func(c *C) {
		first, second := c.Twice(201, "/fx/json", key(`"`+uuid+`"`))
		first.Has(echo, `"`+uuid+`"`)
		second.Has(echo, `"`+uuid+`"`)
		c.Effects(1)
	}},
	{ID: "KS-02", Run: func(c *C) {
		first, _ := c.Twice(201, "/fx/json", key(uuid))
		first.Has(echo, `"`+uuid+`"`)
		c.Effects(1)
	}},
	{ID: "KS-03", Run: func(c *C) {
		first := c.POST("/fx/json", key(`k3`)).First(201)
		first.Retry(key(`"k3"`)).Replays(first)
		c.Effects(1)
	}},
	{ID: "KS-04", Policy: "policy: {profile: ietf}", Run: func(c *C) {
		for _, k := range []string{"1b4e28ba-2fa1-41d2-883f-0016d3cca427", "abc", "42", "?1", ":YWJj:", `%"x"`, "'k'"} {
			c.POST("/fx/json", key(k)).Problem("invalid-key")
		}
		c.Effects(0)
		c.Records(0)
	}},
	{ID: "KS-05", Run: func(c *C) {
		for _, k := range []string{"", `""`, `"   "`} {
			c.POST("/fx/json", key(k)).Problem("invalid-key")
		}
		c.Effects(0)
		c.Records(0)
	}},
	{ID: "KS-06", Run: func(c *C) {
		c.POST("/fx/json", key(`"`+strings.Repeat("a", 255)+`"`)).First(201)
		c.POST("/fx/json", key(`"`+strings.Repeat("a", 256)+`"`)).Problem("invalid-key")
		c.Effects(1)
	}},
	{ID: "KS-07", Policy: "policy: {profile: seed-strict}", Only: "memory", Why: seedOnly, Run: func(c *C) {
		c.POST("/fx/json", key(strings.Repeat("a", 200))).First(201)
		c.POST("/fx/json", key(strings.Repeat("a", 201))).Problem("invalid-key", 422)
		c.Effects(1)
	}},
	{ID: "KS-08", Policy: "policy: {key: {max_len: 1024}}", Run: func(c *C) {
		c.Twice(201, "/fx/json", key(`"`+strings.Repeat("a", 1024)+`"`))
		c.POST("/fx/json", key(`"`+strings.Repeat("a", 1025)+`"`)).Problem("invalid-key")
		c.Effects(1)
	}},
	{ID: "KS-09", Run: func(c *C) {
		c.Twice(201, "/fx/json", key(`"a\"b"`))
		c.Twice(201, "/fx/json", key(`"a\\b"`))
		c.Effects(2)
	}},
	{ID: "KS-10", Run: func(c *C) {
		for _, k := range []string{`"a\,b"`, `"abc`, `"abc\"`, `"abc\`, `"a" b`, `"a",`} {
			c.POST("/fx/json", key(k)).Problem("invalid-key")
		}
		c.Effects(0)
	}},
	{ID: "KS-11", Run: func(c *C) {
		for _, k := range []string{`"füü"`, `café`, "\xff\xfe", "\"\xff\xfe\""} {
			c.POST("/fx/json", key(k)).Problem("invalid-key")
		}
		c.Effects(0)
	}},
	{ID: "KS-12", Run: func(c *C) { // net/http refuses these before any handler: a proxy in front could read them otherwise
		for _, k := range []string{"\"a\x00b\"", "\"a\x01b\"", "\"a\x7fb\"", "\"a\rb\""} {
			c.Raw("/fx/json", "Idempotency-Key: "+k).Is(400)
		}
		c.Effects(0)
		c.Records(0)
	}},
	{ID: "KS-13", Run: func(c *C) { // a folded line arrives as one space: no part of a bare key, part of a quoted one
		c.Raw("/fx/json", "Idempotency-Key: \"a\tb\"").Problem("invalid-key")
		c.Raw("/fx/json", "Idempotency-Key: a\r\n b").Problem("invalid-key")
		c.Effects(0)
		c.Raw("/fx/json", "Idempotency-Key: \"a\r\n b\"").First(201).Has(echo, `"a b"`)
		c.Effects(1)
	}},
	{ID: "KS-14", Run: func(c *C) { // never the first of several
		c.POST("/fx/json", key(`"a"`, `"b"`)).Problem("invalid-key")
		c.POST("/fx/json", key("a", "a")).Problem("invalid-key")
		c.POST("/fx/json", key("a, b")).Problem("invalid-key")
		c.Effects(0)
		c.Records(0)
	}},
	{ID: "KS-15", Run: func(c *C) {
		first := c.POST("/fx/json", key(`"k15";v=1`)).First(201)
		first.Retry(key(`"k15"`)).Replays(first)
		first.Retry(key(`"k15";x;y="z"`)).Replays(first)
		c.Effects(1)
	}},
	{ID: "KS-16", Run: func(c *C) {
		first := c.POST("/fx/json", rename("idempotency-key")).First(201)
		c.POST("/fx/json", rename("IDEMPOTENCY-KEY")).Replays(first)
		c.POST("/fx/json", rename("Idempotency_Key")).Problem("missing-key")
		c.Effects(1)
	}},
	{ID: "KS-17", Run: func(c *C) {
		c.Twice(201, "/fx/json", key("K17"))
		c.Twice(201, "/fx/json", key("k17"))
		c.Effects(2)
	}},
	{ID: "KS-18", Skip: "a row for the parser alone: it runs beside the parser, not over HTTP"},
}
