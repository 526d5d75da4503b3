package admin

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
	"github.com/stet-dev/stet/reconcile"
)

// resolution is the body of POST …/resolve and …/release.
type resolution struct {
	note
	as        string
	outcome   string
	status    *int
	headers   map[string][]string
	body      *string
	bodyBytes *[]byte

	voided, now, override bool
}

// members are those of a resolution's body.
func (c *resolution) members() map[string]any {
	return c.with(map[string]any{"as": &c.as, "outcome": &c.outcome, "status": &c.status, "headers": &c.headers, "body": &c.body, "body_b64": &c.bodyBytes,
		"voided": &c.voided, "now": &c.now, "override": &c.override})
}

// resolve answers POST …/resolve.
func (h *handler) resolve(c *call) (any, error) {
	var r resolution
	return h.end(c, &r, h.read(c, r.members()))
}

// release answers POST …/release: a resolution as not-executed, which need not say so.
func (h *handler) release(c *call) (any, error) {
	r := resolution{outcome: notExecuted}
	err := h.read(c, r.members())
	if err == nil && r.outcome != notExecuted {
		err = badParameter("outcome", "to release is to say not-executed; resolve takes the other outcome")
	}
	return h.end(c, &r, err)
}

func (h *handler) end(c *call, r *resolution, err error) (any, error) {
	var res stet.Resolution
	if err == nil {
		res, err = r.resolution()
	}
	if err == nil && (r.voided || r.now || r.override) && c.who.role < Admin {
		err = lacks(c.who, Admin)
	}
	note := r.by(c.who)
	if res.Settle = h.Settle; r.voided { // as where a probe says so: see [reconcile.Voided]
		res.Settle, note.Evidence = 0, "cancelled by the provider: "+note.Evidence
	}
	return h.change(c, &r.note, err, func(rec *stet.Record) (stet.Head, error) {
		if r.as != "" {
			return h.adopt(c.Context(), rec, r.as, note)
		}
		of := stet.Execution{Fence: rec.Fence(), Version: rec.Version}
		return h.engine.Operator().Resolve(c.Context(), rec.ID, of, res, note)
	})
}

// adopt ends a record as what is known of it says.
func (h *handler) adopt(ctx context.Context, rec *stet.Record, as string, n stet.Note) (stet.Head, error) {
	if rec.State != stet.Unknown {
		return rec.Head, stet.ErrState
	}
	if (rec.Response != nil) != (as == asLate) {
		return rec.Head, noAnswer
	}
	return reconcile.Adopt(ctx, h.engine, rec, n)
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
func (c *resolution) resolution() (res stet.Resolution, err error) {
	if c.as != "" {
		return res, c.alone()
	}
	res.Now, res.Override = c.now, c.override
	switch c.outcome {
	case notExecuted:
		switch name := c.ofAnswer(); {
		case name != "":
			return res, badParameter(name, `it is of an answer, and belongs to "outcome": "completed"; leave it out`)
		case c.voided && (c.now || c.override):
			return res, badParameter("voided", "now and override go beyond it; send one of them")
		case c.voided && strings.TrimSpace(c.evidence) == "":
			return res, badParameter("evidence", "say what shows that the provider has cancelled it, such as the id of the cancellation")
		}
		return res, nil
	case completed:
	default:
		return res, badParameter("outcome", "it is completed or not-executed")
	}
	switch {
	case c.voided:
		return res, badParameter("voided", frees)
	case c.now:
		return res, badParameter("now", frees)
	case c.override:
		return res, badParameter("override", frees)
	case c.status == nil || *c.status < 200 || *c.status > 599:
		return res, badParameter("status", "it is the status that retries get, 200 to 599")
	case c.body != nil && c.bodyBytes != nil:
		return res, badParameter("body", "body and body_b64 are two bodies; send one")
	}
	res.Response = &stet.Response{Status: *c.status}
	if c.body != nil {
		res.Response.Body = []byte(*c.body)
	}
	if c.bodyBytes != nil {
		res.Response.Body = *c.bodyBytes
	}
	for name, values := range c.headers {
		for _, v := range values {
			if !validField(name, v) {
				return res, badParameter("headers", "a name or a value is none that a header can have")
			}
			res.Response.Header = append(res.Response.Header, stet.Field{Name: textproto.CanonicalMIMEHeaderKey(name), Value: v})
		}
	}
	return res, nil
}

// alone says what is wrong with a resolution as what is known.
func (c *resolution) alone() error {
	switch {
	case c.as != asLate && c.as != asProbe:
		return badParameter("as", "it is "+asLate+" or "+asProbe)
	case c.outcome != "" || c.ofAnswer() != "" || c.voided || c.now || c.override:
		return badParameter("as", "it says what happened: send it to resolve, without an outcome and what belongs to one")
	}
	return nil
}

// ofAnswer is the first member that was sent of an answer; "" if there is none.
func (c *resolution) ofAnswer() string {
	switch {
	case c.status != nil:
		return "status"
	case c.headers != nil:
		return "headers"
	case c.body != nil:
		return "body"
	case c.bodyBytes != nil:
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
var contradicted = &Problem{Status: 409, Code: "contradicted", Title: "The handler's answer says otherwise",
	Detail: "The handler came back too late, with an answer that is kept with the record. Resolve it as completed; or send \"override\": true where you know better, which takes the role admin, and which the audit trail keeps."}

// found is the problem of a release that a probe speaks against.
var found = &Problem{Status: 409, Code: "contradicted", Title: "A probe has found that it happened",
	Detail: "No probe has said since that it was voided; last_probe has what it said. Resolve it as completed; or ask again; or send \"override\": true where you know better, which takes the role admin, and which the audit trail keeps."}

// unsettled says until when what the record's attempt sent may still have its effect, and what is
// known of it, so that an operator who decides not to wait has seen both.
func (h *handler) unsettled(head *stet.Head) error {
	until := reconcile.Settled(head, h.Settle).Add(time.Second - 1).Truncate(time.Second).UTC() // a whole second, not too early
	p := &Problem{Status: 409, Code: "not-settled", Title: "The attempt may still have its effect", Until: until}
	what := "It ended " + age.Long(head.Idle()) + " ago"
	if head.Attended() {
		what = "Its handler has not returned"
	}
	cause := cmp.Or(head.Cause, "not known")
	p.Detail = fmt.Sprintf("%s (attempt %d, cause %s, the key is %s old, %s). Wait until %s; or send \"now\": true where you know that "+
		"nothing can happen any more, which the audit trail keeps, or \"voided\": true with the provider's cancellation as evidence; both take "+
		"the role admin.", what, head.Attempt, cause, age.Long(head.AsOf.Sub(head.CreatedAt)), lastProbe(head),
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
