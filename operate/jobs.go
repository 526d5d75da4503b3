package operate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/members"
	"github.com/stet-dev/stet/internal/walk"
)

// Action is what a job does with each record: what the method of a [Desk] does with one.
type Action string

// The actions.
const (
	ActRelease Action = "release" // says that nothing happened, of what a probe has looked for
	ActResolve Action = "resolve" // gives the answer that is known: a late one, or what the last probe found
	ActProbe   Action = "probe"
	ActSnooze  Action = "snooze"
	ActHand    Action = "hand"
	ActDelete  Action = "delete"
	ActExtend  Action = "extend"
)

// Actions are all of them.
var Actions = []Action{ActRelease, ActResolve, ActProbe, ActSnooze, ActHand, ActDelete, ActExtend}

// ofUnknown reports whether the action is done to unknown records alone.
func (a Action) ofUnknown() bool { return a != ActDelete && a != ActExtend }

// Selection is what a job would do, to which records.
type Selection struct {
	Action Action `json:"action"`
	// Filter selects records. One that selects everything is refused. Without a state, an action
	// that is done to unknown records selects those.
	Filter Parameters `json:"filter,omitempty"`
	// Incident selects the records of an incident, in place of a filter.
	Incident string `json:"incident,omitzero"`
	// IDs are the records, in place of a filter: k_…, or k_…@BASIS for one that is changed only
	// while it has that [Record].Basis.
	IDs []string `json:"ids,omitempty"`
}

// Parameters are those of a list, by their names, such as {"state": "unknown"}. They are a [Filter]
// with its key in the clear.
type Parameters map[string]any

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Parameters) UnmarshalJSON(doc []byte) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	if d.UseNumber(); d.Decode((*map[string]any)(p)) != nil {
		return errors.New(`it has to be an object of the parameters of a list, such as {"state":"unknown"}`)
	}
	return nil
}

// filter is what they select. Those of a page say nothing of a record, and a downstream name is what
// a store only finds by itself.
func (p Parameters) filter() (f Filter, err error) {
	values := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		text := fmt.Sprint(p[name])
		switch v := p[name].(type) {
		case bool:
			if !v {
				text = ""
			}
		case string, json.Number, float64:
		default:
			text = ""
		}
		switch {
		case slices.Contains([]string{"cursor", "limit", "sort", "downstream"}, name):
			return f, BadParameter("filter", name+" does not select records for a job: leave it out")
		case text == "":
			return f, BadParameter("filter", name+": it is text, a number, or true")
		}
		values.Set(name, text)
	}
	err = members.Query(values, &f)
	if bad, ok := errors.AsType[*members.Error](err); ok {
		return f, BadParameter("filter", bad.Member+": "+bad.Problem)
	}
	if _, err = f.query(); err != nil {
		return f, BadParameter("filter", ProblemOf(err).Detail)
	}
	return f, nil
}

// Order is what a job is to do, to which records, and why.
type Order struct {
	Selection
	Expect   int       `json:"expect"`           // how many match, as counted
	Limit    int       `json:"limit,omitzero"`   // the most records that are changed, in the store's order
	Seconds  float64   `json:"seconds,omitzero"` // of extend: from now
	Until    time.Time `json:"until,omitzero"`   // of snooze
	To       string    `json:"to,omitzero"`      // of hand
	Note     string    `json:"note,omitzero"`    // of hand: in place of reason
	Reason   string    `json:"reason,omitzero"`  // which hand needs not
	Evidence string    `json:"evidence,omitzero"`
	Now      bool      `json:"now,omitzero"`
	Override bool      `json:"override,omitzero"`
}

// takes is the role that a job takes: an admin's where each of these takes one for one record.
func takes(a Action, now, override bool) Role {
	if a == ActDelete || now || override {
		return Admin
	}
	return Operator
}

