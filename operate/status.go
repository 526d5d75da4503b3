package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/age"
	"github.com/stet-dev/stet/internal/stopwatch"
	"github.com/stet-dev/stet/outbox"
)

// Status is the answer of GET /api/v1/status: what needs a person, and how the parts are.
type Status struct {
	Title         string     `json:"title,omitzero"`     // which installation this is
	TraceURL      string     `json:"trace_url,omitzero"` // of a page that shows a trace, with {trace_id} in it
	At            time.Time  `json:"at"`
	Unknown       int        `json:"unknown"`                 // all of them: the next three add up to it
	Dead          int        `json:"dead_letters"`            // that are not snoozed
	Snoozed       int        `json:"snoozed"`                 // dead letters, too
	Waiting       int        `json:"waiting"`                 // for a probe, or for people
	Unread        bool       `json:"unread,omitzero"`         // they could not be read, or listed, or are not read yet: the counts say nothing
	ReadAt        time.Time  `json:"read_at,omitzero"`        // when they, the incidents and the outbox were read
	More          bool       `json:"more,omitzero"`           // the counts are of the latest records, and lower bounds
	Double        []Entry    `json:"double_effects"`          // keys that had their effect twice, and that no person has noted since: at most 100, the last first
	Unstored      *Unstored  `json:"unstored,omitzero"`       // nil: the store has what this process knows
	OldestUnknown time.Time  `json:"oldest_unknown,omitzero"` // of those that are waiting: since when it is unknown
	OutboxDead    *int       `json:"outbox_dead,omitzero"`    // nil: there is no outbox, or it was not read
	OutboxUnread  bool       `json:"outbox_unread,omitzero"`  // there is one, and it could not be read
	Incidents     []Incident `json:"incidents"`               // the 20 most pressing, without their keys
	Ended         []Ended    `json:"ended"`                   // what was unknown lately and is not any more: 5 groups at most, the last first
	Store         Health     `json:"store"`
	Cache         *Health    `json:"cache,omitzero"`
	Upstream      *Health    `json:"upstream,omitzero"` // of the process that answers: whether its API can be connected to; nil: no request has found it out
	Gateways      []Gateway  `json:"gateways"`
	Requests      Results    `json:"requests"`                // of all gateways, since they began; those that ended a day ago are left out
	RequestsSince time.Time  `json:"requests_since,omitzero"` // when the first of these gateways began
	Warnings      []Warning  `json:"warnings"`
}

