package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
)

// outlook computes what follows from a record.
func (h *handler) outlook(head *stet.Head) *Outlook {
	plan := h.Reconciler.Plan()
	o := plan.Outlook(head)
	plan.Settle = h.Settle // what people may do goes by this one, and what probes do by the Reconciler's
	o.SettledAt = plan.Outlook(head).SettledAt
	return &Outlook{Release: h.mayRelease(head), SettledAt: o.SettledAt.UTC(), NextProbe: o.NextProbe.UTC(), ProbesLeft: o.ProbesLeft, FreesAt: o.FreesAt.UTC(),
		IfNothing: string(o.Next), At: o.At.UTC(), Client: h.told(head)}
}

// told is what a client hears who sends the request again.
func (h *handler) told(head *stet.Head) ClientAnswer {
	longest, accepted := h.answers(head.Route)
	d := stet.Decision{Verdict: head.Verdict(), Record: stet.Record{Head: *head}}
	problem := func(code stethttp.Code, again time.Duration) ClientAnswer {
		return ClientAnswer{Status: stethttp.NewProblem(code, "").Status, Code: string(code), RetryAfter: again.Seconds()}
	}
	switch d.Verdict {
	case stet.Execute:
		return ClientAnswer{Retry: true}
	case stet.Replay:
		if head.Kept == stet.KeptStatus || head.Status < 200 || head.Status > 999 {
			return problem(stethttp.ResultNotRetained, 0)
		}
		return ClientAnswer{Status: head.Status}
	case stet.InProgress:
		a := problem(stethttp.InProgress, d.RetryAfter(longest))
		if accepted {
			a.Status = http.StatusAccepted
		}
		return a
	case stet.Unresolved:
		d.Record.State = stet.Unknown // a run whose lease is over becomes it when a client asks
		return problem(stethttp.OutcomeUnknown, d.RetryAfter(longest))
	case stet.Gone:
		return problem(stethttp.ExpiredKey, 0)
	case stet.Mismatch, stet.Absent: // of other requests, and of no record
	}
	panic("admin: no such verdict: " + d.Verdict.String())
}

// defaultRetryAfter is the longest that clients are told to wait on a route that is not known, as
// in stethttp.
const defaultRetryAfter = 30 * time.Second

// answers returns the longest that a route's clients are told to wait, and whether they hear of a
// run with 202.
func (h *handler) answers(route string) (longest time.Duration, accepted bool) {
	if h.Policy != nil {
		known := h.Policy().Routes
		for i := range known {
			if c := &known[i].Config; c.Route == route {
				return c.RetryAfterMax, c.Waiting == stethttp.Accepted
			}
		}
	}
	return defaultRetryAfter, false
}

// detailed describes a record and what is around it, without another look at the store.
func (h *handler) detailed(ctx context.Context, head *stet.Head) Record {
	doc := h.record(head)
	doc.Outlook = h.outlook(head)
	if a, ok := head.LastProbe(); ok {
		doc.Probe = &ProbeAnswer{At: a.At.UTC(), TookMS: millis(a.Took), Found: a.Found, Status: a.Status, Evidence: a.Evidence}
	}
	if late := head.Late(); !late.IsZero() {
		doc.Late = &LateAnswer{Status: head.Status, Bytes: head.Size, At: late.UTC()}
	}
	if s, ok := head.Snooze(); ok {
		doc.Snooze = &Snooze{Until: s.Until.UTC(), Who: s.Who, Reason: s.Why}
	}
	if to, ok := head.Handover(); ok {
		doc.With = &Handover{To: to.To, Who: to.Who, Note: to.Why, At: to.At.UTC()}
	}
	switch {
	case h.Asking == nil && head.State == stet.Unknown: // nothing is counted, which is not none
		doc.Asking = &Asking{More: true}
	case h.Asking != nil:
		doc.Asking, doc.Mismatch = h.Asking(ctx, doc.ID, doc.UnknownSince)
	}
	return doc
}

// releases are the reasons why a record may be released, or may not, in sentences, and what an
// admin sends to release it all the same.
var releases = map[reconcile.Release]struct{ why, with string }{
	reconcile.ReleaseNoTrace:    {"It has settled, and the last probe found no trace of it.", ""},
	reconcile.ReleaseSettled:    {"It has settled, and no probe has confirmed that: be sure from the provider's own records.", ""},
	reconcile.ReleaseUndecided:  {"It has settled, and the last probe could not tell: ask again, or be sure from the provider's own records.", ""},
	reconcile.ReleaseUnprovable: {"Waiting proves nothing here: check the provider's own records.", ""},
	reconcile.ReleasePublished:  {"Bytes of an answer have left, so that it did happen.", ""},
	reconcile.ReleaseLateAnswer: {"The handler came back too late, with an answer that says that it happened.", "override"},
	reconcile.ReleaseFound:      {"A probe said that it happened.", "override"},
	reconcile.ReleaseAttended:   {"Its handler has not returned, and may still have its effect.", "now"},
	reconcile.ReleaseNotSettled: {"The attempt ended only just now: what it sent may still have its effect.", "voided"},
}

// mayRelease says whether people may release a record; nil: its outcome is known.
func (h *handler) mayRelease(head *stet.Head) *Release {
	ruling := reconcile.Plan{Settle: h.Settle}.Release(head)
	is, known := releases[ruling]
	if !known {
		return nil
	}
	r := &Release{May: ruling.May(), Many: ruling.Many(), Code: string(ruling), Why: is.why, With: is.with}
	switch {
	case r.May:
		r.Role = Operator.String()
	case r.With != "":
		r.Role = Admin.String()
	}
	if ruling == reconcile.ReleaseNotSettled {
		r.From = reconcile.Settled(head, h.Settle).UTC()
	}
	return r
}
