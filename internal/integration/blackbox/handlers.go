package blackbox

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// handlers is the API. Each has its effect before it answers, and reads the request's body first,
// unless it says so.
var handlers = map[string]func(*call){
	"json":        (*call).json,
	"echo":        (*call).echo,
	"status":      (*call).status,
	"script":      (*call).script,
	"slow":        (*call).slow,
	"hang":        (*call).hang,
	"second":      (*call).second,
	"large":       (*call).large,
	"bin":         (*call).bin,
	"gzip":        (*call).gzip,
	"sse":         (*call).sse,
	"chunked":     (*call).chunked,
	"copy":        (*call).copy,
	"trailer":     (*call).trailer,
	"early-hints": (*call).earlyHints,
	"headers":     (*call).headers,
	"hop":         (*call).hop,
	"crlf":        (*call).crlf,
	"sniff":       (*call).sniff,
	"empty":       (*call).empty,
	"cors":        (*call).cors,
	"seen":        (*call).seen,
	"unread":      (*call).unread,
	"controller":  (*call).controller,
	"upgrade":     (*call).upgrade,
	"outcome":     (*call).outcome,
	"panic":       (*call).panic,
	"abort":       (*call).abort,
	"goexit":      (*call).goexit,
	"drop":        (*call).drop,
	"truncate":    (*call).truncate,
	"count":       (*call).count,
}

func (c *call) body() []byte {
	b, _ := io.ReadAll(c.r.Body) // a client that goes away sends less; the layer decides what that means
	return b
}

// number reads an integer from the query.
func (c *call) number(name string) int {
	n, _ := strconv.Atoi(c.q.Get(name))
	return n
}

// json: 201 with a body that names the effect, and the headers an API adds.
func (c *call) json() {
	c.body()
	n := c.effect()
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Location", fmt.Sprintf("/fx/json/%d", n))
	h.Set("ETag", fmt.Sprintf(`"v%d"`, n))
	h.Add("Link", `</fx/json/1>; rel="self"`)
	h.Add("Link", `</fx/json>; rel="collection"`)
	h.Add("Set-Cookie", "a=1; Path=/")
	h.Add("Set-Cookie", "b=2; Path=/")
	c.w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(c.w, `{"id":"%d"}`, n)
}

// echo: 201, the request's bytes and type.
func (c *call) echo() {
	b := c.body()
	c.effect()
	c.w.Header()["Content-Type"] = c.r.Header["Content-Type"]
	c.w.WriteHeader(http.StatusCreated)
	c.w.Write(b)
}

// status/CODE: that status; with a body where the status may have one. Redirects have a Location,
// 304 an ETag.
func (c *call) status() {
	c.body()
	c.effect()
	code, _ := strconv.Atoi(c.arg)
	c.answer(code)
}

// script/CODE,CODE,…: the n-th execution answers with the n-th status, and the last one from then
// on.
func (c *call) script() {
	c.body()
	codes := strings.Split(c.arg, ",")
	code, _ := strconv.Atoi(codes[min(c.effect(), len(codes))-1])
	c.answer(code)
}

func (c *call) answer(code int) {
	switch {
	case code == http.StatusNotModified:
		c.w.Header().Set("ETag", `"v1"`)
	case code/100 == 3:
		c.w.Header().Set("Location", "/elsewhere")
	case code == http.StatusServiceUnavailable:
		c.w.Header().Set("Retry-After", "7")
	}
	bare := code == http.StatusNoContent || code == http.StatusResetContent || code == http.StatusNotModified
	if !bare {
		c.w.Header().Set("Content-Type", "text/plain")
	}
	c.w.WriteHeader(code)
	if !bare {
		fmt.Fprintf(c.w, "status:%d", code)
	}
}

// slow?ms=N: answers as json after N milliseconds, even if the client has gone away meanwhile.
func (c *call) slow() {
	c.body()
	pause := time.NewTimer(time.Duration(c.number("ms")) * time.Millisecond)
	<-pause.C
	c.json()
}