// Unstored is what the process that answers knows, and its store has not taken yet: results and
// doubts, and the memory that they take. They are lost if it is killed.
type Unstored struct {
	Entries int   `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// Health is how a part answers.
type Health struct {
	Name  string  `json:"name"`
	OK    bool    `json:"ok"`
	Why   string  `json:"why,omitzero"` // what is wrong
	P50MS float64 `json:"p50_ms,omitzero"`
	P99MS float64 `json:"p99_ms,omitzero"`
}

// Gateway is a process that works on the same store.
type Gateway struct {
	Name      string    `json:"name"`
	Version   string    `json:"version,omitzero"`
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
	State     string    `json:"state"`            // ready, draining, ended, or gone: no sign of life
	PerSecond float64   `json:"per_second"`       // between its last two signs of life
	Partial   bool      `json:"partial,omitzero"` // some of its figures are missing: there were too many to publish, or they cannot be read
	Unheard   bool      `json:"unheard,omitzero"` // of the process that answers: the others do not know of it, as 64 are known already or the store took no record
}

// Warning is a setting or a state that should be looked at.
type Warning struct {
	Code string `json:"code"` // for stet explain
	Text string `json:"text"`
	Mend string `json:"mend"`
}

// RouteFigures is a route's rules in short, and what its requests were told since the gateways
// began. A route without a Mode is not in the configuration of the gateway that was asked.
type RouteFigures struct {
	Route       string  `json:"route"`
	Match       string  `json:"match,omitzero"` // "": requests that no other route matches
	Mode        string  `json:"mode,omitzero"`
	Results     Results `json:"results"`
	Shadow      Results `json:"shadow,omitzero"` // what requests would have been told outside shadow mode; unseen: that is not known
	Unprotected int     `json:"unprotected"`     // requests that may change state and ran without a key, or without the store
	Mismatches  int     `json:"mismatches"`
}

// Figures is what the processes on one store have counted.
type Figures struct {
	At       time.Time // by the store's clock
	Since    time.Time // when the first of the processes began; zero: there is none
	Gateways []Gateway
	Results  Results // of all requests
	Routes   []RouteFigures
}

// Results counts requests by what they were told, in the words of idem_requests_total.
type Results map[string]int

// Requests is how many there were.
func (r Results) Requests() (n int) {
	for _, count := range r {
		n += count
	}
	return n
}

// Duplicates is how many requests did not run because another one with their key had: those that
// were given its answer. Who is told to wait asks again and again about one request, and is not
// counted.
func (r Results) Duplicates() int { return r["replay"] }

// Overview says what needs a person, and how the parts are. Callers who are bound to scopes are told
// what is of those: no gateways, no requests, and no warnings, which are of all. Where ctx ends
// before the unknown records are read, they are as they were read last, and Unread if they were
// not. It takes a viewer.
func (d *Desk) Overview(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	c, all := &d.conf, !d.caller.Bound()
	s := Status{Title: c.Title, TraceURL: c.TraceURL, At: time.Now().UTC(), Double: []Entry{}, Incidents: []Incident{}, Ended: []Ended{}, Gateways: []Gateway{},
		Requests: Results{}, Warnings: []Warning{}}
	s.Store, s.Cache = d.health(ctx)
	if err := d.attention(ctx, &s); err != nil {
		s.OutboxUnread = c.Outbox != nil // they are read together
		if s.Unread = true; s.Store.OK && err != unlisted && err != notRead {
			return s, err
		}
	}
	if n, bytes := d.engine.Unstored(); n > 0 && all {
		s.Unstored = &Unstored{n, bytes}
	}
	if c.Upstream != nil && all {
		s.Upstream = c.Upstream()
	}
	if c.Figures != nil {
		f := c.Figures(ctx)
		if s.At = f.At; all {
			s.Gateways, s.RequestsSince = some(f.Gateways), f.Since
			if f.Results != nil {
				s.Requests = f.Results
			}
		}
	}
	if c.Warnings != nil && all {
		s.Warnings = some(c.Warnings())
	}
	if all && s.Store.OK {
		s.Warnings = append(s.Warnings, d.neglected(ctx)...)
	}
	return s, nil
}

// neglected warns of records that no loop has ended; not of those that cannot be read, which the
// rest of the status says.
func (s *service) neglected(ctx context.Context) []Warning {
	h, neglected, err := s.engine.Operator().Neglected(ctx)
	if err != nil || !neglected {
		return nil
	}
	what := "a result whose retention has been over for %s is still there"
	if h.State == stet.Running {
		what = "a run whose lease has been over for %s is still shown as running"
	}
	return []Warning{{Code: "neglected", Text: fmt.Sprintf(what+": no process seems to sweep and reap this store", age.Long(h.AsOf.Sub(h.DueAt))),
		Mend: "Start a gateway on this store, or have the service run maintenance.Background."}}
}

// some is a list as JSON has it: empty and not null.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// health says how the store answers, and the cache. Without a gateway's own measurements the store
// is asked once.
func (s *service) health(ctx context.Context) (Health, *Health) {
	if s.conf.Health != nil {
		return s.conf.Health()
	}
	began := stopwatch.Start(true)
	err := s.Ask(ctx)
	took := stopwatch.Since(began)
	switch {
	case ctx.Err() != nil:
		return Health{Name: "store", Why: "it has not answered yet"}, nil
	case err != nil:
		return Health{Name: "store", Why: "it does not answer"}, nil
	}
	return Health{Name: "store", OK: true, P50MS: millis(took), P99MS: millis(took)}, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// maxDead is how many messages are looked at for a token that is bound to scopes.
const maxDead = 10_000

// outboxDead is how many messages wait for a person; nil if there is no outbox. With more there may
// be further ones.
func (d *view) outboxDead(ctx context.Context) (dead *int, more bool, err error) {
	if d.conf.Outbox == nil {
		return nil, false, nil
	}
	n := 0
	if !d.caller.Bound() {
		counts, err := d.conf.Outbox.Counts(ctx)
		n = int(counts[outbox.Dead] + counts[outbox.Unknown])
		return &n, false, err
	}
	q := outbox.Query{Dead: true, Limit: stet.MaxLimit}
	for range maxDead / q.Limit {
		page, err := d.conf.Outbox.List(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for i := range page {
			if d.caller.Allows(page[i].Record.Scope) {
				n++
			}
		}
		if len(page) < q.Limit {
			return &n, false, nil
		}
		q.After = page[len(page)-1].ID
	}
	return &n, true, nil
}

// attention says what needs a person, as far as the store can list its records.
func (d *view) attention(ctx context.Context, s *Status) error {
	all, err := d.unknowns(ctx, IncidentQuery{})
	if err != nil {
		return err
	}
	s.Unknown, s.Dead, s.Snoozed, s.Waiting, s.OldestUnknown = all.Unknown, all.Dead, all.Snoozed, all.Waiting, all.Oldest
	s.OutboxDead, s.OutboxUnread, s.More = all.OutboxDead, all.OutboxUnread, all.More || all.OutboxMore
	s.ReadAt = all.At.UTC()
	s.Double, s.Incidents, s.Ended = some(all.Double), some(all.Incidents), some(all.Ended)
	s.Incidents = s.Incidents[:min(len(s.Incidents), maxIncidents)]
	return nil
}

// maxIncidents is how many incidents a status has.
const maxIncidents = 20
