package stettest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stet-dev/stet/internal/wiring"
)

// Sample is a request that the handler accepts. The comments say what zero fields mean.
type Sample struct {
	Method    string      // default POST
	Target    string      // path and query; default /
	Header    http.Header // what identifies the client, and Content-Type; default application/json
	Body      string      // default {"amount":1}
	OtherBody string      // the body of another valid request; default {"amount":2}
	// As makes a request that of another tenant. If it is set, the isolation of tenants is checked,
	// too.
	As func(r *http.Request)
	// KeyOptional skips the check that a request without a key is refused.
	KeyOptional bool
}

func (s Sample) withDefaults() Sample {
	s.Method = cmp.Or(s.Method, http.MethodPost)
	s.Target = cmp.Or(s.Target, "/")
	s.Body = cmp.Or(s.Body, `{"amount":1}`)
	s.OtherBody = cmp.Or(s.OtherBody, `{"amount":2}`)
	if s.Header == nil {
		s.Header = http.Header{}
	}
	if s.Header.Get("Content-Type") == "" {
		s.Header = s.Header.Clone()
		s.Header.Set("Content-Type", "application/json")
	}
	return s
}

// Check checks h, a handler behind stethttp as it runs in production, once for each sample; without
// one, for the zero Sample. It needs no server and takes milliseconds. Keys are random, so h may be
// shared with other tests. A failure is reported by t.Errorf with the name of what was checked.
func Check(t testing.TB, h http.Handler, samples ...Sample) {
	t.Helper()
	if len(samples) == 0 {
		samples = []Sample{{}}
	}
	for _, s := range samples {
		c := &checker{TB: t, h: h, s: s.withDefaults()}
		var stop func()
		c.ctx, stop = wiring.Listen(t.Context(), c.hear)
		defer stop()
		for _, gate := range []func(*checker){
			(*checker).sameRequestSameAnswer, (*checker).otherRequestRefused, (*checker).concurrentOnce,
			(*checker).noKeyRefused, (*checker).badKeysRefused, (*checker).tenantsApart,
		} {
			gate(c)
		}
	}
}

type checker struct {
	testing.TB
	ctx   context.Context
	h     http.Handler
	s     Sample
	heard sync.Once
}

// hear says once what the guard hears at each request.
func (c *checker) hear() {
	c.heard.Do(func() {
		c.Errorf("no http.TimeoutHandler within the guard: there is one, and it answers while its handler goes on; " +
			"put it around the guard, or set the guard's Policy.Execution (docs/http.md)")
	})
}

type answer struct {
	*http.Response
	body []byte
}

func (a answer) replayed() bool {
	return a.Header.Get("Idempotent-Replayed") == "true" || a.Header.Get("Idempotent-Replay") == "true"
}

func newKey() string { return `"` + rand.Text() + `"` }

func (c *checker) send(key, body string, change func(*http.Request)) answer {
	r := httptest.NewRequestWithContext(c.ctx, c.s.Method, c.s.Target, strings.NewReader(body))
	for name, values := range c.s.Header {
		r.Header[name] = slices.Clone(values)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, r)
	resp := w.Result()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Errorf("reading an answer: %v", err)
	}
	return answer{resp, b}
}

// sameRequestSameAnswer: S1-22, S3-26.
func (c *checker) sameRequestSameAnswer() {
	const gate = "the same key and request twice: the same answer, executed once"
	key := newKey()
	first, again := c.send(key, c.s.Body, nil), c.send(key, c.s.Body, nil)
	switch {
	case first.StatusCode >= 400:
		c.Errorf("%s: the sample is refused with %d: %s; give Check a Sample that your handler accepts", gate, first.StatusCode, first.body)
	case first.replayed():
		c.Errorf("%s: the first answer says it is a replay", gate)
	case again.StatusCode != first.StatusCode || !bytes.Equal(again.body, first.body):
		c.Errorf("%s: %d %q, then %d %q", gate, first.StatusCode, first.body, again.StatusCode, again.body)
	case !again.replayed():
		c.Errorf("%s: the second answer does not say that it is a replay; is the handler behind stethttp?", gate)
	}
	for _, name := range []string{"Content-Type", "Location", "Etag"} {
		if a, b := first.Header[name], again.Header[name]; !slices.Equal(a, b) {
			c.Errorf("%s: header %s was %q, then %q", gate, name, a, b)
		}
	}
}

