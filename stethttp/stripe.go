package stethttp

import (
	"crypto/rand"
	"net/http"
	"slices"

	"github.com/stet-dev/stet"
)

// Stripe's clients read these headers: the id of each request; on every keyed response, the id of
// the request that ran; and whether to send the request again, which they otherwise decide by the
// status.
const (
	requestID       = "Request-Id"
	originalRequest = "Original-Request"
	shouldRetry     = "Stripe-Should-Retry"
)

func (c *Config) requestIDs() bool { return c.Errors == StripeErrors }

// identify returns the id of the request that w answers, and sets one if there is none.
func identify(w http.Header) string {
	id := w.Get(requestID)
	if id == "" {
		id = "req_" + rand.Text()[:14]
		w.Set(requestID, id)
	}
	return id
}

// identified returns the fields of a first response with the request's id: the handler's own or, if
// it set none, a new one. The client gets the same id if it is answered before the handler returns.
func (x *run) identified(fields []stet.Field) []stet.Field {
	fields = slices.DeleteFunc(fields, func(f stet.Field) bool { return f.Name == originalRequest })
	if i := slices.IndexFunc(fields, func(f stet.Field) bool { return f.Name == requestID }); i >= 0 {
		x.w.Header().Set(requestID, fields[i].Value)
	} else {
		fields = append(fields, stet.Field{Name: requestID, Value: identify(x.w.Header())})
	}
	fields = append(fields, stet.Field{Name: originalRequest, Value: x.w.Header().Get(requestID)})
	byName(fields)
	return fields
}

// original sets the id of the request whose result the record holds, if there is one.
func (x *exchange) original(r *stet.Record) {
	if !x.g.cfg.requestIDs() || x.shadow || r.Response == nil {
		return
	}
	if i := slices.IndexFunc(r.Response.Header, func(f stet.Field) bool { return f.Name == requestID }); i >= 0 {
		x.w.Header().Set(originalRequest, r.Response.Header[i].Value)
	}
}

// final tells Stripe's clients that a stored failure does not change if they send the request
// again. Otherwise they would, after a 409 and after 500 and above.
func (c *Config) final(h http.Header, status int) {
	if c.requestIDs() && status >= 400 && h[shouldRetry] == nil {
		h[shouldRetry] = isFalse
	}
}

var isFalse = []string{"false"}

// stripeError returns Stripe's error object. Its clients make errors of type, code and status, and
// programs conclude from them whether there may have been an effect.
func stripeError(p *Problem) any {
	type object struct {
		Type    string `json:"type"`
		Code    string `json:"code,omitempty"`
		Message string `json:"message"`
	}
	o := object{Type: stripeType(p), Code: string(p.Code), Message: p.Detail}
	switch p.Code {
	case KeyReused:
		o.Code = ""
		o.Message = "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using another key if you meant to execute a different request."
	case InProgress:
		o.Code = "idempotency_key_in_use"
		o.Message = "There is currently another in-progress request using this Idempotent Key. Please try again later."
	case InvalidKey:
		o.Code = ""
	case RateLimited, KeyQuotaExceeded:
		o.Code = "rate_limit"
	}
	return map[string]object{"error": o}
}

// stripeType returns invalid_request_error only if the request itself has to be changed. Programs
// take that for "not charged", so it is not used if the same request may be sent again, or if the
// first one may have had its effect.
func stripeType(p *Problem) string {
	switch p.Code {
	case KeyReused, InvalidKey, InProgress, ExpiredKey, RequestTooOld:
		return "idempotency_error"
	case ResultNotRetained:
		return "api_error"
	}
	if p.Retryable || p.Status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}
