package console

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/stet-dev/stet/operate"
)

// overviewView is the first page.
type overviewView struct {
	S         *operate.Status
	Needs     []need
	Rows      []seriesRow
	Axis      []tick
	Event     string // where on the axis the most pressing incident began
	EventAt   string // when that was
	Prevented int
	Total     int
	Also      []string
	Span      string
	Why       string // why there are no figures
}

// need is what waits for a person.
type need struct {
	Icon, Color string
	Count       int
	Method      string
	Route       string
	Bold, Text  string
	Link, Do    string
	Main        bool
}

type seriesRow struct {
	Name, Means, Color string
	spark
	Says string
}

// endings say what keys came to that are not unknown any more, by their states.
var endings = map[string]mark{
	"completed": {"done", "done", "it happened"},
	"retryable": {"retry", "retry", "it did not happen: free to run"},
	"running":   {"running", "running", "it runs again"},
}

type tick struct{ At, Label, Anchor string }

// results are the results that have a line of their own on the overview.
var results = []struct{ name, label, means, color string }{
	{"new", "new", "ran", "ink"},
	{"retry", "retry", "ran again, free to", "retry"},
	{"replay", "replay", "given the stored answer", "done"},
	{"in_progress", "in progress", "told to wait, 409", "running"},
	{"unknown", "unknown", "told: not known, 409", "unknown"},
	{"conflict", "conflict", "another request, 422", "dead"},
}

var alsoWords = []struct{ name, text string }{
	{"missing_key", "without a key (400)"}, {"limited", "limited (429)"}, {"store_error",
		"refused because the store was away (503)"},
	{"too_large", "too large (413)"}, {"unauthenticated", "without a scope (401)"},
}

// overview draws GET /.
func (p *page) overview() error {
	d := overviewView{Span: "hour"}
	if p.Is("span", "day") {
		d.Span = "day"
	}
	ctx, cancel := p.glance()
	defer cancel()
	s, err := tidied(p.api.Overview(ctx, d.Span == "day"))
	bad, is := errors.AsType[*problem](err)
	switch {
	case err == nil:
		d.S = &s
		p.needs(&d)
		p.series(&d)
	case is && bad.Status == http.StatusNotFound:
		d.Why = bad.Detail
	default:
		return err
	}
	title := "Overview"
	if s.Waiting > 0 {
		title = plural(s.Waiting, "unknown", "unknown")
	}
	return p.render(http.StatusOK, "overview", view{Title: title, Live: 5, Status: d.S, D: d})
}

