package operate

import (
	"cmp"
	"context"
	"fmt"
	"net/textproto"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/age"
	"github.com/stet-dev/stet/internal/canon"
	"github.com/stet-dev/stet/internal/reply"
	"github.com/stet-dev/stet/reconcile"
)

// Resolution says what became of an unknown execution.
type Resolution struct {
	Change
	// As, in place of all else, ends the record as what is known of it says: late-answer, with the
	// answer that came too late as it was kept; last-probe, with the status that the last probe
	// found.
	As      string              `json:"as,omitzero"`
	Outcome string              `json:"outcome,omitzero"`  // completed or not-executed; a release needs none
	Status  *int                `json:"status,omitzero"`   // of the answer that retries get, as are the next three
	Headers map[string][]string `json:"headers,omitempty"` // each name with its values
	Text    *string             `json:"body,omitzero"`
	Body    []byte              `json:"body_b64,omitempty"` // in place of body
	// Voided releases although the attempt has not settled: the provider has cancelled it, or
	// refuses its key from now on, as the evidence says. Now does so without waiting for a handler
	// either, and Override against a late answer, or a probe that found it. Each takes the role
	// admin.
	Voided   bool `json:"voided,omitzero"`
	Now      bool `json:"now,omitzero"`
	Override bool `json:"override,omitzero"`
}

// Resolve ends an unknown record as what is said to have become of it. It takes an operator.
func (d *Desk) Resolve(ctx context.Context, n Name, r Resolution) (Record, error) {
	return d.end(ctx, n, &r, nil)
}

// Release resolves as not-executed, which need not be said: one retry may run. It takes an operator.
func (d *Desk) Release(ctx context.Context, n Name, r Resolution) (Record, error) {
	var wrong error
	if r.Outcome = cmp.Or(r.Outcome, notExecuted); r.Outcome != notExecuted {
		wrong = BadParameter("outcome", "to release is to say not-executed; resolve takes the other outcome")
	}
	return d.end(ctx, n, &r, wrong)
}

func (d *Desk) end(ctx context.Context, n Name, r *Resolution, wrong error) (Record, error) {
	var res stet.Resolution
	if wrong == nil {
		res, wrong = r.resolution()
	}
	if wrong == nil && (r.Voided || r.Now || r.Override) {
		wrong = d.caller.Takes(Admin)
	}
	note := d.by(&r.Change)
	if res.Settle = d.settle; r.Voided { // as where a probe says so: see [reconcile.Voided]
		res.Settle, note.Evidence = 0, "cancelled by the provider: "+note.Evidence
	}
	return d.change(ctx, n, &r.Change, wrong, func(rec *stet.Record) (stet.Head, error) {
		if r.As != "" {
			return d.adopt(ctx, rec, r.As, note)
		}
		return d.resolve(ctx, rec, res, note)
	})
}

// resolve ends a record as it was read.
func (s *service) resolve(ctx context.Context, rec *stet.Record, res stet.Resolution, n stet.Note) (stet.Head, error) {
	return s.engine.Operator().Resolve(ctx, rec.ID, stet.Execution{Fence: rec.Fence(), Version: rec.Version}, res, n)
}

// adopt ends a record as what is known of it says.
func (s *service) adopt(ctx context.Context, rec *stet.Record, as string, n stet.Note) (stet.Head, error) {
	if rec.State != stet.Unknown {
		return rec.Head, stet.ErrState
	}
	if (rec.Response != nil) != (as == asLate) {
		return rec.Head, noAnswer
	}
	return reconcile.Adopt(ctx, s.engine, rec, n)
}

const (
	completed   = "completed"
	notExecuted = "not-executed"

	asLate  = "late-answer"
	asProbe = "last-probe"

	frees = `it frees a key, and belongs to "outcome": "not-executed"; leave it out`
)

