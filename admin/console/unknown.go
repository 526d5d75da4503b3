package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet/operate"
)

// unknownView is the page of requests whose outcome is not known.
type unknownView struct {
	Groups []group
	Which  string // the filter: "", late, mine, none, snoozed
	Counts map[string]int
	All    int // unknown records of all groups that wait
	More   bool
	Over   bool // the one incident that was asked for has ended
	Unread bool // it is not known what is unknown
}

// group is an incident as a row, with its keys where it is open.
type group struct {
	operate.Incident
	Open   bool
	Mark   mark
	May    bool   // "it did not" is possible for some of them
	Alone  bool   // it is possible for the only one of them, on its own page
	WhyNot string // else why it is not
	Loaded bool   // Keys are there
	Longer int    // how many keys the incident's own page shows, if it shows more
}

// drawUnknown draws GET /unknown.
func drawUnknown(p *page) error {
	ctx, cancel := p.glance()
	defer cancel()
	doc, err := tidied(p.api.Incidents(ctx, operate.IncidentQuery{}))
	if err != nil {
		return drawUnread(p, err)
	}
	q := p.r.URL.Query()
	d := unknownView{Which: q.Get("which"), Counts: map[string]int{}}
	open := strings.Split(q.Get("open"), ",")
	for i := range doc.Incidents {
		in := &doc.Incidents[i]
		d.All += waiting(in)
		d.More = d.More || in.More
		for _, which := range incidentFilters {
			d.Counts[which.name] += which.count(p, in)
		}
	}
	d.Groups = groupIncidents(p, doc.Incidents, d.Which)
	for i := range d.Groups {
		g := &d.Groups[i]
		g.Open = slices.ContainsFunc(open, g.Alike) || q.Get("open") == "" && i == 0
	}
	if err := loadOpen(p, ctx, d.Groups, glanced); err != nil {
		return err
	}
	title := plural(d.All, "unknown", "unknown")
	return p.render(http.StatusOK, "unknown", view{Title: title, Live: 5, D: d})
}

// incidentFilters are the filters of the page, and how many records of an incident each is about.
// An incident says to whom its records were handed, and not how many.
var incidentFilters = []struct {
	name  string
	count func(p *page, in *operate.Incident) int
}{
	{"mine", func(p *page, in *operate.Incident) int { return in.Count * btoi(slices.Contains(in.With, p.Who.Name)) }},
	{"none", func(_ *page, in *operate.Incident) int { return in.Count * btoi(len(in.With) == 0) }},
	{"late", func(_ *page, in *operate.Incident) int { return in.Late }},
	{"snoozed", func(_ *page, in *operate.Incident) int { return in.Snoozed }},
	{"dead", func(_ *page, in *operate.Incident) int { return in.Dead }},
}

func btoi(is bool) int {
	if is {
		return 1
	}
	return 0
}

// waiting is how many records of an incident are neither snoozed nor dead letters.
func waiting(in *operate.Incident) int { return in.Count - in.Snoozed - in.Dead }

// selected reports whether an incident is in the list. One that is snoozed as a whole is out of it,
// and so are dead letters, which have a page of their own.
func selected(p *page, which string, in *operate.Incident) bool {
	for _, w := range incidentFilters {
		if w.name == which {
			return w.count(p, in) > 0
		}
	}
	return waiting(in) > 0
}

// groupIncidents are the incidents that a filter selects, as the overview and the page of unknown ones list
// them.
func groupIncidents(p *page, all []operate.Incident, which string) (list []group) {
	for i := range all {
		if selected(p, which, &all[i]) {
			list = append(list, groupOf(p, &all[i]))
		}
	}
	return list
}

func groupOf(p *page, in *operate.Incident) group {
	g := group{Incident: *in, Mark: marks["unknown"]}
	if in.Dead == in.Count {
		g.Mark = marks["dead"]
	}
	return g
}