// otherRequestRefused: S1-51, S3-27.
func (c *checker) otherRequestRefused() {
	const gate = "the same key and another request: refused, and the first answer stands"
	key := newKey()
	first := c.send(key, c.s.Body, nil)
	other := c.send(key, c.s.OtherBody, nil)
	if other.StatusCode < 400 || other.StatusCode > 499 {
		c.Errorf("%s: %d %q; the fingerprint must cover what makes a request another one", gate, other.StatusCode, other.body)
	}
	if again := c.send(key, c.s.Body, nil); !bytes.Equal(again.body, first.body) {
		c.Errorf("%s: afterwards the first request is answered %d %q", gate, again.StatusCode, again.body)
	}
}

// concurrentOnce: S1-50, S1-54, S3-28.
func (c *checker) concurrentOnce() {
	const gate, racers = "concurrent duplicates: one executes", 8
	key := newKey()
	answers := make([]answer, racers)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = c.send(key, c.s.Body, nil) })
	}
	wg.Wait()
	executed := 0
	for _, a := range answers {
		switch {
		case a.StatusCode == http.StatusConflict || a.StatusCode == http.StatusAccepted && a.Header.Get("Retry-After") != "":
			if a.Header.Get("Retry-After") == "" {
				c.Errorf("%s: a 409 without Retry-After", gate) // S1-55
			}
		case !a.replayed():
			executed++
		}
	}
	if executed != 1 {
		c.Errorf("%s: %d of %d did", gate, executed, racers)
	}
	if a := c.send(key, c.s.Body, nil); !a.replayed() {
		c.Errorf("%s: when all had ended, a retry got %d %q", gate, a.StatusCode, a.body)
	}
}

// noKeyRefused: S1-56, S3-07.
func (c *checker) noKeyRefused() {
	const gate = "a request without a key: 400"
	if c.s.KeyOptional {
		return
	}
	if a := c.send("", c.s.Body, nil); a.StatusCode != http.StatusBadRequest || a.Header.Get("Link") == "" {
		c.Errorf("%s: %d, Link %q", gate, a.StatusCode, a.Header.Get("Link"))
	}
}

func (c *checker) badKeysRefused() {
	const gate = "a key that cannot be used: refused, never run unprotected"
	for _, key := range []string{`""`, `"open`, strings.Repeat("k", 5000)} {
		if a := c.send(key, c.s.Body, nil); a.StatusCode < 400 || a.StatusCode > 499 {
			c.Errorf("%s: a key of %d bytes got %d", gate, len(key), a.StatusCode)
		}
	}
	two := c.send(newKey(), c.s.Body, func(r *http.Request) { r.Header.Add("Idempotency-Key", newKey()) })
	if two.StatusCode < 400 || two.StatusCode > 499 {
		c.Errorf("%s: two keys in one request got %d", gate, two.StatusCode)
	}
}

// tenantsApart: S1-52, S1-65.
func (c *checker) tenantsApart() {
	const gate = "two tenants with the same key: independent"
	if c.s.As == nil {
		return
	}
	key := newKey()
	first := c.send(key, c.s.Body, nil)
	theirs := c.send(key, c.s.Body, c.s.As)
	if theirs.replayed() || theirs.StatusCode == http.StatusConflict || theirs.StatusCode == http.StatusUnprocessableEntity {
		c.Errorf("%s: the second tenant got %d %q: the scope does not tell them apart", gate, theirs.StatusCode, theirs.body)
	}
	if again := c.send(key, c.s.Body, nil); !bytes.Equal(again.body, first.body) {
		c.Errorf("%s: afterwards the first tenant got %q instead of %q", gate, again.body, first.body)
	}
}
