package operate

import (
	"cmp"
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
)

// Outlook says what follows from a record as it is. It is computed in one place, so that console,
// command line, API and alerts say the same.
type Outlook struct {
	// SettledAt, of an unknown record, is from when a probe without a trace proves that nothing
	// happened. It is zero where no time proves it.
	SettledAt  time.Time `json:"settled_at,omitzero"`
	NextProbe  time.Time `json:"next_probe_at,omitzero"`
	ProbesLeft int       `json:"probes_left,omitzero"`
	// FreesAt is the first of the probes left that comes after SettledAt: without a trace it frees
	// the key.
	FreesAt time.Time `json:"frees_at,omitzero"`
	// IfNothing is what happens by itself, in a word: lease-ends (then it is unknown, or goes on by
	// its rules), resumes, probe (which may end it), probe-frees (the next probe without a trace
	// frees the key), stays (only people end it), expires (at At its answer is given no longer, and
	// the key is free, or refused as expired if its rules say so), refused (at At the key is free;
	// until then it is refused as expired).
	IfNothing string    `json:"if_nothing"`
	At        time.Time `json:"if_nothing_at,omitzero"`
	// Client is what a request with this key and the same content is answered now.
	Client ClientAnswer `json:"client"`
	// Release, of a record whose outcome is unknown, says whether people may say that it did not
	// happen. Only documents that have the last probe's answer have it.
	Release *Release `json:"release,omitzero"`
}

// Release says whether a record may be released. POST …/release goes by it, and so do the console
// and the commands.
type Release struct {
	May bool `json:"may"`
	// Code is why, in a word: no-trace, settled, undecided (the last probe could not tell: ask
	// again, or be sure), unprovable; or why not: published, late-answer, found, attended,
	// not-settled.
	Code string `json:"code"`
	Why  string `json:"why"` // in sentences, with From
	// Many says that it may be released together with others: it has settled, and a trace was looked
	// for and not found.
	Many bool `json:"many"`
	// From, of what is not settled, is from when it may be released.
	From time.Time `json:"from,omitzero"`
	// Role is what it takes to release it now; "" means that no role may. What may not be released
	// is released for an admin who sends With: voided, now or override.
	Role string `json:"role,omitzero"`
	With string `json:"with,omitzero"`
}

// ClientAnswer is what a client hears: the stored response, if Code is "", or a problem.
type ClientAnswer struct {
	Status     int     `json:"status"`
	Code       string  `json:"code,omitzero"`
	Retry      bool    `json:"runs,omitzero"` // it is executed
	RetryAfter float64 `json:"retry_after_s,omitzero"`
}

// ProbeAnswer is what the last probe of a record was answered.
type ProbeAnswer struct {
	At       time.Time `json:"at"`
	TookMS   float64   `json:"took_ms"`
	Found    string    `json:"found"`           // pending, happened, missing, voided, goes-on, or silent: no answer
	Status   int       `json:"status,omitzero"` // of its HTTP answer
	Evidence string    `json:"evidence,omitzero"`
}

// LateAnswer is the response that a handler gave after its record had become unknown.
type LateAnswer struct {
	Status int       `json:"status"`
	Bytes  int64     `json:"bytes"`
	At     time.Time `json:"at"`
}

// Mismatch is the last request that came with a record's key and another content.
type Mismatch struct {
	At      time.Time `json:"at"`
	Count   int       `json:"count"`
	Parts   []string  `json:"parts"` // which differ: method, path, query, media-type, body, header:NAME
	TraceID string    `json:"trace_id,omitzero"`
}

// Asking counts the requests that were told that a record is unknown, since it is. With More there
// may have been further ones, which were forgotten or could not be read; a Count of 0 then says
// that it is not known whether clients ask.
type Asking struct {
	Count  int       `json:"count"`
	LastAt time.Time `json:"last_at,omitzero"`
	More   bool      `json:"more,omitzero"`
}

// Snooze is until when a record is out of the list of unknown ones and out of the alert, and why.
type Snooze struct {
	Until  time.Time `json:"until"`
	Who    string    `json:"who"`
	Reason string    `json:"reason"`
}