// hang: has its effect, and answers once it is released; with ?before, is released and then has its
// effect. With ?obey it gives up when its context ends, as a well-behaved handler does, and so
// answers nothing.
func (c *call) hang() {
	c.body()
	ctx := context.WithoutCancel(c.r.Context())
	if c.q.Has("obey") {
		ctx = c.r.Context()
	}
	n := 0
	if c.q.Has("before") {
		c.f.edit(c.id, func(b *book) { b.entered++ })
	} else {
		n = c.effect()
	}
	if c.f.pass(ctx, c.id) != nil {
		return
	}
	if c.q.Has("before") {
		n = c.effect()
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(c.w, `{"id":"%d"}`, n)
}

// second: states that nothing happened the first time, and hangs from then on.
func (c *call) second() {
	if len(c.f.Seen(c.id)) > 1 {
		c.hang()
		return
	}
	c.arg = "not-executed"
	c.outcome()
}

// Pattern returns n bytes that differ everywhere: a lost or repeated piece shows.
func Pattern(n int) []byte {
	b := make([]byte, 0, n+8)
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "%07d ", i)
	}
	return b[:n]
}

// large?bytes=N&head=M: N bytes of body, after M bytes of an X-Large header. With ?hold the second
// half waits for a release.
func (c *call) large() {
	c.body()
	c.effect()
	c.w.Header().Set("Content-Type", "application/octet-stream")
	if n := c.number("head"); n > 0 {
		c.w.Header().Set("X-Large", strings.Repeat("h", n))
	}
	b := Pattern(c.number("bytes"))
	c.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	c.w.WriteHeader(http.StatusCreated)
	half := len(b) / 2
	if _, err := c.w.Write(b[:half]); err != nil {
		return // as a handler that writes to a socket would
	}
	if c.q.Has("hold") {
		http.NewResponseController(c.w).Flush()
		_ = c.f.pass(context.WithoutCancel(c.r.Context()), c.id)
	}
	c.w.Write(b[half:])
}

// bin: all 256 values of a byte.
func (c *call) bin() {
	c.body()
	c.effect()
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	c.w.Header().Set("Content-Type", "application/octet-stream")
	c.w.WriteHeader(http.StatusCreated)
	c.w.Write(b)
}

// gzip: a body that is compressed already.
func (c *call) gzip() {
	c.body()
	c.effect()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(Pattern(2000))
	z.Close()
	c.w.Header().Set("Content-Type", "text/plain")
	c.w.Header().Set("Content-Encoding", "gzip")
	c.w.Header().Set("Vary", "Accept-Encoding")
	c.w.WriteHeader(http.StatusCreated)
	c.w.Write(b.Bytes())
}

// headers: what must come back line by line.
func (c *call) headers() {
	c.body()
	n := c.effect()
	h := c.w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Language", "de")
	h.Set("Cache-Control", "no-store")
	h.Set("ETag", fmt.Sprintf(`W/"%d"`, n))
	h.Set("Location", fmt.Sprintf("/things/%d?a=1&b=2", n))
	h.Set("X-Request-Cost", "12")
	h["X-Lines"] = []string{"one, with a comma", "two", "one, with a comma"}
	h["Link"] = []string{`<a>; rel="next"`, `<b>; rel="prev"`}
	h["Vary"] = []string{"Accept", "Accept-Language", "X-Tenant"}
	h["Warning"] = []string{`199 - "first"`, `199 - "second"`, `199 - "third"`}
	c.w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(c.w, "{ \"id\" :  \"%d\",\n\t\"b\":1, \"a\": 2 }\n", n)
}

