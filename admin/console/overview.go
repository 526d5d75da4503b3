package console

import (
	"errors"
	"net/http"

	"github.com/stet-dev/stet/operate"
)

// overviewView is the first page.
type overviewView struct {
	S      *operate.Status
	First  []need  // more pressing than incidents
	Groups []group // incidents
	Needs  []need  // what waits beside them
	Told   []toldRow
	Why    string // why there are no figures
}

// need is what waits for a person, beside incidents.
type need struct {
	Icon, Color string
	Count       int
	Bold, Text  string
	Link, Do    string
	Main        bool
}

// toldRow is what so many requests were told.
type toldRow struct {
	resultWords
	Count int
}

type resultWords struct{ Name, Label, Means, Color string }

// endings say what keys came to that are not unknown any more, by their states.
var endings = map[string]mark{
	"completed": {"done", "done", "it happened"},
	"retryable": {"retry", "retry", "it did not happen: free to run"},
	"running":   {"running", "running", "it runs again"},
}

// results are what requests are told, the most usual first.
var results = []resultWords{
	{"new", "new", "ran", "ink"},
	{"retry", "retry", "ran again, free to", "retry"},
	{"replay", "replay", "given the stored answer", "done"},
	{"in_progress", "in progress", "told to wait, 409", "running"},
	{"unknown", "unknown", "told: not known, 409", "unknown"},
	{"conflict", "conflict", "another request, 422", "dead"},
	{"bypass", "bypass", "ran unguarded", "ink"},
	{"missing_key", "missing key", "refused without a key, 400", "ink"},
	{"invalid_key", "invalid key", "refused for its key, 400", "ink"},
	{"unauthenticated", "unauthenticated", "refused without a scope, 401", "ink"},
	{"too_large", "too large", "refused for its size, 413", "ink"},
	{"limited", "limited", "refused for their number, 429", "ink"},
	{"store_error", "store error", "refused because the store was away, 503", "dead"},
}

// drawOverview draws GET /.
func drawOverview(p *page) error {
	var d overviewView
	ctx, cancel := p.glance()
	defer cancel()
	s, err := tidied(p.api.Overview(ctx))
	bad, is := errors.AsType[*problem](err)
	switch {
	case err == nil:
		d.S, d.Groups = &s, groupIncidents(p, s.Incidents, "")
		listNeeds(p, &d)
		for _, r := range results {
			if n := s.Requests[r.Name]; n > 0 {
				d.Told = append(d.Told, toldRow{r, n})
			}
		}
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

// listNeeds lists what waits for a person beside incidents, the most pressing first.
func listNeeds(p *page, d *overviewView) {
	add := func(to *[]need, n need) {
		n.Main = len(d.First)+len(d.Groups)+len(d.Needs) == 0
		*to = append(*to, n)
	}
	for i := range d.S.Double {
		e := &d.S.Double[i]
		add(&d.First, need{Icon: "dead", Color: "dead", Count: 1, Bold: "a key had its effect twice.", Text: first(e.Evidence) +
			", and the key was executed again. Undo one, and write down which.", Link: keyURL(e.ID), Do: "Open"})
	}
	if u := d.S.Unstored; u != nil {
		add(&d.First, need{Icon: "warn", Color: "unknown", Count: u.Entries, Bold: "outcomes are not stored yet.",
			Text: "Only this gateway knows them, in " + sizeOf(u.Bytes) + " of its memory: do not kill it.", Link: "#health", Do: "Store"})
	}
	if n := d.S.Dead; n > 0 {
		add(&d.Needs, need{Icon: "dead", Color: "dead", Count: n, Bold: one(n, "dead letter.", "dead letters."),
			Text: "All probes are used up; only a person can end " + one(n, "it.", "these."), Link: "/dead", Do: "Open"})
	}
	if n := d.S.OutboxDead; n != nil && *n > 0 {
		add(&d.Needs, need{Icon: "dead", Color: "dead", Count: *n, Bold: one(*n, "message of the outbox is", "messages of the outbox are") + " not delivered.",
			Text: "Nothing is tried any more for " + one(*n, "it.", "these."), Link: "/dead#outbox", Do: "Open"})
	}
	for _, w := range d.S.Warnings {
		add(&d.Needs, need{Icon: "warn", Color: "unknown", Bold: w.Text, Text: w.Mend, Link: "/config", Do: "Config"})
	}
}
