package operate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/reply"
	"github.com/stet-dev/stet/reconcile"
)

// Problem says why a call was refused. Its JSON form is a problem document (RFC 9457).
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

	RetryAfter string `json:"-"` // the answer's header of this name
}

var (
	notFound    = refusal(reply.NotFound, "It does not exist, or it is out of reach.")
	unavailable = &Problem{Status: 503, Code: "store-unavailable", Title: "The store did not answer", Detail: "Try again later.", Retryable: true}
	unreadable  = &Problem{Status: 500, Code: "corrupt-record", Title: "The record cannot be read", Detail: "What the store has for this key is damaged, or sealed with an encryption key that is not at hand. Requests with it are refused."}
	unlisted    = &Problem{Status: 501, Code: "not-supported", Title: "This store cannot list its records", Detail: "Ask for single keys, by scope and key."}
	noHistory   = &Problem{Status: 501, Code: "not-supported", Title: "This store keeps no audit trail", Detail: "Changes are in the log of the process that made them."}
	unfound     = &Problem{Status: 501, Code: "not-supported", Title: "This store does not find records by downstream names", Detail: "Ask by the key, with q."}
)

// refusal returns the problem of a refusal that the webhook has as well.
func refusal(r reply.Refusal, detail string) *Problem {
	return &Problem{Status: r.Status, Code: r.Code, Title: r.Title, Detail: detail}
}

func (p *Problem) Error() string {
	text := strings.Trim(p.Title+": "+p.Detail, ": ")
	if text == "" {
		text = fmt.Sprintf("the answer has the status %d, and does not say why", p.Status)
	}
	return text
}

// Forbidden is the problem of what the caller may not do.
func Forbidden(detail string) error {
	return &Problem{Status: 403, Code: "forbidden", Title: "This is not allowed", Detail: detail}
}

// BadParameter is the problem of a parameter, or of a member of a body. The detail is read after its
// name.
func BadParameter(name, detail string) error {
	return &Problem{Status: 400, Code: "bad-parameter", Title: "A parameter cannot be used", Detail: name + ": " + detail, Parameter: name}
}

// causes are errors that need no more words than their problem has.
var causes = []struct {
	err     error
	problem *Problem
}{
	{stet.ErrNotFound, notFound}, {stet.ErrCorrupt, unreadable}, {stet.ErrUnsupported, unlisted},
	{stet.ErrNoReason, reasonRequired}, {stet.ErrContradicted, contradicted},
	{stet.ErrFound, found},
	{stet.ErrKeptLonger, keptLonger}, {reconcile.ErrNotKnown, noAnswer},
}

// ProblemOf says what an error means for who asked. One that is not known is the store's.
func ProblemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if o, ok := errors.AsType[*bounds.Error](err); ok { // what was asked for is no time, no count or no status
		return ProblemOf(BadParameter(strings.ToLower(o.Field), o.Error()))
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.problem
		}
	}
	return unavailable
}
