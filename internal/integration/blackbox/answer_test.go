package blackbox

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Answer is what came back.
type Answer struct {
	c   *C
	req request

	Status   int
	Proto    string
	Header   http.Header
	Trailer  http.Header
	Body     []byte
	Length   int64    // Content-Length; -1 if there was none
	Encoding []string // Transfer-Encoding
	Interim  []Interim
	Close    bool  // Connection: close
	Err      error // no answer, or one that broke off
}

// Interim is a 1xx response.
type Interim struct {
	Status int
	Header http.Header
}

func (a *Answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s → ", a.req.method, a.req.path)
	if a.Status == 0 {
		fmt.Fprintf(&b, "no answer: %v", a.Err)
		return b.String()
	}
	fmt.Fprintf(&b, "%d", a.Status)
	for _, name := range slices.Sorted(headerNames(a.Header)) {
		fmt.Fprintf(&b, "\n    %s: %q", name, a.Header[name])
	}
	fmt.Fprintf(&b, "\n    %q", tail(string(a.Body), 600))
	if a.Err != nil {
		fmt.Fprintf(&b, "\n    broke off: %v", a.Err)
	}
	return b.String()
}

func (a *Answer) fail(format string, args ...any) {
	a.c.Helper()
	a.c.Fatalf("%s\ngot: %s", fmt.Sprintf(format, args...), a)
}

// Retry sends the same request again, changed by the options.
func (a *Answer) Retry(opts ...option) *Answer {
	r := a.req
	r.header, r.ctx = r.header.Clone(), a.c.ctx
	for _, o := range opts {
		o(&r)
	}
	return a.c.send(r)
}

// RetryAt sends the same request to another case's server or node.
func (a *Answer) RetryAt(c *C, opts ...option) *Answer {
	b := *a
	b.c = c
	return b.Retry(append([]option{func(r *request) { r.node = c.node }}, opts...)...)
}

const (
	replayed = "Idempotent-Replayed"
	replay   = "Idempotent-Replay"
	echo     = "Idempotency-Key"
	expires  = "Idempotency-Expires"
)

// Is demands a whole answer with this status.
func (a *Answer) Is(status int) *Answer {
	a.c.Helper()
	if a.Err != nil || a.Status != status {
		a.fail("want status %d", status)
	}
	return a
}

// First demands a first response: executed, echoed, not marked as a replay, and good for a while.
func (a *Answer) First(status int) *Answer {
	a.c.Helper()
	a.Is(status).Unmarked()
	if a.Header.Get(echo) == "" {
		a.fail("a keyed response has to echo the key")
	}
	return a
}

// Unmarked demands that nothing says replay.
func (a *Answer) Unmarked() *Answer {
	a.c.Helper()
	for _, name := range []string{replayed, replay} {
		if _, ok := a.Header[name]; ok {
			a.fail("a first response must not have %s", name)
		}
	}
	return a
}

// Passed demands that the layer had no part in the answer.
func (a *Answer) Passed(status int) *Answer {
	a.c.Helper()
	a.Is(status).Unmarked()
	for _, name := range []string{echo, expires} {
		if _, ok := a.Header[name]; ok {
			a.fail("the layer has no part in this, and must not add %s", name)
		}
	}
	return a
}

// Broken demands that the connection ended without a whole answer.
func (a *Answer) Broken() *Answer {
	a.c.Helper()
	if a.Err == nil {
		a.fail("want a connection that ends without a whole answer")
	}
	return a
}

// Replays demands the same status, the same bytes and the same end-to-end headers as first had, and
// both markers.
func (a *Answer) Replays(first *Answer) *Answer {
	a.c.Helper()
	a.Is(first.Status)
	for _, name := range []string{replayed, replay} {
		if got := a.Header[name]; len(got) != 1 || got[0] != "true" {
			a.fail("a replay has to have %s: true", name)
		}
	}
	if !bytes.Equal(a.Body, first.Body) {
		a.fail("the body differs from the first one, %q", tail(string(first.Body), 600))
	}
	a.sameHeader(first.Header)
	return a
}

// notReplayed are fields of a first response that a replay must not have: they belong to a
// connection, to the moment, to an authentication, or to one client (decision C18).
var notReplayed = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Server", "Age", "Via", "Ratelimit", "Ratelimit-Policy", "Set-Cookie", "Www-Authenticate", "Proxy-Authenticate", "Proxy-Authentication-Info",
	"X-Hop", // the fixture names it in Connection, which net/http rewrites for a client that wants the connection closed
}

// perMessage are fields that may differ between a response and its replay.
var perMessage = []string{"Date", "Content-Length", replayed, replay}

func (a *Answer) sameHeader(first http.Header) {
	a.c.Helper()
	want, got := first.Clone(), a.Header.Clone()
	for _, name := range perMessage {
		want.Del(name)
		got.Del(name)
	}
	for _, name := range notReplayed {
		want.Del(name)
	}
	got.Del("Connection") // the client asked for one request per connection
	for name := range headerNames(want) {
		if !slices.Equal(got[name], want[name]) {
			a.fail("%s: %q, but the first response had %q", name, got[name], want[name])
		}
	}
	for name := range headerNames(got) {
		if _, ok := want[name]; !ok {
			a.fail("%s: %q, which the first response did not have or a replay must not have", name, got[name])
		}
	}
}

func headerNames(h http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range h {
			if !yield(name) {
				return
			}
		}
	}
}

// Has demands the lines of a field.
func (a *Answer) Has(name string, lines ...string) *Answer {
	a.c.Helper()
	if got := a.Header[http.CanonicalHeaderKey(name)]; !slices.Equal(got, lines) {
		a.fail("%s: %q, want %q", name, got, lines)
	}
	return a
}

// Lacks demands that fields are absent.
func (a *Answer) Lacks(names ...string) *Answer {
	a.c.Helper()
	for _, name := range names {
		if got, ok := a.Header[http.CanonicalHeaderKey(name)]; ok {
			a.fail("%s: %q, want none", name, got)
		}
	}
	return a
}

// Says demands the body.
func (a *Answer) Says(text string) *Answer {
	a.c.Helper()
	if string(a.Body) != text {
		a.fail("want the body %q", text)
	}
	return a
}

// Expires returns the instant Idempotency-Expires names.
func (a *Answer) Expires() time.Time {
	a.c.Helper()
	at, err := http.ParseTime(a.Header.Get(expires))
	if err != nil {
		a.fail("%s is no HTTP-date: %v", expires, err)
	}
	return at
}

// RetryAfter returns the delay of Retry-After in seconds, which has to be a whole number from 1 to
// most.
func (a *Answer) RetryAfter(most int) int {
	a.c.Helper()
	lines := a.Header["Retry-After"]
	if len(lines) != 1 {
		a.fail("want one Retry-After")
	}
	n, err := strconv.Atoi(lines[0])
	if err != nil || n < 1 || n > most {
		a.fail("Retry-After: %q, want a whole number of seconds from 1 to %d", lines[0], most)
	}
	return n
}

// Twice sends the request, demands a first response, sends it again and demands a replay. Both are
// returned.
func (c *C) Twice(status int, path string, opts ...option) (first, second *Answer) {
	c.Helper()
	first = c.POST(path, opts...).First(status)
	return first, first.Retry().Replays(first)
}
