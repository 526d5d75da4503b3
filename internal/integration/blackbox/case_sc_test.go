package blackbox

import (
	"bytes"
	"fmt"
	"strings"
)

// Whose key it is.
var casesSC = []Case{
	{ID: "SC-01", Run: func(c *C) { independent(c, "t1:u1", "t2:u1") }}, // I4
	{ID: "SC-02", Run: func(c *C) { independent(c, "t1:u1", "t1:u2") }},
	{ID: "SC-03", Run: func(c *C) {
		first := c.POST("/fx/json").First(201)
		first.Retry(as(strings.TrimSuffix(c.who("t1:u1"), "n1") + "n2")).Replays(first)
		c.Effects(1)
	}},
	{ID: "SC-04", Run: func(c *C) { // I7
		a := c.POST("/fx/json", anonymous)
		a.Problem("unauthenticated")
		if a.Header.Get("WWW-Authenticate") == "" {
			a.fail("a 401 has to say how to authenticate (RFC 9110 section 15.5.2)")
		}
		c.Effects(0)
		c.Records(0)
	}},
	{ID: "SC-05", Run: func(c *C) {
		first := c.POST("/fx/echo", body(`{"secret":"card number"}`)).First(201)
		a := first.Retry(anonymous)
		a.Problem("unauthenticated")
		if bytes.Contains(a.Body, []byte("card")) {
			a.fail("the stored body was disclosed")
		}
		c.Effects(1)
	}},
	{ID: "SC-06", Run: func(c *C) {
		first := c.POST("/fx/script/403,201").First(403)
		done := first.Retry().First(201)
		done.Retry().Replays(done)
		c.Effects(2)
	}},
	{ID: "SC-07", Only: "middleware", Why: "the trusted header is the identity here; tokens belong to the issue that brings JWT", Run: func(c *C) {
		first := c.POST("/fx/json", header("X-Tenant-Id", "t2"), body(`{"tenant":"t2"}`)).First(201)
		first.Retry(header("X-Tenant-Id", "t3")).Replays(first)
		first.Retry(as(c.who("t2:u1"))).First(201)
		c.Effects(2)
	}},
	{ID: "SC-08", Run: func(c *C) {
		for i, sep := range []string{":", "/", "%3A", "%2F", "|", "%00", " "} {
			d := c.Named(i)
			left := d.POST("/fx/json", as(d.name+":n1"), key(fmt.Sprintf(`"b%sc"`, sep))).First(201)
			right := d.POST("/fx/json", as(d.name+sep+"b:n1"), key(`"c"`)).First(201)
			left.Retry().Replays(left)
			right.Retry().Replays(right)
			d.Effects(2)
		}
	}},
	{ID: "SC-09", Skip: "operators see every tenant; a lookup bound to one tenant belongs to the issue of the admin API"},
}

// independent demands that two principals use the same key for two requests of their own.
func independent(c *C, one, two string) {
	k := key(`"shared"`)
	first := c.POST("/fx/json", k, as(c.who(one))).First(201).Says(`{"id":"1"}`)
	second := c.POST("/fx/json", k, as(c.who(two))).First(201).Says(`{"id":"2"}`)
	first.Retry().Replays(first)
	second.Retry().Replays(second)
	c.Effects(2)
}
