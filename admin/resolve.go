package admin

import (
	"fmt"
	"net/textproto"
	"time"

	"github.com/stet-dev/stet"
)

// resolution is the body of POST …/resolve and …/release.
type resolution struct {
	note
	outcome       string
	status        *int
	headers       map[string][]string
	body          *string
	bodyBytes     *[]byte
	now, override bool
}

// members are those of a resolution's body.
func (c *resolution) members() map[string]any {
	return c.with(map[string]any{"outcome": &c.outcome, "status": &c.status, "headers": &c.headers, "body": &c.body, "body_b64": &c.bodyBytes,
		"now": &c.now, "override": &c.override})
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
	res.Settle = h.Settle
	return h.change(c, &r.note, err, func(rec *stet.Record) (stet.Head, error) {
		return h.engine.Operator().Resolve(c.Context(), rec.ID, res, r.by(c.who))
	})
}

const (
	completed   = "completed"
	notExecuted = "not-executed"

	frees = `it frees a key, and belongs to "outcome": "not-executed"; leave it out`
)

// resolution translates what was sent. A member that the outcome has no use for is refused: whoever sent it meant another outcome.
func (c *resolution) resolution() (res stet.Resolution, err error) {
	res.Version, res.Now, res.Override = stet.Version(c.ifVersion), c.now, c.override
	switch c.outcome {
	case notExecuted:
		for _, m := range []struct {
			name  string
			given bool
		}{{"status", c.status != nil}, {"headers", c.headers != nil}, {"body", c.body != nil}, {"body_b64", c.bodyBytes != nil}} {
			if m.given {
				return res, badParameter(m.name, `it is of an answer, and belongs to "outcome": "completed"; leave it out`)
			}
		}
		return res, nil
	case completed:
	default:
		return res, badParameter("outcome", "it is completed or not-executed")
	}
	switch {
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

// validField: RFC 9110 section 5.
func validField(name, value string) bool {
	if name == "" {
		return false
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || c == ':' {
			return false
		}
	}
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// contradicted is what no waiting cures.
var contradicted = &problem{Status: 409, Code: "contradicted", Title: "A late answer says that it happened",
	Detail: "The handler came back too late, with an answer that is kept with the record. Resolve it as completed; or send \"override\": true where you know better, which the audit trail keeps."}

// unsettled says until when what the record's attempt sent may still have its effect, and what is known of it: somebody who
// decides not to wait has seen both.
func (h *handler) unsettled(head *stet.Head) error {
	until := head.Ended().Add(max(h.Settle, 0) + time.Second - 1).Truncate(time.Second).UTC() // a whole second, not too early
	p := &problem{Status: 409, Code: "not-settled", Title: "The attempt may still have its effect", Until: until}
	what := "It ended " + ago(head.Idle())
	if head.Attended() {
		what = "Its handler has not returned"
	}
	p.Detail = fmt.Sprintf("%s (attempt %d, cause %s, the key is %s old, %s). Wait until %s; or send \"now\": true where you know that "+
		"nothing can happen any more, which the audit trail keeps.", what, head.Attempt, orNone(head.Cause),
		head.AsOf.Sub(head.CreatedAt).Truncate(time.Second), lastProbe(head), until.Format(time.RFC3339))
	return p
}

// lastProbe says what is known of the last probe: a record keeps when it was last written, and a probe's answer that told nothing
// is not kept.
func lastProbe(head *stet.Head) string {
	switch {
	case head.Probes == 0:
		return "never asked about"
	case head.Escalated:
		return fmt.Sprintf("a dead letter after %d probes, the last by %s", head.Probes, head.UpdatedAt.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("asked about %d times, the last by %s", head.Probes, head.UpdatedAt.UTC().Format(time.RFC3339))
}

func ago(d time.Duration) string { return d.Truncate(time.Second).String() + " ago" }

func orNone(cause string) string {
	if cause == "" {
		return "not known"
	}
	return cause
}