// takeKeys takes the keys of an incident, and what may be said of them together.
func takeKeys(p *page, g *group, keys []operate.Record) {
	g.Keys, g.Loaded = keys, true
	var from time.Time
	for i := range keys {
		a := keys[i].Outlook.Release
		switch {
		case a == nil:
		case a.Many:
			g.May = true
		case p.Future(a.From) && (from.IsZero() || a.From.Before(from)):
			from = a.From
		case g.WhyNot == "":
			g.WhyNot = "“It did not” is not offered for all at once. " + a.Why
			switch {
			case len(keys) == 1 && a.May:
				g.Alone, g.WhyNot = true, a.Why
			case a.May:
				g.WhyNot += " Then decide key by key, each on its own page."
			}
		}
	}
	switch {
	case g.May:
		g.WhyNot = ""
	case !from.IsZero():
		g.WhyNot = "“It did not” is possible from " + p.Clock(from) + ", in " + p.In(from) +
			". Until then a request may still be on its way to the API."
	}
}

// maxLoaded is how many incidents of a page have their keys, and glanced how many keys each has
// then: a page that is read again every few seconds has to be small. A link leads to the others.
const (
	maxLoaded = 5
	glanced   = 50
	whole     = 500 // keys of one incident on its own page
)

// loadOpen fetches the keys of the incidents that are open.
func loadOpen(p *page, ctx context.Context, all []group, most int) error {
	left := maxLoaded
	for i := range all {
		if !all[i].Open || left == 0 {
			continue
		}
		left--
		if err := loadKeys(p, ctx, &all[i], most); err != nil {
			return err
		}
	}
	return nil
}

// loadKeys fetches the keys of an incident.
func loadKeys(p *page, ctx context.Context, g *group, most int) error {
	in, err := tidied(p.api.Incident(ctx, g.ID, operate.Shown{Keys: most}))
	if bad, is := errors.AsType[*problem](err); is && bad.Status == http.StatusNotFound {
		return nil // it has ended meanwhile
	}
	if err != nil {
		return err
	}
	takeKeys(p, g, in.Keys)
	if n := min(in.Count, whole); len(in.Keys) < n {
		g.Longer = n
	}
	return nil
}

// drawIncident draws GET /unknown/{incident}: one incident, open.
func drawIncident(p *page) error {
	ctx, cancel := p.glance()
	defer cancel()
	g, err := readGroup(p, ctx)
	if err != nil {
		return drawEnded(p, drawUnread(p, err))
	}
	d := unknownView{Groups: []group{g}, Which: "one", All: g.Count, More: g.More}
	return p.render(http.StatusOK, "unknown", view{Name: "unknown", Title: plural(g.Count, "unknown", "unknown"),
		Live: 5, D: d})
}

// drawUnread draws that it is not known what is unknown, where err says so. The page reads itself again.
func drawUnread(p *page, err error) error {
	if bad, is := errors.AsType[*problem](err); !is || bad.Status != http.StatusServiceUnavailable {
		return err
	}
	return p.render(http.StatusOK, "unknown", view{Name: "unknown", Title: "Unknown", Live: 5, D: unknownView{Unread: true}})
}

// drawEnded draws that an incident is over, where err says so, which is another thing than that it was
// not looked at: the page is read again until it is, and links to it stay where they were sent. It is
// no error: a page that cannot be read again would go on to show keys that have been settled.
func drawEnded(p *page, err error) error {
	if bad, is := errors.AsType[*problem](err); !is || bad.Code != "not-found" {
		return err
	}
	return p.render(http.StatusOK, "unknown", view{Title: "This incident has ended",
		D: unknownView{Which: "one", Over: true}})
}

func readGroup(p *page, ctx context.Context) (group, error) {
	in, err := tidied(p.api.Incident(ctx, p.r.PathValue("incident"), operate.Shown{}))
	if err != nil {
		return group{}, err
	}
	g := groupOf(p, &in)
	g.Open = true
	takeKeys(p, &g, in.Keys)
	return g, nil
}

// probesTotal is how many probes there are, those that were asked and those that are left.
func probesTotal(r operate.Record) int { return r.Probes + r.Outlook.ProbesLeft }
