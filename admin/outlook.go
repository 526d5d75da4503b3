package admin

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
)

// outlook computes what follows from a record. late says that it has a late answer.
func (h *handler) outlook(head *stet.Head, late bool) *Outlook {
	plan := h.Reconciler.Plan()
	o := plan.Outlook(head, late)
	plan.Settle = h.Settle // what people may do goes by this one, and what probes do by the Reconciler's
	o.SettledAt = plan.Outlook(head, late).SettledAt
	return &Outlook{SettledAt: o.SettledAt.UTC(), NextProbe: o.NextProbe.UTC(), ProbesLeft: o.ProbesLeft, FreesAt: o.FreesAt.UTC(),
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
	doc, late := h.record(head), head.Late()
	doc.Outlook = h.outlook(head, !late.IsZero())
	if !late.IsZero() {
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
	reconcile.ReleaseFound:      {"A probe said that it happened, or still goes on.", "override"},
	reconcile.ReleaseAttended:   {"Its handler has not returned, and may still have its effect.", "now"},
	reconcile.ReleaseNotSettled: {"The attempt ended only just now: what it sent may still have its effect.", "voided"},
}

// mayRelease says whether people may release a record; nil: its outcome is known.
func (h *handler) mayRelease(head *stet.Head, late bool, last *reconcile.Answer) *Release {
	ruling := reconcile.Plan{Settle: h.Settle}.Release(head, late, last)
	is, known := releases[ruling]
	if !known {
		return nil
	}
	r := &Release{May: ruling.May(), Code: string(ruling), Why: is.why, With: is.with}
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

// whole describes a record, with the last probe's answer.
func (h *handler) whole(ctx context.Context, head *stet.Head) Record {
	doc := h.detailed(ctx, head)
	if !head.InDoubt() {
		return doc
	}
	last, err := h.lastAnswer(ctx, head)
	if err != nil {
		h.Log.LogAttrs(ctx, slog.LevelWarn, "a record is shown without its last probe: the history could not be read",
			slog.String("id", doc.ID), slog.String("error", err.Error()))
		return doc
	}
	h.answered(&doc, head, last)
	return doc
}

// lastAnswer is what a record's last probe was answered, as far as the history tells; nil: nothing.
func (h *handler) lastAnswer(ctx context.Context, head *stet.Head) (*reconcile.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	a, ok, err := reconcile.LastAnswer(ctx, h.engine, head)
	if !ok {
		return nil, err
	}
	return &a, err
}

// answered adds what the last probe was answered, and what follows from it.
func (h *handler) answered(doc *Record, head *stet.Head, last *reconcile.Answer) {
	if last != nil {
		doc.Probe = probeAnswer(last)
	}
	doc.Outlook.Release = h.mayRelease(head, doc.Late != nil, last)
}

func probeAnswer(a *reconcile.Answer) *ProbeAnswer {
	return &ProbeAnswer{At: a.At.UTC(), TookMS: millis(a.Took), Found: a.Found, Status: a.Status, Evidence: a.Evidence}
}