// resolution translates what was sent. A member that the outcome has no use for is refused: the
// client may have meant another outcome.
func (r *Resolution) resolution() (res stet.Resolution, err error) {
	if r.As != "" {
		return res, r.alone()
	}
	res.Now, res.Override = r.Now, r.Override
	switch r.Outcome {
	case notExecuted:
		switch name := r.ofAnswer(); {
		case name != "":
			return res, BadParameter(name, `it is of an answer, and belongs to "outcome": "completed"; leave it out`)
		case r.Voided && (r.Now || r.Override):
			return res, BadParameter("voided", "now and override go beyond it; send one of them")
		case r.Voided && strings.TrimSpace(r.Evidence) == "":
			return res, BadParameter("evidence", "say what shows that the provider has cancelled it, such as the id of the cancellation")
		}
		return res, nil
	case completed:
	default:
		return res, BadParameter("outcome", "it is completed or not-executed")
	}
	switch {
	case r.Voided:
		return res, BadParameter("voided", frees)
	case r.Now:
		return res, BadParameter("now", frees)
	case r.Override:
		return res, BadParameter("override", frees)
	case r.Status == nil || *r.Status < 200 || *r.Status > 599:
		return res, BadParameter("status", "it is the status that retries get, 200 to 599")
	case r.Text != nil && r.Body != nil:
		return res, BadParameter("body", "body and body_b64 are two bodies; send one")
	}
	res.Response = &stet.Response{Status: *r.Status, Body: r.Body}
	if r.Text != nil {
		res.Response.Body = []byte(*r.Text)
	}
	for name, values := range r.Headers {
		for _, v := range values {
			if !validField(name, v) {
				return res, BadParameter("headers", "a name or a value is none that a header can have")
			}
			res.Response.Header = append(res.Response.Header, stet.Field{Name: textproto.CanonicalMIMEHeaderKey(name), Value: v})
		}
	}
	return res, nil
}

// alone says what is wrong with a resolution as what is known.
func (r *Resolution) alone() error {
	switch {
	case r.As != asLate && r.As != asProbe:
		return BadParameter("as", "it is "+asLate+" or "+asProbe)
	case r.Outcome != "" || r.ofAnswer() != "" || r.Voided || r.Now || r.Override:
		return BadParameter("as", "it says what happened: send it to resolve, without an outcome and what belongs to one")
	}
	return nil
}

// ofAnswer is the first member that was sent of an answer; "" if there is none.
func (r *Resolution) ofAnswer() string {
	switch {
	case r.Status != nil:
		return "status"
	case r.Headers != nil:
		return "headers"
	case r.Text != nil:
		return "body"
	case r.Body != nil:
		return "body_b64"
	}
	return ""
}

// validField reports whether a header can have the name and the value (RFC 9110 section 5).
func validField(name, value string) bool {
	control := func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
	return canon.IsToken(name) && !strings.ContainsFunc(value, control)
}

// noAnswer is a record of which less is known than the client thinks.
var noAnswer = &Problem{Status: 409, Code: "no-answer", Title: "That answer is not there",
	Detail: "A late-answer is taken where one came, and a last-probe where there is none and the probe found it with a status. Look at the record: its late_answer and last_probe say what is known."}

// contradicted is what no waiting cures.
var contradicted = refusal(reply.Contradicted,
	"The handler came back too late, with an answer that is kept with the record. Resolve it as completed; or release it with override where you know better, which takes the role admin, and which the audit trail keeps.")

// found is the problem of a release that a probe speaks against.
var found = &Problem{Status: 409, Code: "contradicted", Title: "A probe has found that it happened",
	Detail: "No probe has said since that it was voided; last_probe has what it said. Resolve it as completed; or ask again; or release it with override where you know better, which takes the role admin, and which the audit trail keeps."}

// unsettled says until when what the record's attempt sent may still have its effect, and what is
// known of it, so that an operator who decides not to wait has seen both.
func (s *service) unsettled(head *stet.Head) error {
	until := reconcile.Settled(head, s.settle).Add(time.Second - 1).Truncate(time.Second).UTC() // a whole second, not too early
	p := &Problem{Status: 409, Code: "not-settled", Title: "The attempt may still have its effect", Until: until}
	what := "It ended " + age.Long(head.Idle()) + " ago"
	if head.Attended() {
		what = "Its handler has not returned"
	}
	cause := cmp.Or(head.Cause, "not known")
	p.Detail = fmt.Sprintf("%s (attempt %d, cause %s, the key is %s old, %s). Wait until %s; or release it with now where you know that "+
		"nothing can happen any more, or with voided and the provider's cancellation as evidence. Both take the role admin, and the audit "+
		"trail keeps them.", what, head.Attempt, cause, age.Long(head.AsOf.Sub(head.CreatedAt)), lastProbe(head),
		until.Format(time.RFC3339))
	return p
}

// lastProbe says when a record was asked about.
func lastProbe(head *stet.Head) string {
	switch {
	case head.Probes == 0:
		return "never asked about"
	case head.Escalated:
		return fmt.Sprintf("a dead letter after %d probes, the last by %s", head.Probes, head.UpdatedAt.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("asked about %d times, the last by %s", head.Probes, head.UpdatedAt.UTC().Format(time.RFC3339))
}