// hop: fields that belong to one connection, one authentication or one moment, beside one that does
// not.
func (c *call) hop() {
	c.body()
	c.effect()
	h := c.w.Header()
	h.Set("Connection", "X-Hop")
	h.Set("X-Hop", "1")
	h.Set("Proxy-Connection", "keep-alive")
	h.Set("Keep-Alive", "timeout=5")
	h.Set("Te", "trailers")
	h.Set("Proxy-Authenticate", `Basic realm="p"`)
	h.Set("Www-Authenticate", `Basic realm="w"`)
	h.Set("Server", "fixture/1")
	h.Set("Date", "Mon, 01 Jan 2024 00:00:00 GMT")
	h.Set("X-End", "2")
	c.w.WriteHeader(http.StatusCreated)
	io.WriteString(c.w, "hop")
}

// crlf: a handler that copies a client's line break into a header.
func (c *call) crlf() {
	c.body()
	c.effect()
	c.w.Header().Set("X-Split", "one\r\nX-Injected: two")
	c.w.WriteHeader(http.StatusCreated)
	io.WriteString(c.w, "crlf")
}

// sniff: no status, no type; net/http finds both.
func (c *call) sniff() {
	c.body()
	c.effect()
	io.WriteString(c.w, "<!DOCTYPE html><title>t</title>")
}

// empty: 200 with Content-Length: 0.
func (c *call) empty() {
	c.body()
	c.effect()
	c.w.Header().Set("Content-Length", "0")
	c.w.WriteHeader(http.StatusOK)
}

// cors: answers a preflight without any effect, as a CORS layer does.
func (c *call) cors() {
	h := c.w.Header()
	h.Set("Access-Control-Allow-Origin", "https://app.example")
	h.Set("Access-Control-Allow-Headers", "idempotency-key")
	c.w.WriteHeader(http.StatusNoContent)
}

// Seen is what /fx/seen tells about the request its handler got.
type Seen struct {
	Method, URI, Proto string
	Header, Trailer    http.Header
	ContentLength      int64
	Length             int
	SHA256             string
	NilBody            bool
}

// seen: 201 with a description of the request as it reached the handler.
func (c *call) seen() {
	s := Seen{Method: c.r.Method, URI: c.r.RequestURI, Proto: c.r.Proto, ContentLength: c.r.ContentLength, NilBody: c.r.Body == nil}
	b := c.body()
	c.effect()
	sum := sha256.Sum256(b)
	s.Header, s.Trailer, s.Length, s.SHA256 = c.r.Header, c.r.Trailer, len(b), hex.EncodeToString(sum[:])
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusCreated)
	json.NewEncoder(c.w).Encode(s)
}

// unread: answers without having looked at the body.
func (c *call) unread() {
	c.effect()
	c.w.WriteHeader(http.StatusCreated)
	io.WriteString(c.w, "unread")
}

// outcome/WORD: states what became of the request. not-executed answers 503 without an effect,
// unknown 504 and completed 201 with one.
func (c *call) outcome() {
	c.body()
	code := http.StatusCreated
	switch c.arg {
	case "not-executed":
		code = http.StatusServiceUnavailable
	case "unknown":
		code = http.StatusGatewayTimeout
	}
	if c.arg != "not-executed" {
		c.effect()
	}
	if c.f.Outcome != nil {
		c.f.Outcome(c.r, c.arg)
	} else {
		c.w.Header().Set(OutcomeHeader, c.arg)
	}
	c.answer(code)
}

// panic?when=before|after the effect.
func (c *call) panic() {
	c.body()
	if c.q.Get("when") == "after" {
		c.effect()
	}
	panic("fixture: asked to panic")
}

// abort: gives up after its effect, in the way net/http knows.
func (c *call) abort() {
	c.body()
	c.effect()
	panic(http.ErrAbortHandler)
}

// goexit: ends the goroutine after its effect: no panic for a recover to see.
func (c *call) goexit() {
	c.body()
	c.effect()
	runtime.Goexit()
}

// count: how many effects the case had. It has none itself.
func (c *call) count() { fmt.Fprint(c.w, c.f.Effects(c.id)) }
