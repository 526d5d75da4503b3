package reconcile

import (
	"fmt"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// The outlook is a table over state, rule, probes, whether it has settled, and a late answer.
func TestOutlook(t *testing.T) {
	born := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return born.Add(time.Duration(s) * time.Second) }
	// A run of 10 s that ended as unknown; it is read after 60 s.
	unknown := func(edit func(h *stet.Head)) stet.Head {
		h := stet.Head{State: stet.Unknown, CreatedAt: born, Took: 10 * time.Second, AsOf: at(60), DueAt: at(90), Probes: 3}
		edit(&h)
		return h
	}
	other := func(s stet.State, edit func(h *stet.Head)) stet.Head {
		h := stet.Head{State: s, CreatedAt: born, AsOf: at(60), DueAt: at(90)}
		edit(&h)
		return h
	}
	as := func(*stet.Head) {}
	over := func(h *stet.Head) { h.AsOf = at(100) }
	for name, c := range map[string]struct {
		h    stet.Head
		plan Plan
		want Outlook
	}{
		"running":   {h: other(stet.Running, as), want: Outlook{Next: LeaseEnds, At: at(90)}},
		"suspended": {h: other(stet.Running, func(h *stet.Head) { h.Cause = stet.CauseSuspended }), want: Outlook{Next: Resumes, At: at(90)}},
		"its lease is over": {h: other(stet.Running, over),
			want: Outlook{Next: LeaseEnds, At: at(90), SettledAt: at(390)}},
		"its lease is over, and it may run again": {h: other(stet.Running, func(h *stet.Head) { over(h); h.Rules.OnLapse = stet.LapseReexecute }),
			want: Outlook{Next: LeaseEnds, At: at(90)}},
		"completed":       {h: other(stet.Completed, as), want: Outlook{Next: Expires, At: at(90)}},
		"completed, over": {h: other(stet.Completed, over), want: Outlook{Next: Expires, At: at(90)}},
		"completed, over, and refused": {h: other(stet.Completed, func(h *stet.Head) { over(h); h.Rules.KeepExpired = time.Minute }),
			want: Outlook{Next: Refused, At: at(150)}},
		"retryable": {h: other(stet.Retryable, as), want: Outlook{Next: Expires, At: at(90)}},
		"expired":   {h: other(stet.Expired, as), want: Outlook{Next: Refused, At: at(90)}},

		// The probes that are left come at 90 s, 170 s, 330 s, 650 s and 1290 s.
		"not settled": {h: unknown(as), want: Outlook{SettledAt: at(310), NextProbe: at(90), ProbesLeft: 5, FreesAt: at(330), Next: Probes, At: at(90)}},
		"settled":     {h: unknown(func(h *stet.Head) { h.AsOf, h.DueAt = at(400), at(410) }), want: Outlook{SettledAt: at(310), NextProbe: at(410), ProbesLeft: 5, FreesAt: at(410), Next: ProbeFrees, At: at(410)}},
		"due since before it settled": {h: unknown(func(h *stet.Head) { h.AsOf, h.DueAt = at(400), at(20) }),
			want: Outlook{SettledAt: at(310), NextProbe: at(20), ProbesLeft: 5, FreesAt: at(20), Next: ProbeFrees, At: at(20)}},
		"the last probe comes too early": {h: unknown(func(h *stet.Head) { h.Probes = 7 }), want: Outlook{SettledAt: at(310), NextProbe: at(90), ProbesLeft: 1, Next: Probes, At: at(90)}},
		"no probe is left":               {h: unknown(func(h *stet.Head) { h.Probes = 8 }), want: Outlook{SettledAt: at(310), Next: Stays}},
		"a dead letter":                  {h: unknown(func(h *stet.Head) { h.Escalated, h.DueAt = true, time.Time{} }), want: Outlook{SettledAt: at(310), Next: Stays}},
		"nothing is asked":               {h: unknown(as), plan: Plan{Settle: time.Minute}, want: Outlook{SettledAt: at(70), Next: Stays}},
		"missing is never a proof":       {h: unknown(as), plan: Plan{MaxProbes: 8, Settle: stet.Never}, want: Outlook{NextProbe: at(90), ProbesLeft: 5, Next: Probes, At: at(90)}},
		"a late answer":                  {h: unknown(late), want: Outlook{NextProbe: at(90), ProbesLeft: 5, Next: Probes, At: at(90)}},
		"bytes have left":                {h: unknown(func(h *stet.Head) { h.Published = true }), want: Outlook{NextProbe: at(90), ProbesLeft: 5, Next: Probes, At: at(90)}},
		"its handler has not returned": {h: unknown(func(h *stet.Head) { h.Took = 80 * time.Second }),
			want: Outlook{SettledAt: at(380), NextProbe: at(90), ProbesLeft: 5, FreesAt: at(650), Next: Probes, At: at(90)}},
	} {
		if c.plan == (Plan{}) {
			c.plan = Plan{MaxProbes: 8, Settle: 5 * time.Minute}
		}
		if got := c.plan.Outlook(&c.h); got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a record in no state has an outlook")
		}
	}()
	_ = fmt.Sprint((Plan{}).Outlook(&stet.Head{}))
}

// late gives a head an answer that came too late.
func late(h *stet.Head) { regarded(h, `"late":"2026-01-02T03:00:30Z"`) }

// regarded gives a head what it says for people, as stores keep it.
func regarded(h *stet.Head, members string) {
	h.Meta = map[string]string{" stet": "{" + members + "}"}
}

func TestPlan(t *testing.T) {
	var none *Reconciler
	for _, c := range []struct {
		r    *Reconciler
		want Plan
	}{{none, Plan{0, DefaultSettle}}, {&Reconciler{}, Plan{8, DefaultSettle}}, {&Reconciler{MaxProbes: 3, Settle: stet.Never}, Plan{3, stet.Never}}} {
		if got := c.r.Plan(); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}
