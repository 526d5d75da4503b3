package stethttp

import (
	"crypto/rand"
	"slices"
	"strings"

	"github.com/stet-dev/stet"
)

// Stripe's clients read these: the id of each request, and on every keyed response the id of the one that ran.
const (
	requestID       = "Request-Id"
	originalRequest = "Original-Request"
)

func (c *Config) requestIDs() bool { return c.Errors == StripeErrors }

func withRequestID(fields []stet.Field) []stet.Field {
	fields = slices.DeleteFunc(fields, func(f stet.Field) bool { return f.Name == originalRequest })
	i := slices.IndexFunc(fields, func(f stet.Field) bool { return f.Name == requestID })
	id := newRequestID()
	if i >= 0 {
		id = fields[i].Value
	} else {
		fields = append(fields, stet.Field{Name: requestID, Value: id})
	}
	fields = append(fields, stet.Field{Name: originalRequest, Value: id})
	slices.SortStableFunc(fields, func(a, b stet.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

func newRequestID() string { return "req_" + rand.Text()[:14] }

// stripeError is Stripe's form. Its clients look at type and code.
func stripeError(p *Problem) any {
	type object struct {
		Type    string `json:"type"`
		Code    string `json:"code,omitempty"`
		Message string `json:"message"`
	}
	o := object{Type: "invalid_request_error", Code: string(p.Code), Message: p.Detail}
	switch p.Code {
	case KeyReused:
		o.Type, o.Code = "idempotency_error", ""
		o.Message = "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using another key if you meant to execute a different request."
	case InProgress:
		o.Code = "idempotency_key_in_use"
		o.Message = "There is currently another in-progress request using this Idempotent Key. Please try again later."
	case InvalidKey:
		o.Type, o.Code = "idempotency_error", ""
	}
	return map[string]object{"error": o}
}
