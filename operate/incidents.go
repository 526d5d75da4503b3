package operate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/reconcile"
)

// The bounds of what incidents are made of.
const (
	maxUnknown   = 5000 // the latest unknown records that are grouped
	unknownPages = 50   // pages of the store that are read for them, also where most are of other scopes
	endedPages   = 10   // pages of the history, of which all but the last are empty
	maxKeys      = 500  // records of one incident that are shown
	maxCounted   = 100_000
	oldestLooked = 100 // the oldest unknown records, among which the oldest that waits is found where there are too many
)

// Incident is a group of unknown records with the same cause and route, and of one process where
// their leases ended, each of which became unknown within 5 minutes of the one before it. Its ID is
// another one once the first of them is settled: see [Desk.Incident].
type Incident struct {
	ID        string         `json:"incident"` // for its address
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

	untimed bool     // no time settles one of its records
	records []Record // oldest first
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
		slices.Sort(in.With)
	}
	switch at := r.Outlook.SettledAt; {
	case at.IsZero() || in.untimed:
		in.SettledAt, in.untimed = time.Time{}, true
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

// tally is what the unknown records that a caller may see amount to.
type tally struct {
	At time.Time // when the reading began
	reconcile.Tally
	Unknown   int
	More      bool // there are further ones: all but Unknown and Oldest is of the latest
	Incidents []Incident
	Ended     []Ended // lately, the last first
	Double    []Entry // that no person has noted, the last first; of no route and no person alone

	OutboxDead   *int // as in [Status], of no route and no person alone
	OutboxMore   bool // OutboxDead is a lower bound
	OutboxUnread bool
}

// IncidentQuery selects incidents. A zero field selects all.
type IncidentQuery struct {
	Scope stet.Scope `json:"scope,omitzero"`
	Route string     `json:"route,omitzero"`
	With  string     `json:"with,omitzero"` // to whom records were handed
}

// IncidentList is the incidents there are, the most pressing first. With More there may be further
// ones.
type IncidentList struct {
	Incidents []Incident `json:"incidents"`
	More      bool       `json:"more"`
	ReadAt    time.Time  `json:"read_at,omitzero"` // as in [Status]
}

// Incidents lists the groups of unknown records, without the records. Where ctx ends before they are
// read, they are as they were read last. It takes a viewer.
func (d *Desk) Incidents(ctx context.Context, q IncidentQuery) (IncidentList, error) {
	all, err := d.unknowns(ctx, q)
	return IncidentList{all.Incidents, all.More, all.At.UTC()}, err
}

// Shown is how much of an incident is shown.
type Shown struct {
	Keys int `json:"keys,omitzero"` // its records at most, those that tell most first; 0 means 500, the most
}

// Incident shows a group with its records. It takes a viewer. The answer has the group's present id.
// One that it had before its first record was settled is as good, as long as a record is unknown
// that became so within 5 minutes of that one.
func (d *Desk) Incident(ctx context.Context, id string, s Shown) (Incident, error) {
	if err := upTo("keys", maxKeys, s.Keys); err != nil {
		return Incident{}, err
	}
	in, err := d.findIncident(ctx, id)
	in.Keys = in.Keys[:min(len(in.Keys), cmp.Or(s.Keys, maxKeys))]
	return in, err
}

// findIncident returns a group with all its records, those that tell most first.
func (d *view) findIncident(ctx context.Context, id string) (in Incident, err error) {
	all, err := d.unknowns(ctx, IncidentQuery{})
	if err != nil {
		return in, err
	}
	if found := all.incident(id); found != nil {
		in = *found
		in.Keys = slices.SortedFunc(slices.Values(in.records), func(a, b Record) int {
			return cmp.Or(cmp.Compare(tells(&a), tells(&b)), a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
		})
		return in, nil
	}
	if all.More {
		return in, notListed
	}
	return in, notFound
}

// incident finds the one that has an id, or had it: the instant in the id is of the time of its
// records, or within the gap of it. Of several it is the nearest.
func (all *tally) incident(id string) (found *Incident) {
	seconds, _ := strconv.ParseInt(id[min(len(id), kindLen):], 16, 64) // else 0, which is no time of a record
	at, near := time.Unix(seconds, 0), incidentGap+time.Second         // an id leaves out parts of a second
	for i := range all.Incidents {
		in := &all.Incidents[i]
		last := in.records[len(in.records)-1].UnknownSince
		if away := max(in.Since.Sub(at), at.Sub(last), 0); in.Alike(id) && away < near {
			found, near = in, away
		}
	}
	return found
}

// notListed is the answer about an incident that may be there.
var notListed = &Problem{Status: 404, Code: "not-listed", Title: "This incident is not among those that were looked at",
	Detail: fmt.Sprintf("The latest %d unknown records are grouped into incidents, and there are more: it may be among the others, or have ended. Find its keys by their cause and route.", maxUnknown)}

// tells orders records by how much they tell of what happened, most first.
func tells(r *Record) int {
	switch {
	case r.Late != nil:
		return 0
	case r.Probe == nil:
		return 3
	case r.Probe.Found == reconcile.Missing.String():
		return 4
	case r.Probe.Found == reconcile.Silent:
		return 2
	}
	return 1
}

// groupUnknown groups the latest unknown records that the caller may see into incidents, the most
// pressing first.
func (d *view) groupUnknown(ctx context.Context, f IncidentQuery) (all tally, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	heads, err := d.latestUnknown(ctx, f, &all)
	if err != nil {
		return all, err
	}
	all.Unknown = len(heads)
	all.Ended = d.lately(ctx, f.Scope)
	all.group(documents(heads, func(head *stet.Head) Record {
		all.Add(head)
		return d.detailed(ctx, head)
	}))
	if all.Double, err = d.doubleEffects(ctx, &f); err != nil {
		return all, err
	}
	if f.Route == "" && f.With == "" {
		if all.OutboxDead, all.OutboxMore, err = d.outboxDead(ctx); err != nil { // the records themselves were read
			d.log.LogAttrs(ctx, slog.LevelWarn, "the status is without the outbox, which could not be read", slog.String("error", err.Error()))
			all.OutboxDead, all.OutboxUnread = nil, true
		}
	}
	if all.More {
		if all.Unknown, all.Oldest, err = d.beyond(ctx, f, &all); err != nil {
			return all, err
		}
	}
	return all, nil
}

// pressing orders incidents: those that wait for people first, then by the clients that ask, by how
// many records there are, and by age.
func pressing(a, b Incident) int {
	waiting := func(in *Incident) int {
		if in.Snoozed >= in.Count {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(waiting(&a), waiting(&b)), cmp.Compare(b.Asking.Count, a.Asking.Count), cmp.Compare(b.Count, a.Count),
		a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
}

// latestUnknown lists them, and says in all whether there are more.
func (d *view) latestUnknown(ctx context.Context, f IncidentQuery, all *tally) (heads []stet.Head, err error) {
	q := stet.Query{States: []stet.State{stet.Unknown}, Scope: f.Scope, Route: f.Route, Limit: stet.MaxLimit}
	for pages := 1; ; pages++ {
		page, next, err := d.engine.Operator().List(ctx, q)
		switch {
		case errors.Is(err, stet.ErrUnsupported):
			return nil, unlisted
		case err != nil:
			return nil, unavailable
		}
		heads = append(heads, slices.DeleteFunc(page, func(head stet.Head) bool { return !d.selects(&f, &head) })...)
		if q.After = next; next == "" {
			return heads, nil
		}
		if len(heads) >= maxUnknown || pages >= unknownPages {
			all.More = true
			return heads, nil
		}
	}
}

func (d *view) selects(f *IncidentQuery, head *stet.Head) bool {
	to, _ := head.Handover()
	return d.caller.Allows(head.Scope) && (f.With == "" || f.With == to.To)
}

// maxDouble is how many double effects a status has.
const maxDouble = 100

// doubleEffects are those that no person has noted, as far as the filter and the caller see them.
func (d *view) doubleEffects(ctx context.Context, f *IncidentQuery) ([]Entry, error) {
	if f.Route != "" || f.With != "" {
		return nil, nil
	}
	open, err := d.engine.Operator().DoubleEffects(ctx, maxDouble)
	switch {
	case errors.Is(err, stet.ErrUnsupported): // they are told by log and metric alone
		return nil, nil
	case err != nil:
		return nil, unavailable
	}
	open = slices.DeleteFunc(open, func(c stet.Change) bool {
		return !d.caller.Allows(c.ID.Scope) || f.Scope != "" && f.Scope != c.ID.Scope
	})
	return documents(open, d.entry), nil
}

// beyond says of more records than are grouped how many there are, as far as a count may tell, and
// since when the oldest waits.
func (d *view) beyond(ctx context.Context, f IncidentQuery, all *tally) (n int, oldest time.Time, err error) {
	q := stet.Query{States: []stet.State{stet.Unknown}, Scope: f.Scope, Route: f.Route, Limit: oldestLooked, Oldest: true}
	page, _, err := d.engine.Operator().List(ctx, q)
	if err != nil {
		return 0, oldest, unavailable
	}
	few := reconcile.Tally{Oldest: all.Oldest}
	for i := range page {
		if d.selects(&f, &page[i]) {
			few.Add(&page[i])
		}
	}
	if n = all.Unknown; f.With == "" && (!d.caller.Bound() || f.Scope != "") {
		q.Limit = maxCounted
		if counted, err := d.engine.Operator().Count(ctx, q); err == nil { // else it is a lower bound
			n = max(n, counted)
		}
	}
	return n, few.Oldest, nil
}

// causeLapsed is that of records whose leases ended: their process was killed, or stood still.
// Where it is proven that it was killed, that is [stet.CauseHolderGone].
const causeLapsed = "lease-lapsed"

// incidentGap is how long an incident may go without another record. The records of one outage come
// with the requests, and with the leases of one killed process, which end over ten seconds by
// default; what fails minutes after the last is more likely another outage, or another process of
// the same name, as a container's has after each start.
const incidentGap = 5 * time.Minute

// group makes the incidents of unknown records.
func (all *tally) group(records []Record) {
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(strings.Compare(a.kind(), b.kind()), a.UnknownSince.Compare(b.UnknownSince))
	})
	all.Incidents = []Incident{}
	for i := range records {
		r := &records[i]
		if i == 0 || r.kind() != records[i-1].kind() || r.UnknownSince.Sub(records[i-1].UnknownSince) > incidentGap {
			kind := sha256.Sum256([]byte(r.kind()))
			all.Incidents = append(all.Incidents, Incident{ID: fmt.Sprintf("i_%x%08x", kind[:4], r.UnknownSince.Unix()), Cause: r.Cause,
				Route: r.Route, Method: r.Method, Owner: r.Owner, Since: r.UnknownSince, More: all.More})
		}
		all.Incidents[len(all.Incidents)-1].join(r)
	}
	slices.SortFunc(all.Incidents, pressing)
}

// kind is what the records of an incident have in common.
func (r *Record) kind() string {
	if r.Cause == causeLapsed || r.Cause == stet.CauseHolderGone {
		return r.Cause + "\x00" + r.Route + "\x00" + r.Owner
	}
	return r.Cause + "\x00" + r.Route
}

// join adds the record that became unknown after those that the incident has.
func (in *Incident) join(r *Record) {
	in.Add(r)
	in.Count, in.records = in.Count+1, append(in.records, *r)
	if in.Method != r.Method {
		in.Method = ""
	}
	if in.Owner != r.Owner {
		in.Owner = ""
	}
	switch { // each counts once, as in a [reconcile.Tally]
	case r.Snooze != nil:
		in.Snoozed++
	case r.Escalated:
		in.Dead++
	}
}

// kindLen is how much of an incident's id is of the kind of its records; the rest is an instant.
const kindLen = len("i_") + 8

// Alike reports whether an id is that of an incident of the same cause, route and process: of this
// one, also as it was before its first records were settled, or of one before or after it.
func (in *Incident) Alike(id string) bool {
	return id == in.ID || len(id) >= kindLen && strings.HasPrefix(in.ID, id[:kindLen])
}

// lately are the records that are not unknown any more, among the latest entries of the history.
func (d *view) lately(ctx context.Context, scope stet.Scope) []Ended {
	q := stet.HistoryQuery{Scope: scope, Limit: stet.MaxLimit}
	for range endedPages {
		changes, next, err := d.engine.Operator().History(ctx, q)
		if err != nil && !errors.Is(err, stet.ErrUnsupported) { // the records themselves were read
			d.log.LogAttrs(ctx, slog.LevelWarn, "incidents are shown without what has ended lately: the history could not be read",
				slog.String("error", err.Error()))
		}
		if q.After = next; len(changes) > 0 || next == "" {
			return some(d.ended(changes))
		}
	}
	return []Ended{}
}

// maxEnded is how many groups a status has of records that are not unknown any more. They are found
// among the entries of one page of the history.
const maxEnded = 5

// Ended is a group of records that came from unknown to the same state by the same hand in the same
// minute.
type Ended struct {
	At     time.Time `json:"at"` // of the last of them
	Count  int       `json:"count"`
	To     string    `json:"to"`
	Action string    `json:"action"` // see [stet.Change.Action]
	Who    string    `json:"who"`
	Reason string    `json:"reason,omitzero"` // if it is the same of all
	ID     string    `json:"id,omitzero"`     // of the record, if it is a single one
}

// ended groups the entries, newest first, that brought an outcome of what the caller may see.
func (d *view) ended(changes []stet.Change) (all []Ended) {
	for i := range changes {
		c := &changes[i]
		if c.From != stet.Unknown || c.To == stet.Unknown || !d.caller.Allows(c.ID.Scope) {
			continue
		}
		e := d.entry(c)
		if n := len(all); n > 0 {
			last := &all[n-1]
			if last.To == e.To && last.Action == e.Action && last.Who == e.Who && last.At.Sub(e.At) < time.Minute {
				if last.Count, last.ID = last.Count+1, ""; last.Reason != e.Reason {
					last.Reason = ""
				}
				continue
			}
		}
		if len(all) == maxEnded {
			break
		}
		all = append(all, Ended{At: e.At, Count: 1, To: e.To, Action: e.Action, Who: e.Who, Reason: e.Reason, ID: e.ID})
	}
	return all
}