// check says what is wrong with an order, and fills in what hand needs not say.
func (o *Order) check() error {
	o.To = strings.TrimSpace(o.To)
	if o.Action == ActHand && o.To != "" {
		o.Reason = cmp.Or(o.Reason, o.Note, "handed to "+o.To)
	}
	_, wrong := seconds("seconds", o.Seconds)
	ahead := time.Until(o.Until)
	switch {
	case o.Note != "" && o.Action != ActHand:
		return BadParameter("note", "only hand takes it, in place of reason")
	case strings.TrimSpace(o.Reason) == "":
		return reasonRequired
	case o.Expect <= 0:
		return BadParameter("expect", "say how many records match, as you have seen it: POST /api/v1/bulk/count counts them")
	case o.Limit < 0:
		return BadParameter("limit", "it is the most records that are changed; leave it out for all that match")
	case o.Limit > 0 && len(o.Filter) == 0:
		return BadParameter("limit", "it is for a filter; name fewer ids instead")
	case wrong != nil:
		return wrong
	case o.Action == ActExtend && o.Seconds < 1:
		return BadParameter("seconds", "say for how long the results are to be kept from now, at least 1")
	case o.Action != ActExtend && o.Seconds != 0:
		return BadParameter("seconds", "only extend takes it")
	case (o.Action == ActSnooze) == o.Until.IsZero():
		return BadParameter("until", "it is until when records are snoozed; snooze needs it, and nothing else takes it")
	case o.Action == ActSnooze && (ahead <= 0 || ahead > stet.MaxSnooze):
		return BadParameter("until", fmt.Sprintf("it is an instant ahead, at most %d hours from now", stet.MaxSnooze/time.Hour))
	case (o.Action == ActHand) == (o.To == ""):
		return BadParameter("to", "it is whom records are handed to; hand needs it, and nothing else takes it")
	case o.Action != ActRelease && o.Now:
		return BadParameter("now", "only release takes it")
	case o.Action != ActRelease && o.Override:
		return BadParameter("override", "only release takes it")
	}
	return cmp.Or(remark("to", o.To, maxName), remark("reason", o.Reason, maxRemark))
}

// Count is how many records a job would be about, and which.
type Count struct {
	Matching int            `json:"matching"`
	States   map[string]int `json:"states"`
	Oldest   time.Time      `json:"oldest,omitzero"`
	// More says that further ones match: a job is about the first [MaxRecords].
	More bool `json:"more,omitzero"`
}

// MaxRecords is how many records a job is about at most. They are read when it is started.
const MaxRecords = 10_000

// target is a record that a job is to change, at the basis that it was chosen at.
type target struct {
	Name
	tag, basis string
}

// chosen are the records of a job.
type chosen struct {
	Count
	targets []target
	filter  Filter
}

func (c *chosen) add(r *Record, id stet.ID) {
	c.targets = append(c.targets, target{Name{r.Scope, r.ID, id}, r.ID, r.Basis})
	c.Matching++
	c.States[r.State]++
	if c.Oldest.IsZero() || r.CreatedAt.Before(c.Oldest) {
		c.Oldest = r.CreatedAt
	}
}

// choose returns the records that a selection is about.
func (d *view) choose(ctx context.Context, s *Selection) (c chosen, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	c.States = map[string]int{}
	ways := 0
	for _, there := range []bool{s.Filter != nil, s.Incident != "", s.IDs != nil} {
		if there {
			ways++
		}
	}
	switch {
	case d.conf.Jobs == nil:
		return c, notFound
	case !slices.Contains(Actions, s.Action):
		return c, BadParameter("action", "it is release, resolve, probe, snooze, hand, delete or extend")
	case ways > 1:
		return c, BadParameter("ids", "ids, incident and filter each select by themselves; send one of them")
	case s.IDs != nil:
		err = d.chooseNamed(ctx, s, &c)
	case s.Incident != "":
		err = d.chooseIncident(ctx, s, &c)
	default:
		err = d.chooseFiltered(ctx, s, &c)
	}
	return c, err
}

// chooseFiltered takes the first records that a filter selects. It is the one place that decides in
// which scopes a caller may change records in bulk: the filter has to name one of the caller's.
func (d *view) chooseFiltered(ctx context.Context, s *Selection, c *chosen) error {
	f, err := s.Filter.filter()
	if err != nil {
		return err
	}
	if d.caller.only(&f.Scope); !d.caller.Allows(f.Scope) {
		return notFound
	}
	switch {
	case f == Filter{}:
		return BadParameter("filter", "it selects every record there is; name at least one of its members")
	case f.Scope == stet.OwnScope:
		return BadParameter("filter", "its scope is Stet's own, whose records are not changed in bulk")
	case s.Action.ofUnknown():
		f.State = cmp.Or(f.State, stet.Unknown.String())
	}
	c.filter = f
	q, err := f.query()
	if err != nil {
		return err
	}
	q.Limit = stet.MaxLimit
	for heads, err := range walk.Pages(func(after string) ([]stet.Head, string, error) {
		q.After = after
		return d.engine.Operator().List(ctx, q)
	}) {
		if err != nil {
			return err
		}
		for i := range heads {
			if c.More = c.Matching == MaxRecords; c.More {
				return nil
			}
			doc := d.record(&heads[i])
			c.add(&doc, heads[i].ID)
		}
	}
	return nil
}

// chooseIncident takes the records of an incident.
func (d *view) chooseIncident(ctx context.Context, s *Selection, c *chosen) error {
	if !s.Action.ofUnknown() {
		return BadParameter("action", "what an incident has is unknown: it is released, resolved, asked about, snoozed or handed over")
	}
	in, err := d.findIncident(ctx, s.Incident)
	if err == nil && ctx.Err() != nil { // it is as it was read last, on which nothing is decided
		err = notRead
	}
	if err != nil {
		return err
	}
	c.More = in.More
	for i := range in.Keys {
		c.add(&in.Keys[i], stet.ID{})
	}
	return d.oneScope(c)
}