// Handover is whom a record was handed to, by whom and with which note.
type Handover struct {
	To   string    `json:"to"`
	Who  string    `json:"who"`
	Note string    `json:"note,omitzero"`
	At   time.Time `json:"at"`
}

// outlook computes what follows from a record.
func (s *service) outlook(head *stet.Head) *Outlook {
	plan := s.conf.Reconciler.Plan()
	o := plan.Outlook(head)
	plan.Settle = s.settle // what people may do goes by this one, and what probes do by the Reconciler's
	o.SettledAt = plan.Outlook(head).SettledAt
	return &Outlook{Release: s.mayRelease(head), SettledAt: o.SettledAt.UTC(), NextProbe: o.NextProbe.UTC(), ProbesLeft: o.ProbesLeft, FreesAt: o.FreesAt.UTC(),
		IfNothing: string(o.Next), At: o.At.UTC(), Client: s.told(head)}
}

// told is what a client hears who sends the request again.
func (s *service) told(head *stet.Head) ClientAnswer {
	longest, accepted := s.answers(head.Route)
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
		if accepted { // 202 Accepted
			a.Status = 202
		}
		return a
	case stet.Unresolved:
		d.Record.State = stet.Unknown // a run whose lease is over becomes it when a client asks
		return problem(stethttp.OutcomeUnknown, d.RetryAfter(longest))
	case stet.Gone:
		return problem(stethttp.ExpiredKey, 0)
	case stet.Mismatch, stet.Absent: // of other requests, and of no record
	}
	panic("operate: no such verdict: " + d.Verdict.String())
}

// defaultRetryAfter is the longest that clients are told to wait on a route that is not known, as
// in stethttp.
const defaultRetryAfter = 30 * time.Second

// answers returns the longest that a route's clients are told to wait, and whether they hear of a
// run with 202.
func (s *service) answers(route string) (longest time.Duration, accepted bool) {
	if s.conf.Clients != nil {
		longest, accepted = s.conf.Clients(route)
	}
	return cmp.Or(longest, defaultRetryAfter), accepted
}

// detailed describes a record and what is around it, without another look at the store.
func (s *service) detailed(ctx context.Context, head *stet.Head) Record {
	doc := s.record(head)
	doc.Outlook = s.outlook(head)
	if a, ok := head.LastProbe(); ok {
		doc.Probe = &ProbeAnswer{At: a.At.UTC(), TookMS: millis(a.Took), Found: a.Found, Status: a.Status, Evidence: a.Evidence}
	}
	if late := head.Late(); !late.IsZero() {
		doc.Late = &LateAnswer{Status: head.Status, Bytes: head.Size, At: late.UTC()}
	}
	if quiet, ok := head.Snooze(); ok {
		doc.Snooze = &Snooze{Until: quiet.Until.UTC(), Who: quiet.Who, Reason: quiet.Why}
	}
	if to, ok := head.Handover(); ok {
		doc.With = &Handover{To: to.To, Who: to.Who, Note: to.Why, At: to.At.UTC()}
	}
	switch {
	case s.conf.Asking == nil && head.State == stet.Unknown: // nothing is counted, which is not none
		doc.Asking = &Asking{More: true}
	case s.conf.Asking != nil:
		doc.Asking, doc.Mismatch = s.conf.Asking(ctx, doc.ID, doc.UnknownSince)
	}
	return doc
}

// explained describes a single record, in sentences, too.
func (s *service) explained(ctx context.Context, head *stet.Head) Record {
	doc := s.detailed(ctx, head)
	said := explain(&doc, head.AsOf)
	doc.Explanation = &said
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
func (s *service) mayRelease(head *stet.Head) *Release {
	ruling := reconcile.Plan{Settle: s.settle}.Release(head)
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
		r.From = reconcile.Settled(head, s.settle).UTC()
		r.Why += " It may be released from " + writeInstant(r.From, head.AsOf) + " on."
	}
	return r
}
