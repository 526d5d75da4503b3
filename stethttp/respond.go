package stethttp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/outcome"
	"github.com/stet-dev/stet/internal/reply"
)

// respond sends p in the form that c asks for. Every answer of the layer itself goes through here.
// The headers do not depend on the form.
func (c *Config) respond(w http.ResponseWriter, r *http.Request, p *Problem) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Link", "<"+p.Type+`>; rel="describedby"`)
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", cmp.Or(p.challenge, someIdentity))
	}
	if p.outcome != "" {
		h.Set(outcomeHeader, p.outcome)
	}
	if r != nil { // a Problem is an http.Handler that needs none
		if p.Code == BadFraming && r.ProtoMajor < 2 { // it is not certain where the next request begins (RFC 9112 section 6.1)
			h.Set("Connection", "close")
		}
		if p.KeyAction != "" && h[defaultKeyHeader] == nil {
			c.echo(h, r)
		}
		c.cors(h, r)
	}
	switch {
	case c.Render != nil:
		c.Render(w, r, p)
	case r != nil && ofGRPC(r.Header):
		answerGRPC(w, r, p)
	default:
		c.document(w, p)
	}
}

// answerGRPC sends p to a client of gRPC or gRPC-Web, which reads no documents, as an answer without
// messages (gRPC, PROTOCOL-HTTP2.md, Trailers-Only). The code of the problem is in Stet-Problem.
func answerGRPC(w http.ResponseWriter, r *http.Request, p *Problem) {
	h := w.Header()
	h["Content-Type"] = r.Header["Content-Type"][:1]
	h.Set(grpcStatus, p.grpcStatus())
	h.Set("Grpc-Message", url.PathEscape(p.Title+". "+p.Detail))
	h.Set("Stet-Problem", string(p.Code))
	w.WriteHeader(http.StatusOK)
}

// grpcStatus returns the status of gRPC that says what p does (gRPC core, statuscodes.md).
func (p *Problem) grpcStatus() string {
	switch p.Status {
	case http.StatusUnauthorized:
		return "16" // UNAUTHENTICATED
	case http.StatusConflict:
		return "10" // ABORTED
	case http.StatusPreconditionFailed, http.StatusUnprocessableEntity, http.StatusLoopDetected:
		return "9" // FAILED_PRECONDITION
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return "8" // RESOURCE_EXHAUSTED
	case http.StatusGatewayTimeout:
		return "4" // DEADLINE_EXCEEDED
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusBadGateway, http.StatusServiceUnavailable:
		if p.outcome == outcome.Unknown {
			return "2" // UNKNOWN: clients may send what is UNAVAILABLE again by themselves
		}
		return "14" // UNAVAILABLE
	}
	return "3" // INVALID_ARGUMENT
}

// echo repeats the key of a request that was refused before its key was read, if the key is valid.
func (c *Config) echo(h http.Header, r *http.Request) {
	name := http.CanonicalHeaderKey(cmp.Or(c.KeyHeader, defaultKeyHeader))
	if key, err := c.Key.Parse(r.Header[name]); err == nil {
		line := []string{spell(&c.Key, key)}
		h[defaultKeyHeader], h[name] = line, line
	}
}

// document sends an answer in one of the layer's own forms.
func (c *Config) document(w http.ResponseWriter, p *Problem) {
	h, media, doc := w.Header(), reply.Problem, any(p)
	switch c.Errors {
	case ProblemErrors:
	case IETFErrors:
		h.Set("Content-Language", "en")
		q := *p
		if t, ok := ietfTitles[p.Code]; ok {
			q.Title = t
		}
		doc = &q
	case StripeErrors:
		h.Set(shouldRetry, strconv.FormatBool(p.Retryable))
		identify(h)
		media, doc = reply.Document, stripeError(p)
	case PlainErrors:
		media, doc = reply.Document, map[string]string{"error": plainText(p)}
	}
	reply.JSON(w, p.Status, media, doc)
}

func plainText(p *Problem) string {
	if p.Code == InProgress {
		return "Request already in progress"
	}
	return p.Title
}

// Refuse answers r with p, in the form that the guard's [Config] asks for. It is for handlers that
// refuse a request themselves, as a proxy does when its upstream is gone; w is the ResponseWriter
// that the handler was given. If the client already has an answer because the run took too long, a
// refusal does not count as a late result of the run.
func (g *Guard) Refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	if own, ok := w.(*capture); ok {
		own.mu.Lock()
		own.refused = true
		own.mu.Unlock()
	}
	g.cfg.respond(w, r, p)
}

