package blackbox

// Missing keys and methods.
var casesMM = []Case{
	{ID: "MM-01", Run: func(c *C) {
		c.POST("/fx/json", noKey).Problem("missing-key")
		c.Seen(0)
		c.Records(0)
	}},
	{ID: "MM-02", Run: func(c *C) {
		c.Do("PATCH", "/fx/json", noKey).Problem("missing-key")
		c.Seen(0)
	}},
	{ID: "MM-03", Run: func(c *C) {
		c.Do("PUT", "/fx/json", noKey).Passed(201)
		c.Do("DELETE", "/fx/json", noKey).Passed(201)
		c.Effects(2)
		c.Records(0)
	}},
	{ID: "MM-04", Run: func(c *C) {
		for _, method := range []string{"PUT", "DELETE"} {
			d := c.Named(method)
			first := d.Do(method, "/fx/json").First(201)
			first.Retry().Replays(first)
			d.Effects(1)
		}
	}},
	{ID: "MM-05", Policy: "policy: {profile: seed-strict}", Only: "memory", Why: seedOnly, Run: func(c *C) {
		for _, method := range []string{"PUT", "DELETE", "POST", "PATCH"} {
			c.Do(method, "/fx/json", noKey).Problem("missing-key")
		}
		c.Effects(0)
	}},
	{ID: "MM-06", Run: func(c *C) {
		c.Do("GET", "/fx/count", body("")).Passed(200).Says("0")
		c.POST("/fx/json").First(201)
		c.Do("GET", "/fx/count", body("")).Passed(200).Says("1")
		c.Effects(1)
		c.Records(1) // of the POST
	}},
	{ID: "MM-07", Run: func(c *C) {
		for _, method := range []string{"HEAD", "OPTIONS", "TRACE"} {
			d := c.Named(method)
			d.Do(method, "/fx/json", body("")).Passed(201)
			d.Do(method, "/fx/json", body("")).Passed(201)
			d.Effects(2)
			d.Records(0)
		}
	}},
	{ID: "MM-08", Run: func(c *C) {
		everywhere := "policy: {enabled_methods: [POST, OPTIONS]}\nroutes: [{match: /fx/, mode: required}]"
		for _, d := range []*C{c, c.With(everywhere)} {
			d.Do("OPTIONS", "/fx/cors", noKey, anonymous, body(""), header("Origin", "https://app.example"),
				header("Access-Control-Request-Method", "POST"), header("Access-Control-Request-Headers", "idempotency-key")).
				Passed(204).Has("Access-Control-Allow-Headers", "idempotency-key")
		}
	}},
	{ID: "MM-09", Run: func(c *C) {
		for _, profile := range []string{"stripe", "gateway-compat"} {
			d := c.With("policy: {profile: " + profile + "}").Named(profile)
			d.POST("/fx/json", noKey).Passed(201)
			d.POST("/fx/json", noKey).Passed(201)
			d.Effects(2)
		}
	}},
	{ID: "MM-10", Only: "gateway", Why: "the middleware guards what it is put around; coverage is a matter of the gateway's routes",
		Policy: `
strict_coverage: true
routes:
  - { match: "POST /fx/json", mode: required }
  - { match: "POST /fx/echo", mode: off }
`, Run: func(c *C) {
			c.POST("/fx/echo", noKey).Passed(201)
			c.POST("/fx/json", noKey).Problem("missing-key")
			c.POST("/fx/other").Problem("route-not-covered")
			c.POST("/fx/other", noKey).Problem("route-not-covered")
			c.Effects(1)
		}},
	{ID: "MM-11", Policy: "policy: {enabled_methods: [POST, PURGE]}", Run: func(c *C) {
		first := c.Do("PURGE", "/fx/json").First(201)
		first.Retry().Replays(first)
		c.Effects(1)
	}},
}
