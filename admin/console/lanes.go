package console

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/outbox"
)

// lanes are who did what with a key and when, on one axis. Places are percentages, so that nothing
// is stretched.
type lanes struct {
	Label                  string
	Start, Now             string
	RunEnd                 string // from there on it is in doubt, or only expected
	Unknown                string // empty: nothing is in doubt
	Settled                string // when that ends, or the lease of a run; empty: at no known time
	Asks                   bool   // probes and clients have lanes
	Probes                 []string
	Next                   string
	Asked, Late, Mismatch  string
	NowAt, SettledAt, From string // in words
	Phases                 []phase
}

// phase is one of a flow, from its recovery point to the next or to the run's end.
type phase struct{ Name, From, To string }

// maxPhases is how many phases have lanes: the latest.
const maxPhases = 8

// lanes draws keys that run or are unknown: of others there is little to see.
func (p *page) lanes(r *admin.Record, entries []admin.Entry) *lanes {
	switch {
	case r.CreatedAt.IsZero() || !r.CreatedAt.Before(p.Now):
		return nil
	case r.State == "running":
		return p.runLane(r)
	case r.State == "unknown":
		return p.doubtLanes(r, entries)
	}
	return nil
}

// doubtLanes draws the run that was lost, and who has asked about it since.
func (p *page) doubtLanes(r *admin.Record, entries []admin.Entry) *lanes {
	since, end := r.UnknownSince, p.Now
	settled, next := r.Outlook.SettledAt, r.Outlook.NextProbe
	for _, t := range []time.Time{settled, next} {
		if t.After(end) && t.Sub(r.CreatedAt) < 4*p.Now.Sub(r.CreatedAt)+time.Hour {
			end = t
		}
	}
	place := between(r.CreatedAt, end)
	l := &lanes{Start: place(r.CreatedAt), Unknown: place(since), Now: place(p.Now), Settled: place(settled),
		RunEnd: place(since), Asks: true,
		NowAt: p.Clock(p.Now), SettledAt: "settled " + p.Clock(settled), From: "unknown since " + p.Clock(since)}
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
	p.phases(l, r, place)
	return l
}

// runLane draws a run until its lease ends, or a flow until it goes on.
func (p *page) runLane(r *admin.Record) *lanes {
	end, word := p.Now, "lease ends"
	if r.Cause == "suspended" {
		word = "goes on"
	}
	if r.DueAt.After(end) {
		end = r.DueAt
	}
	place := between(r.CreatedAt, end)
	l := &lanes{Start: place(r.CreatedAt), RunEnd: place(p.Now), Now: place(p.Now), Settled: place(r.DueAt), NowAt: p.Clock(p.Now)}
	if lapsed(r) {
		word, l.RunEnd, l.Unknown, l.Settled = "lease ended", l.Settled, l.Settled, ""
	}
	l.From = word + " " + p.Clock(r.DueAt)
	l.Label = "The life of this key: it came at " + p.Clock(r.CreatedAt) + "; " + l.From
	if r.Point != "" {
		l.From = "at " + r.Point + ", " + l.From
	}
	p.phases(l, r, place)
	return l
}

// phases adds those of a flow. A run that is no flow's may have a point without an instant.
func (p *page) phases(l *lanes, r *admin.Record, place func(time.Time) string) {
	if r.Point != "" {
		l.Label += "; the last point that it came to is " + r.Point
	}
	to := l.RunEnd
	for _, point := range slices.Backward(r.Points[max(0, len(r.Points)-maxPhases):]) {
		from := place(point.At)
		l.Phases = append(l.Phases, phase{point.Name, from, cmp.Or(to, from)})
		to = from
	}
	slices.Reverse(l.Phases)
}

// between returns where an instant is on an axis from one to another; empty: it is not on it.
func between(start, end time.Time) func(time.Time) string {
	return func(t time.Time) string {
		if t.IsZero() || t.After(end) || t.Before(start) {
			return ""
		}
		return trimmed(2+94*t.Sub(start).Seconds()/end.Sub(start).Seconds(), 2) + "%"
	}
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
