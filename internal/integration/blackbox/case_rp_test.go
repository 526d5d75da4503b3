package blackbox

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A replay is the first response.
var casesRP = []Case{
	{ID: "RP-01", Run: func(c *C) {
		odd := "{ \"z\" :  1,\n\t\"a\":[ 1 , 2],\"z2\":1e0 }\r\n"
		first, _ := c.Twice(201, "/fx/echo", body(odd))
		first.Says(odd)
		c.Effects(1)
	}},
	{ID: "RP-02", Run: func(c *C) {
		first, second := c.Twice(201, "/fx/json")
		for _, a := range []*Answer{first, second} {
			a.Has(echo, first.req.keys[0])
		}
		c.Effects(1)
	}},
	{ID: "RP-03", Run: func(c *C) {
		_, second := c.Twice(201, "/fx/headers")
		second.Has("Location", "/things/1?a=1&b=2").Has("ETag", `W/"1"`).Has("Cache-Control", "no-store").
			Has("Content-Type", "application/json; charset=utf-8").Has("Content-Language", "de").Has("X-Request-Cost", "12")
		c.Effects(1)
	}},
	{ID: "RP-04", Run: func(c *C) {
		_, second := c.Twice(201, "/fx/headers")
		second.Has("Link", `<a>; rel="next"`, `<b>; rel="prev"`).Has("Vary", "Accept", "Accept-Language", "X-Tenant").
			Has("Warning", `199 - "first"`, `199 - "second"`, `199 - "third"`).
			Has("X-Lines", "one, with a comma", "two", "one, with a comma")
		c.Effects(1)
	}},
	{ID: "RP-05", Run: func(c *C) {
		first, second := c.Twice(201, "/fx/json")
		first.Has("Set-Cookie", "a=1; Path=/", "b=2; Path=/")
		second.Lacks("Set-Cookie")
		kept := c.With("policy: {replay: {keep_set_cookie: true}}").Named("kept").POST("/fx/json").First(201)
		kept.Retry().Is(201).Has(replayed, "true").Has("Set-Cookie", "a=1; Path=/", "b=2; Path=/")
	}},
	{ID: "RP-06", Run: func(c *C) {
		_, second := c.Twice(201, "/fx/hop")
		second.Lacks("Server", "Keep-Alive", "Transfer-Encoding", "Trailer", "Upgrade")
		dates := second.Header["Date"]
		at, err := http.ParseTime(second.Header.Get("Date"))
		if len(dates) != 1 || err != nil || time.Since(at).Abs() > time.Minute {
			second.fail("want one Date, and the current one")
		}
		c.Effects(1)
	}},
	{ID: "RP-07", Run: func(c *C) {
		_, second := c.Twice(201, "/fx/hop")
		second.Lacks("X-Hop", "Proxy-Connection", "Te", "Proxy-Authenticate", "Www-Authenticate", "Keep-Alive").Has("X-End", "2")
		c.Effects(1)
	}},
	{ID: "RP-08", Run: func(c *C) {
		first, _ := c.Twice(201, "/fx/bin")
		for i := range 256 {
			if len(first.Body) != 256 || first.Body[i] != byte(i) {
				first.fail("want all 256 values of a byte")
			}
		}
		c.Effects(1)
	}},
	{ID: "RP-09", Run: func(c *C) {
		for _, status := range []int{204, 205} {
			d := c.Named(status)
			_, second := d.Twice(status, fmt.Sprintf("/fx/status/%d", status))
			second.Says("")
			if status == 204 {
				second.Lacks("Content-Length")
			}
			d.Effects(1)
		}
	}},
	{ID: "RP-10", Run: func(c *C) {
		for _, status := range []int{301, 302, 303} {
			d := c.Named(status)
			_, second := d.Twice(status, fmt.Sprintf("/fx/status/%d", status))
			second.Has("Location", "/elsewhere")
			d.Effects(1)
		}
		for _, status := range []int{307, 308} { // the request belongs elsewhere: it is no result (Q02)
			d := c.Named(status)
			path := fmt.Sprintf("/fx/status/%d", status)
			d.POST(path).First(status).Has("Location", "/elsewhere").Lacks(expires)
			d.POST(path).First(status)
			d.POST("/fx/json").First(201)
			d.Effects(3)
		}
	}},
	{ID: "RP-11", Run: func(c *C) {
		_, second := c.Twice(304, "/fx/status/304")
		second.Says("").Has("ETag", `"v1"`).Lacks("Content-Length")
		c.Effects(1)
	}},
	{ID: "RP-12", Run: func(c *C) {
		first, second := c.Twice(200, "/fx/empty")
		first.Says("")
		if second.Length != 0 {
			second.fail("want Content-Length: 0")
		}
		c.Effects(1)
	}},
	{ID: "RP-13", Run: func(c *C) {
		first, _ := c.Twice(201, "/fx/chunked")
		first.Says("piece 0\npiece 1\npiece 2\n")
		n := c.Dial()
		n.Write("%s", c.head("POST /fx/chunked HTTP/1.1", "Idempotency-Key: "+first.req.keys[0], "Content-Length: 7")+`{"a":1}`)
		head, err := block(n.in)
		if err != nil {
			c.Fatal(err)
		}
		lines := strings.ToLower(head)
		if framing := strings.Count(lines, "\r\ncontent-length:") + strings.Count(lines, "\r\ntransfer-encoding:"); framing != 1 {
			c.Fatalf("%d framing fields in\n%s", framing, head)
		}
		c.Effects(1)
	}},
	{ID: "RP-14", Run: func(c *C) { // what was stored is sent, whatever a retry accepts: nothing is encoded or decoded again
		first := c.POST("/fx/gzip", header("Accept-Encoding", "gzip")).First(201)
		first.Has("Content-Encoding", "gzip").Has("Vary", "Accept-Encoding")
		first.Retry().Replays(first)
		first.Retry(header("Accept-Encoding", "")).Replays(first)
		c.Effects(1)
	}},
	{ID: "RP-15", Only: "middleware", Why: "an order of handlers in one program, which a gateway has not", Run: compressionOutsideAndInside},
	{ID: "RP-16", Run: func(c *C) {
		first, second := c.Twice(201, "/fx/trailer")
		for _, a := range []*Answer{first, second} {
			if a.Trailer.Get("X-T") != "announced" || a.Trailer.Get("X-U") != "unannounced" {
				a.fail("want both trailers, got %v", a.Trailer)
			}
			a.Lacks("X-T", "X-U")
		}
		c.Effects(1)
	}},
	{ID: "RP-17", Run: func(c *C) {
		n := c.Dial()
		n.Write("%s", c.head("POST /fx/early-hints?hold HTTP/1.1", "Idempotency-Key: hint", "Content-Length: 7")+`{"a":1}`)
		live := n.Read() // while the handler has not answered yet
		if live.Status != 103 || live.Header.Get("X-Hint") == "" || live.Header.Get("Link") == "" {
			live.fail("want a 103 with its fields")
		}
		live.Unmarked()
		c.Release(1)
		first := n.Read().First(201).Lacks("Link", "X-Hint").Has("X-Final", "201")
		second := c.POST("/fx/early-hints?hold", key("hint")).Replays(first)
		if len(second.Interim) != 0 {
			second.fail("a 1xx response is never part of a stored one")
		}
		c.Effects(1)
	}},
	{ID: "RP-18", Run: func(c *C) {
		for _, size := range []int{1<<20 - 1, 1 << 20} {
			d := c.Named(size)
			first, _ := d.Twice(201, fmt.Sprintf("/fx/large?bytes=%d", size))
			first.Says(string(Pattern(size)))
			d.Effects(1)
		}
	}},
	{ID: "RP-19", Run: func(c *C) {
		for _, status := range []int{299, 499, 599} {
			d := c.Named(status)
			d.Twice(status, fmt.Sprintf("/fx/status/%d", status))
			d.Effects(1)
		}
	}},
	{ID: "RP-20", Run: func(c *C) {
		first := c.POST("/fx/json").First(201)
		for _, a := range take(c.Race(50, "POST", "/fx/json"), 50) {
			a.Replays(first)
		}
		first.Retry().Replays(first)
		c.Effects(1)
	}},
	{ID: "RP-21", Run: func(c *C) {
		first := c.POST("/fx/json").First(201).Says(`{"id":"1"}`)
		c.POST("/fx/json", key("another")).First(201).Says(`{"id":"2"}`)
		first.Retry().Replays(first)
		c.Effects(2)
	}},
	{ID: "RP-22", Policy: "h2c: true", Run: func(c *C) {
		one := c.POST("/fx/hop", key("one")).First(201)
		two := one.Retry(h2).Replays(one)
		if one.Proto != "HTTP/1.1" || two.Proto != "HTTP/2.0" {
			c.Fatalf("protocols %s and %s", one.Proto, two.Proto)
		}
		two.Lacks("Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade")
		back := c.POST("/fx/json", key("two"), h2).First(201)
		back.Retry(func(r *request) { r.h2 = false }).Replays(back)
		c.Effects(2)
	}},
	{ID: "RP-23", Run: func(c *C) {
		first := c.POST("/fx/json", header("If-None-Match", `"a"`)).First(201)
		first.Retry(header("If-None-Match", `"b"`)).Replays(first)
		c.Effects(1)
	}},
	{ID: "RP-24", Run: func(c *C) {
		_, second := c.Twice(http.StatusOK, "/fx/sniff")
		second.Has("Content-Type", "text/html; charset=utf-8")
		c.Effects(1)
	}},
}
