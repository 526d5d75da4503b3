package console

import (
	"fmt"
	"time"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/outbox"
)

// lanes are who did what with a key and when, on one axis. Places are percentages, so that nothing
// is stretched.
type lanes struct {
	Label                  string
	Start, Unknown, Now    string
	Settled                string // empty: none
	RunEnd                 string
	Probes                 []string
	Next                   string
	Asked, Late, Mismatch  string
	NowAt, SettledAt, From string
}

// lanes draws unknown keys alone: of others there is little to see.
func (p *page) lanes(r *admin.Record, entries []admin.Entry) *lanes {
	if r.State != "unknown" || r.CreatedAt.IsZero() || !r.CreatedAt.Before(p.Now) {
		return nil
	}
	since, end := r.UnknownSince, p.Now
	settled, next := r.Outlook.SettledAt, r.Outlook.NextProbe
	for _, t := range []time.Time{settled, next} {
		if t.After(end) && t.Sub(r.CreatedAt) < 4*p.Now.Sub(r.CreatedAt)+time.Hour {
			end = t
		}
	}
	span := end.Sub(r.CreatedAt).Seconds()
	place := func(t time.Time) string {
		if t.IsZero() || t.After(end) || t.Before(r.CreatedAt) {
			return ""
		}
		return trimmed(2+94*t.Sub(r.CreatedAt).Seconds()/span, 2) + "%"
	}
	l := &lanes{Start: place(r.CreatedAt), Unknown: place(since), Now: place(p.Now), Settled: place(settled),
		RunEnd: place(since),
		NowAt:  p.Clock(p.Now), SettledAt: p.Clock(settled), From: p.Clock(since)}
	l.Label = "The life of this key: it came at " + p.Clock(r.CreatedAt) + "; unknown since " + p.Clock(since)
	if r.Probe != nil {
		l.Probes = append(l.Probes, place(r.Probe.At))
		for i := range entries {
			if a := entries[i].Probe; a != nil && !a.At.Equal(r.Probe.At) {
				l.Probes = append(l.Probes, place(a.At))
			}
		}
		l.Label += "; asked " + plural(r.Probes, "time", "times") + " so far"
	}
	if p.Future(next) {
		l.Next = place(next)
		l.Label += ", the next time at " + p.Clock(next)
	}
	if r.Asking != nil {
		l.Asked = place(r.Asking.LastAt)
	}
	if r.Late != nil {
		l.Late = place(r.Late.At)
	}
	if r.Mismatch != nil {
		l.Mismatch = place(r.Mismatch.At)
	}
	if !settled.IsZero() {
		l.Label += "; settled at " + p.Clock(settled)
	}
	return l
}

// attempts draws a message's attempts on one axis, with the next where it is due.
func (p *page) attempts(m *admin.Message) *lanes {
	end := p.Now
	next := m.State == outbox.Pending && p.Future(m.DueAt)
	if next {
		end = m.DueAt
	}
	span := end.Sub(m.CreatedAt).Seconds()
	if span <= 0 || len(m.Errors) == 0 {
		return nil
	}
	place := func(t time.Time) string {
		return trimmed(2+94*max(0, t.Sub(m.CreatedAt).Seconds())/span, 2) + "%"
	}
	l := &lanes{Start: place(m.CreatedAt), Now: place(p.Now), NowAt: p.Clock(p.Now)}
	l.Label = fmt.Sprintf("The life of this message: it came at %s; the last %s failed, the latest at %s",
		p.Clock(m.CreatedAt),
		plural(len(m.Errors), "attempt", "attempts"), p.Clock(m.Errors[len(m.Errors)-1].At))
	for _, e := range m.Errors {
		l.Probes = append(l.Probes, place(e.At))
	}
	if next {
		l.Next = place(m.DueAt)
		l.Label += "; the next is due at " + p.Clock(m.DueAt)
	}
	return l
}
