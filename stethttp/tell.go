package stethttp

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// tell answers with p in the form that c asks for: every answer of the layer itself goes through here.
func (c *Config) tell(w http.ResponseWriter, _ *http.Request, p *Problem) {
	h := w.Header()
	h.Set("Content-Type", ProblemMediaType)
	h.Set("Cache-Control", "no-store")
	h.Set("Link", "<"+p.Type+`>; rel="describedby"`)
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="idempotency keys"`)
	}
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
