package blackbox

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Profiles.
var casesPF = []Case{
	{ID: "PF-01", Policy: "policy: {profile: stripe}", Run: func(c *C) {
		first := c.POST("/fx/json").First(201).Has(echo, c.plainKey())
		second := first.Retry().Is(201).Has(replayed, "true").Lacks(replay).Has(echo, c.plainKey())
		if c.target.Gateway {
			id := first.Header.Get("Request-Id")
			if !strings.HasPrefix(id, "req_") {
				first.fail("want a Request-Id")
			}
			second.Has("Original-Request", id)
		}
		mismatch := first.Retry(body(`{"a":2}`)).Is(400).stripeError()
		if mismatch.Type != "idempotency_error" || !strings.HasPrefix(mismatch.Message, "Keys for idempotent requests can only be used with the same parameters") {
			c.Fatalf("%+v", mismatch)
		}
		c.Effects(1)
		w := c.Named("waits") // C17: stripe-go asks but once
		owner := w.Begun("POST", "/fx/hang")
		waiter := w.Start("POST", "/fx/hang")
		w.Release(1)
		owner.Wait().Is(201).Lacks(replayed)
		waiter.Wait().Is(201).Has(replayed, "true")
		w.Effects(1)
		d := c.With("policy: {profile: stripe, wait_policy: no-wait}").Named("in flight")
		owner = d.Start("POST", "/fx/hang")
		d.Entered(1)
		busy := d.POST("/fx/hang").Is(409)
		busy.RetryAfter(retryAfterMost)
		if e := busy.stripeError(); e.Code != "idempotency_key_in_use" {
			c.Fatalf("%+v", e)
		}
		d.Release(1)
		owner.Wait().Is(201)
		e := c.Named("500")
		failed := e.POST("/fx/status/500").Is(500)
		failed.Retry().Is(500).Has(replayed, "true")
		e.Effects(1)
	}},
	{ID: "PF-02", Policy: "policy: {profile: stripe-v2}", Run: func(c *C) {
		first := c.POST("/fx/script/500,201").Is(500).Unmarked()
		done := first.Retry().Is(201).Unmarked().goodFor(30 * day)
		done.Retry().Is(201).Has(replayed, "true").Lacks(replay).Says(string(done.Body))
		c.Effects(2)
	}},
	{ID: "PF-03", Policy: "policy: {profile: ietf}", Run: func(c *C) {
		titled := func(a *Answer, code, title string) {
			c.Helper()
			if d := a.Has("Content-Language", "en").Problem(code); d.Title != title {
				a.fail("want the title %q", title)
			}
		}
		titled(c.POST("/fx/json", noKey), "missing-key", "Idempotency-Key is missing")
		c.Effects(0)
		owner := c.Begun("POST", "/fx/hang")
		titled(c.POST("/fx/hang"), "in-progress", "A request is outstanding for this Idempotency-Key")
		titled(c.POST("/fx/hang", body("{}")), "key-reused", "Idempotency-Key is already used")
		c.Release(1)
		first := owner.Wait().First(201)
		first.Retry().Replays(first)
		first.Retry(body(`{ "a":1}`)).Problem("key-reused") // byte for byte
		c.Effects(1)
	}},
	{ID: "PF-04", Policy: "policy: {profile: seed-strict}", Only: "memory", Why: seedOnly, Run: func(c *C) {
		first := c.POST("/fx/json").First(201)
		first.Retry().Is(201).Has(replay, "true").Lacks(replayed)
		first.Retry(body(`{"a":2}`)).Problem("key-reused", 409)
		first.Retry(header("Accept-Language", "de")).Problem("key-reused", 409)
		c.POST("/fx/json", key("")).Problem("invalid-key", 422)
		c.Effects(1)
		for _, status := range []int{500, 403, 429} { // nothing is released by its status
			d := c.Named(status)
			d.POST(fmt.Sprintf("/fx/status/%d", status)).First(status).Retry().Is(status).Has(replay, "true")
			d.Effects(1)
		}
		d := c.With("policy: {profile: seed-strict, wait_policy: wait}").Named("wait")
		answers := take(d.Race(10, "POST", "/fx/slow?ms=100"), 10)
		for _, a := range answers {
			a.Is(201)
		}
		d.Effects(1)
	}},
	{ID: "PF-04-disk", Only: "gateway", Why: "which store goes with which profile is the gateway's to check", Run: func(c *C) {
		_, err := c.target.Open(c.TB, Spec{Policy: "policy: {profile: seed-strict}"})
		switch {
		case c.target.Store == "memory" || strings.HasSuffix(c.target.Store, sealed):
			if err != nil {
				c.Fatal(err)
			}
		case err == nil || !strings.Contains(err.Error(), "exit status 2"):
			c.Fatalf("seed-strict without encryption on a disk: want exit status 2, got %v", err)
		}
	}},
	{ID: "PF-05", Only: "gateway", Why: "the gateway publishes its policy; a program that embeds the middleware publishes its own", Run: func(c *C) {
		text, err := json.Marshal(policyDocument(c))
		if err != nil {
			c.Fatal(err)
		}
		for _, said := range []string{"255", "86400", "header", "auto", "422"} { // key format, TTL, scope, fingerprint, statuses
			if !strings.Contains(string(text), said) {
				c.Errorf("nothing about %s in %s", said, text)
			}
		}
	}},
	{ID: "PF-06", Run: func(c *C) {
		for _, profile := range []string{"default", "ietf", "stripe", "stripe-v2", "seed-strict", "gateway-compat"} {
			if profile == "seed-strict" && c.target.Store != "memory" && !strings.HasSuffix(c.target.Store, sealed) {
				continue // keeps nothing unencrypted on a disk
			}
			d := c.With("policy: {profile: " + profile + "}").Named(profile)
			race := d.Race(20, "POST", "/fx/hang")
			waiting := strings.HasPrefix(profile, "stripe") // the others are told at once
			if !waiting {
				for _, a := range take(race, 19) {
					a.Is(409)
				}
			}
			d.Release(1)
			first := (<-race).Is(201)
			if waiting {
				for _, a := range take(race, 19) {
					a.Is(201).Says(string(first.Body))
				}
			}
			for _, a := range take(d.Race(20, "POST", "/fx/hang"), 20) {
				a.Is(201).Says(string(first.Body))
			}
			d.Effects(1)
			failed := c.With("policy: {profile: " + profile + "}").Named(profile + "-lost")
			lost := failed.POST("/fx/panic?when=after")
			lost.Retry().Is(409)
			failed.Effects(1)
		}
	}},
}

// plainKey is the case's key as a profile with opaque keys echoes it: as sent.
func (c *C) plainKey() string { return `"k-` + c.name + `"` }

// stripeError is what profile stripe answers instead of a problem document.
type stripeError struct{ Type, Code, Message string }

func (a *Answer) stripeError() stripeError {
	a.c.Helper()
	var doc struct{ Error stripeError }
	if err := json.Unmarshal(a.Body, &doc); err != nil || !strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
		a.fail("want a JSON error object: %v", err)
	}
	return doc.Error
}