// oneScope fills in the scope of the records, if it is one. A caller who is bound to scopes has jobs
// of one scope, which they can look at.
func (d *view) oneScope(c *chosen) error {
	for _, t := range c.targets {
		switch {
		case t.Scope == c.targets[0].Scope:
			c.filter.Scope = stet.Scope(t.Scope)
		case d.caller.Bound():
			return BadParameter("ids", "name those of one scope at a time")
		default:
			c.filter.Scope = ""
			return nil
		}
	}
	return nil
}

// chooseNamed takes the records of ids. What is not unknown is left out for an action that is done to
// unknown records, unless it was named at another basis: then the job says that it has changed.
func (d *view) chooseNamed(ctx context.Context, s *Selection, c *chosen) error {
	if n := len(s.IDs); n == 0 || n > MaxRecords {
		return BadParameter("ids", fmt.Sprintf("name 1 to %d of them, or leave it out and send a filter", MaxRecords))
	}
	found, err := d.byTags(ctx, s.IDs)
	if err != nil {
		return err
	}
	for i := range found {
		_, basis, _ := strings.Cut(s.IDs[i], "@")
		head := &found[i]
		moved := basis != "" && basis != head.Basis()
		if head.ID == (stet.ID{}) || s.Action.ofUnknown() && head.State != stet.Unknown && !moved {
			continue
		}
		doc := d.record(head)
		doc.Basis = cmp.Or(basis, doc.Basis)
		c.add(&doc, head.ID)
	}
	return d.oneScope(c)
}

// tagsAtOnce is how many ids are looked up side by side.
const tagsAtOnce = 8

// byTags finds the records of ids, each with or without the basis that it is named at. What does not
// exist, or is out of reach, has no [stet.ID].
func (d *view) byTags(ctx context.Context, ids []string) ([]stet.Head, error) {
	found, errs, seen := make([]stet.Head, len(ids)), make([]error, len(ids)), map[string]bool{}
	workers := walk.NewWorkers(tagsAtOnce)
	for i, name := range ids {
		tag, basis, pinned := strings.Cut(name, "@")
		if !isTag(tag) || seen[tag] || pinned && !isTag("k_"+basis) {
			workers.Wait()
			return nil, BadParameter("ids", "each is a record's id, k_ and 16 hex digits, with @ and the basis you have seen if it is to be changed at that one alone, and is there once")
		}
		seen[tag] = true
		asked := workers.Go(ctx, func() {
			head, err := d.engine.Operator().ByTag(ctx, tag)
			if errs[i] = err; err == nil && d.caller.Allows(head.Scope) && head.Scope != stet.OwnScope {
				found[i] = head
			}
		})
		if !asked {
			errs[i] = unavailable
		}
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, stet.ErrNotFound) {
			return nil, err
		}
	}
	return found, nil
}

// Preview counts what a job would be about. It takes what the job takes.
func (d *Desk) Preview(ctx context.Context, s Selection) (Count, error) {
	if err := d.caller.Takes(takes(s.Action, false, false)); err != nil {
		return Count{}, err
	}
	c, err := d.choose(ctx, &s)
	return c.Count, err
}

// Started is a job that was started.
type Started struct {
	Job string `json:"job"`
}

// Start starts a job: the records that match now are changed, and no others. If another number
// matches than is expected, nothing is. It takes what the same change of one record takes.
func (d *Desk) Start(ctx context.Context, o Order) (Started, error) {
	if err := cmp.Or(d.caller.Takes(takes(o.Action, o.Now, o.Override)), o.check()); err != nil {
		return Started{}, err
	}
	if o.Action == ActProbe && d.conf.Reconciler == nil {
		return Started{}, BadParameter("action", "no probe is configured: set reconcile.probe.url to where the upstream says what it has done")
	}
	c, err := d.choose(ctx, &o.Selection)
	switch {
	case err != nil:
		return Started{}, err
	case c.Matching != o.Expect:
		return Started{}, &Problem{Status: 409, Code: "expect-mismatch", Title: "Another number of records matches",
			Detail: fmt.Sprintf("%d were expected, and %d match. Nothing was changed: look again, and send the number that matches.",
				o.Expect, c.Matching), Expect: &o.Expect, Matching: &c.Matching}
	case o.Limit > 0:
		c.targets = c.targets[:min(o.Limit, len(c.targets))]
	}
	id, err := d.conf.Jobs.start(ctx, d, &o, &c)
	return Started{id}, err
}
