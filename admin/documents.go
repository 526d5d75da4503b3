package admin

import (
	"slices"
	"time"
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
	Why  string `json:"why"` // in a sentence
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

// Incident is a group of unknown records with the same cause and route that became unknown in the
// same minute, or whose leases ended because one process was killed.
type Incident struct {
	ID        string         `json:"incident"` // for its address; it stays the same while the incident lasts
	Cause     string         `json:"cause"`
	Route     string         `json:"route,omitzero"`
	Method    string         `json:"method,omitzero"`
	Owner     string         `json:"owner,omitzero"` // the process that ran them, if it is the same of all
	Since     time.Time      `json:"since"`          // when the first became unknown
	Count     int            `json:"count"`
	Dead      int            `json:"dead_letters,omitzero"` // that are not snoozed
	Snoozed   int            `json:"snoozed,omitzero"`
	Late      int            `json:"late_answers,omitzero"`
	Asking    Asking         `json:"asking,omitzero"`     // of all its records
	Probes    map[string]int `json:"probes,omitzero"`     // records by [ProbeAnswer].Found of their last probe
	SettledAt time.Time      `json:"settled_at,omitzero"` // of the last of them; zero where no time settles one of them
	NextProbe time.Time      `json:"next_probe,omitzero"` // the earliest of theirs, as is FreesAt: see [Outlook]
	FreesAt   time.Time      `json:"frees_at,omitzero"`
	With      []string       `json:"with,omitzero"` // to whom they were handed
	More      bool           `json:"more,omitzero"` // Count is a lower bound
	Keys      []Record       `json:"keys,omitzero"` // of GET /api/v1/incidents/{incident}: at most ?keys=, those that tell most first

	untimed bool // no time settles one of its records
}

// Add takes what a record says of its own: its late answer, the clients that ask about it, its last
// probe, whom it was handed to, and when it settles, is asked about and is freed.
func (in *Incident) Add(r *Record) {
	if r.Late != nil {
		in.Late++
	}
	if a := r.Asking; a != nil {
		in.Asking.Count, in.Asking.More = in.Asking.Count+a.Count, in.Asking.More || a.More
		if a.LastAt.After(in.Asking.LastAt) {
			in.Asking.LastAt = a.LastAt
		}
	}
	if in.Probes == nil {
		in.Probes = map[string]int{}
	}
	if r.Probe != nil {
		in.Probes[r.Probe.Found]++
	}
	if r.With != nil && !slices.Contains(in.With, r.With.To) {
		in.With = append(in.With, r.With.To)
	}
	switch at := r.Outlook.SettledAt; {
	case at.IsZero():
		in.untimed = true
	case at.After(in.SettledAt):
		in.SettledAt = at
	}
	in.NextProbe = earliest(in.NextProbe, r.Outlook.NextProbe)
	in.FreesAt = earliest(in.FreesAt, r.Outlook.FreesAt)
}

// earliest is the first of two instants, of which a zero one is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Status is the answer of GET /api/v1/status: what needs a person, and how the parts are.
type Status struct {
	Title         string     `json:"title,omitzero"`     // which installation this is
	TraceURL      string     `json:"trace_url,omitzero"` // of a page that shows a trace, with {trace_id} in it
	At            time.Time  `json:"at"`
	Unknown       int        `json:"unknown"`                 // all of them: the next three add up to it
	Dead          int        `json:"dead_letters"`            // that are not snoozed
	Snoozed       int        `json:"snoozed"`                 // dead letters, too
	Waiting       int        `json:"waiting"`                 // for a probe, or for people
	Unread        bool       `json:"unread,omitzero"`         // they could not be read, or listed: the counts say nothing
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
	Gateways      []Gateway  `json:"gateways"`
	Series        []Series   `json:"series"` // one for each result there was, of all gateways: of the last hour, or with ?span=day of a day
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
	State     string    `json:"state"` // ready, draining, ended, or gone: no sign of life
	PerSecond float64   `json:"per_second"`
	Partial   bool      `json:"partial,omitzero"` // some of its figures are missing: there were too many to publish, or they cannot be read
}

// Series is how many requests a second had a result, in equal steps up to Until.
type Series struct {
	Result    string    `json:"result"`
	Until     time.Time `json:"until"`
	Step      float64   `json:"step_s"`
	PerSecond []float64 `json:"per_second"`
}

// Warning is a setting or a state that should be looked at.
type Warning struct {
	Code string `json:"code"` // for stet explain
	Text string `json:"text"`
	Mend string `json:"mend"`
}

// RouteFigures is a route's rules in short, and what its requests were told since its gateways
// began, at most a day ago. A route without a Mode is not in the configuration of the gateway that
// was asked.
type RouteFigures struct {
	Route       string  `json:"route"`
	Match       string  `json:"match,omitzero"` // "": requests that no other route matches
	Mode        string  `json:"mode,omitzero"`
	Results     Results `json:"results"`
	Shadow      Results `json:"shadow,omitzero"` // what requests would have been told outside shadow mode; unseen: that is not known
	Unprotected int     `json:"unprotected"`     // requests that may change state and ran without a key, or without the store
	Mismatches  int     `json:"mismatches"`
}

// Setting is a line of the effective configuration.
type Setting struct {
	Path    string `json:"path"`
	Value   string `json:"value"` // masked where it is secret
	Origin  string `json:"origin"`
	Doc     string `json:"doc,omitzero"`
	Unit    string `json:"unit,omitzero"`
	Pending string `json:"pending,omitzero"` // what the file says now, where that takes a restart
}

// Found is what a search found: see GET /api/v1/find.
type Found struct {
	By  string `json:"by"` // key, id, trace, downstream-key, provider-id
	Key Record `json:"record"`
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

// Duplicates is how many requests did not run because another one with their key had run, was
// running, or may have had its effect.
func (r Results) Duplicates() int { return r["replay"] + r["in_progress"] + r["unknown"] }

// Sum counts the requests of all series since an instant, by whole steps.
func Sum(all []Series, since time.Time) Results {
	r := Results{}
	for i := range all {
		if n := all[i].since(since); n > 0 {
			r[all[i].Result] += n
		}
	}
	return r
}

func (s *Series) since(since time.Time) int {
	n, end := 0.0, s.Until
	for _, rate := range slices.Backward(s.PerSecond) {
		if !end.After(since) {
			break
		}
		n, end = n+rate*s.Step, end.Add(-time.Duration(s.Step*float64(time.Second)))
	}
	return int(n + .5)
}