// TurnAway answers r with p before the guard has seen the request, and counts it with the guard's
// route.
func (g *Guard) TurnAway(w http.ResponseWriter, r *http.Request, p *Problem) {
	g.engine.Observe(stet.Event{Kind: stet.Answer, Route: g.cfg.Route, Result: kinds[p.Code].result, Status: p.Status})
	endUnasked(w, r)
	g.cfg.respond(w, r, p)
}

// Discard takes back what the handler has answered so far, so that it can give another answer. It
// reports false if bytes have already left for the client. What the handler stated on its claim
// stays. A proxy finds this method by a type assertion on its ResponseWriter.
func (c *capture) Discard() bool {
	c.lock()
	defer c.mu.Unlock()
	if c.phase() != holding {
		return false
	}
	clear(c.header)
	c.status, c.sent, c.declared, c.written, c.refused, c.unframed = 0, nil, -1, 0, false, false
	c.buf.Reset()
	return true
}

// contained returns a render that always leaves a whole answer. Some answers are given while the
// handler still runs, from another goroutine. A panic there would end the process, and without a
// Content-Length a client would wait for the end of the body until the handler returns.
func (g *Guard) contained(render func(http.ResponseWriter, *http.Request, *Problem)) func(http.ResponseWriter, *http.Request, *Problem) {
	return func(w http.ResponseWriter, r *http.Request, p *Problem) {
		h := w.Header()
		before := h.Clone()
		out := rendering{header: h}
		if !out.try(render, r, p) {
			g.engine.Observe(stet.Event{Kind: stet.Miswired, Route: g.cfg.Route, Cause: causeRender})
			clear(h)
			maps.Copy(h, before)
			g.cfg.document(w, p)
			return
		}
		if bodyAllowed(out.status) {
			h.Set("Content-Length", strconv.Itoa(len(out.body)))
		}
		w.WriteHeader(out.status)
		if len(out.body) > 0 {
			_, _ = w.Write(out.body)
		}
	}
}

// rendering holds an answer until it is complete.
type rendering struct {
	header http.Header
	status int // 0: none yet
	body   []byte
}

// try reports whether render left an answer that can be sent.
func (a *rendering) try(render func(http.ResponseWriter, *http.Request, *Problem), r *http.Request, p *Problem) (done bool) {
	defer func() {
		if recover() != nil {
			done = false
		}
	}()
	render(a, r, p)
	return a.status >= 200 && a.status <= 999
}

func (a *rendering) Header() http.Header { return a.header }

func (a *rendering) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *rendering) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, p...)
	return len(p), nil
}

const anyOrigin = "*"

// validOrigins names the first origin that no browser sends, and why.
func validOrigins(origins []string) error {
	if len(origins) > 1 && slices.Contains(origins, anyOrigin) {
		return errors.New(`"*" allows every origin: list it alone`)
	}
	for _, o := range origins {
		if reason := notAnOrigin(o); reason != "" && o != anyOrigin {
			return fmt.Errorf("%q is not an origin: %s; an origin is spelled as in https://shop.example or http://localhost:5173", o, reason)
		}
	}
	return nil
}

func notAnOrigin(o string) string {
	u, err := url.Parse(o)
	switch {
	case err != nil, u.Scheme == "", u.Host == "":
		return "it needs a scheme and a host"
	case u.User != nil, u.Path != "", u.RawQuery != "", u.ForceQuery, strings.ContainsRune(o, '#'):
		return "it ends with the host, or its port"
	case o != strings.ToLower(o), strings.ContainsFunc(o, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '*' }):
		return "browsers send it in lower case and in ASCII, and patterns are not known"
	case u.Scheme == "https" && u.Port() == "443", u.Scheme == "http" && u.Port() == "80", strings.HasSuffix(u.Host, ":"):
		return "browsers leave the scheme's own port out"
	}
	return ""
}

// exposed are the headers of the layer's own answers that a script may read.
const exposed = "Retry-After, RateLimit, RateLimit-Policy, Link, WWW-Authenticate, Preference-Applied, " +
	"Idempotency-Key, Idempotency-Expires, Idempotent-Replayed, Idempotent-Replay"

// cors lets scripts of the request's origin read an answer of the layer itself.
func (c *Config) cors(h http.Header, r *http.Request) {
	if len(c.AllowOrigins) == 0 {
		return
	}
	h.Add("Vary", "Origin")
	origin := anyOrigin
	if !slices.Contains(c.AllowOrigins, anyOrigin) {
		lines := r.Header["Origin"]
		if len(lines) != 1 || !slices.Contains(c.AllowOrigins, lines[0]) {
			return
		}
		origin = lines[0]
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	names := exposed
	if c.KeyHeader != "" && c.KeyHeader != defaultKeyHeader {
		names += ", " + c.KeyHeader
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", names)
}
