package stethttp

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
)

// respond answers with p in the form that c asks for: every answer of the layer itself goes through here. The headers do not depend on
// the form.
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
	if r != nil {
		if p.Code == BadFraming && r.ProtoMajor < 2 { // where the next request begins is not certain (RFC 9112 section 6.1)
			h.Set("Connection", "close")
		}
		if p.KeyAction != "" && h[defaultKeyHeader] == nil {
			c.echo(h, r)
		}
		c.cors(h, r)
	}
	if c.Render != nil {
		c.Render(w, r, p)
		return
	}
	c.document(w, p)
}

// echo repeats the key of a request that was refused before anybody looked at it, as far as it is one.
func (c *Config) echo(h http.Header, r *http.Request) {
	name := http.CanonicalHeaderKey(cmp.Or(c.KeyHeader, defaultKeyHeader))
	if key, err := c.Key.Parse(r.Header[name]); err == nil {
		line := []string{spell(&c.Key, key)}
		h[defaultKeyHeader], h[name] = line, line
	}
}

// document is the layer's own form of an answer.
func (c *Config) document(w http.ResponseWriter, p *Problem) {
	h := w.Header()
	h.Set("Content-Type", problemMediaType)
	var doc any = p
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
		h.Set("Content-Type", "application/json")
		h.Set(shouldRetry, strconv.FormatBool(p.Retryable))
		identify(h)
		doc = stripeError(p)
	case PlainErrors:
		h.Set("Content-Type", "application/json")
		doc = map[string]string{"error": plainText(p)}
	}
	body, err := json.Marshal(doc)
	if err != nil {
		panic("stethttp: a problem document that is not JSON: " + err.Error())
	}
	body = append(body, '\n')
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

func plainText(p *Problem) string {
	if p.Code == InProgress {
		return "Request already in progress"
	}
	return p.Title
}
