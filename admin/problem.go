package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/reply"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
)

// Problem is an RFC 9457 problem document: what the API answers where it refuses a call.
type Problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Code      string `json:"code"`                // such as not-found; docs/problems has a page for each
	Parameter string `json:"parameter,omitempty"` // of the query, or the member of the body, where one is at fault
	Retryable bool   `json:"retryable"`

	Expect   *int `json:"expect,omitempty"` // with expect-mismatch, as Matching
	Matching *int `json:"matching,omitempty"`

	Until time.Time `json:"until,omitzero"` // with not-settled: when the attempt has settled

	RetryAfter string `json:"-"` // for clients: the answer's header of this name
}

var (
	notFound        = &Problem{Status: 404, Code: "not-found", Title: "There is no such thing", Detail: "It does not exist, or it is out of reach."}
	unauthenticated = &Problem{Status: 401, Code: "unauthenticated", Title: "Authentication is needed", Detail: "Send Authorization: Bearer and a token."}
	wrongToken      = &Problem{Status: 401, Code: "unauthenticated", Title: "The token was refused", Detail: "It is none that is known here, or it has expired."}
	tooManyLogins   = &Problem{Status: 429, Code: "too-many-logins", Title: "Too many wrong tokens", Retryable: true}
	unavailable     = &Problem{Status: 503, Code: "store-unavailable", Title: "The store did not answer", Detail: "Try again later.", Retryable: true}
	unreadable      = &Problem{Status: 500, Code: "corrupt-record", Title: "The record cannot be read", Detail: "What the store has for this key is damaged, or sealed with an encryption key that is not at hand. Requests with it are refused."}
	unlisted        = &Problem{Status: 501, Code: "not-supported", Title: "This store cannot list its records", Detail: "Ask for single keys, by scope and key."}
	notJSON         = &Problem{Status: http.StatusUnsupportedMediaType, Code: "not-json", Title: "A change is sent as JSON", Detail: "Send Content-Type: application/json."}
	tooManyKeys     = &Problem{Status: 422, Code: "too-many-keys", Title: "Too many records match", Detail: fmt.Sprintf("A job is about %d records at most: narrow the filter. Nothing was changed.", bulk.MaxRecords)}
	unfound         = &Problem{Status: 501, Code: "not-supported", Title: "This store does not find records by downstream names", Detail: "Ask by the key, with q."}
)

func (p *Problem) Error() string {
	text := strings.Trim(p.Title+": "+p.Detail, ": ")
	if text == "" {
		text = fmt.Sprintf("the answer is %d %s, and does not say why", p.Status, http.StatusText(p.Status))
	}
	return text
}

func forbidden(detail string) error {
	return &Problem{Status: 403, Code: "forbidden", Title: "This is not allowed", Detail: detail}
}

func badParameter(name, detail string) error {
	return &Problem{Status: 400, Code: "bad-parameter", Title: "A parameter cannot be used", Detail: name + ": " + detail, Parameter: name}
}

// causes are errors that need no more words than their problem has.
var causes = []struct {
	err     error
	problem *Problem
}{
	{stet.ErrNotFound, notFound}, {stet.ErrCorrupt, unreadable}, {stet.ErrUnsupported, unlisted},
	{stet.ErrNoReason, reasonRequired}, {bulk.ErrTooMany, tooManyKeys}, {stet.ErrContradicted, contradicted},
	{stet.ErrFound, found},
	{stet.ErrKeptLonger, keptLonger}, {reconcile.ErrNotKnown, noAnswer},
}

// problemOf says what an error means for who asked. One that is not known is the store's.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if m, ok := errors.AsType[*bulk.Mismatch](err); ok {
		return &Problem{Status: 409, Code: "expect-mismatch", Title: "Another number of records matches",
			Detail: fmt.Sprintf("%d were expected, and %d match. Nothing was changed: look again, and send the number that matches.",
				m.Expected, m.Matching), Expect: &m.Expected, Matching: &m.Matching}
	}
	if o, ok := errors.AsType[*bulk.OrderError](err); ok {
		return problemOf(badParameter(o.Field, o.Reason))
	}
	if o, ok := errors.AsType[*bounds.Error](err); ok { // what was asked for is no time, no count or no status
		return problemOf(badParameter(strings.ToLower(o.Field), o.Error()))
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.problem
		}
	}
	return unavailable
}

func (p Problem) write(w http.ResponseWriter) {
	p.Type = stethttp.DefaultProblemBase + p.Code
	reply.JSON(w, p.Status, reply.Problem, p)
}