// needs lists what waits for a person, the most pressing first.
func (p *page) needs(d *overviewView) {
	for i := range d.S.Double {
		e := &d.S.Double[i]
		d.Needs = append(d.Needs, need{Icon: "dead", Color: "dead", Count: 1, Bold: "a key had its effect twice.",
			Text: first(e.Evidence) + ", and the key was executed again. Undo one, and write down which.",
			Link: keyURL(e.ID), Do: "Open", Main: i == 0})
	}
	if u := d.S.Unstored; u != nil {
		d.Needs = append(d.Needs, need{Icon: "warn", Color: "unknown", Count: u.Entries, Bold: "outcomes are not stored yet.",
			Text: "Only this gateway knows them, in " + sizeOf(u.Bytes) + " of its memory: do not kill it.", Link: "#health", Do: "Store",
			Main: len(d.Needs) == 0})
	}
	for i := range d.S.Incidents {
		in := &d.S.Incidents[i]
		if in.Count <= in.Snoozed {
			continue
		}
		n := need{Icon: "unknown", Color: "unknown", Count: in.Count - in.Snoozed, Method: in.Method, Route: in.Route,
			Link: address("/unknown/%s", in.ID), Do: "Open"}
		switch {
		case waiting(in) == 0:
			n.Icon, n.Color, n.Bold = "dead", "dead", "a dead letter."
			if in.Dead > 1 {
				n.Bold = "dead letters."
			}
			n.Text, n.Link = "All probes are used up; only a person can end it.", "/dead"
		case in.Late > 0 && in.Late == in.Count:
			n.Icon, n.Bold, n.Text = "clock", "an answer came too late.", "It is kept as evidence."
			if in.Late > 1 {
				n.Bold, n.Text = "answers came too late.", "They are kept as evidence."
			}
		case in.Count == 1:
			n.Bold, n.Text = "it is not known whether it happened.", first(p.Cause(in.Cause, 1))+", at "+p.Clock(in.Since)+"."
		default:
			n.Bold, n.Text = "it is not known whether they happened.", first(p.Cause(in.Cause, 2))+", at "+p.Clock(in.Since)+"."
			n.Do = "Look at the " + number(n.Count)
		}
		if in.Asking.Count > 0 {
			n.Text += " Clients keep asking: " + plural(in.Asking.Count, "time", "times") + ", last " +
				p.Age(in.Asking.LastAt) + " ago."
		}
		if len(in.With) > 0 {
			n.Text += " With " + strings.Join(in.With, ", ") + "."
		}
		n.Main = len(d.Needs) == 0
		d.Needs = append(d.Needs, n)
	}
	if n := d.S.OutboxDead; n != nil && *n > 0 {
		d.Needs = append(d.Needs, need{Icon: "dead", Color: "dead", Count: *n,
			Bold: "Messages of the outbox are not delivered.",
			Text: "Nothing is tried for them any more.", Link: "/dead#outbox", Do: "Open", Main: len(d.Needs) == 0})
	}
	for _, w := range d.S.Warnings {
		d.Needs = append(d.Needs, need{Icon: "warn", Color: "unknown", Bold: w.Text, Text: w.Mend, Link: "/config",
			Do: "Config"})
	}
}

// series draws what requests were told: each result on a scale of its own, all on one axis.
func (p *page) series(d *overviewView) {
	by := map[string]*operate.Series{}
	for i := range d.S.Series {
		by[d.S.Series[i].Result] = &d.S.Series[i]
	}
	told := operate.Sum(d.S.Series, time.Time{})
	d.Total, d.Prevented = told.Requests(), told.Duplicates()
	for _, r := range results {
		s := by[r.name]
		if s == nil || r.name == "retry" && told["retry"] == 0 {
			continue
		}
		row := seriesRow{Name: r.label, Means: r.means, Color: r.color, spark: sparkOf(s.PerSecond)}
		row.Says = first(r.label) + ": " + rate(row.Now) + " a second now, " + rate(row.Peak) + " at most"
		d.Rows = append(d.Rows, row)
		if d.Axis == nil {
			d.Axis = axisOf(s)
			if len(d.S.Incidents) > 0 {
				d.Event, d.EventAt = placeOn(s, d.S.Incidents[0].Since), p.Clock(d.S.Incidents[0].Since)
			}
		}
	}
	for _, a := range alsoWords {
		if by[a.name] != nil {
			d.Also = append(d.Also, number(told[a.name])+" "+a.text)
		}
	}
}

func spanOf(s *operate.Series) time.Duration {
	return time.Duration(float64(len(s.PerSecond)) * s.Step * float64(time.Second))
}

// axisOf labels the beginning and the middle of a series. Its end is now.
func axisOf(s *operate.Series) []tick {
	span := spanOf(s)
	at := func(share float64) string {
		return s.Until.Add(-time.Duration(float64(span) * (1 - share))).UTC().Format("15:04")
	}
	return []tick{{"0", at(0), "start"}, {"50%", at(.5), "middle"}, {"100%", at(1), "end"}}
}

// placeOn is where an instant is in the box of a series, or empty.
func placeOn(s *operate.Series, t time.Time) string {
	span := spanOf(s)
	if from := s.Until.Add(-span); t.After(from) && t.Before(s.Until) && span > 0 {
		return trimmed(240*t.Sub(from).Seconds()/span.Seconds(), 1)
	}
	return ""
}
