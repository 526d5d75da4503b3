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
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/internal/members"
	"github.com/stet-dev/stet/internal/walk"
)

// Job is a bulk job as the API shows it.
type Job struct {
	Job         string         `json:"job"`
	Action      bulk.Action    `json:"action"`
	Filter      Filter         `json:"filter"`
	State       bulk.State     `json:"state"`
	Total       int            `json:"total"`
	Done        int            `json:"done"`
	Failed      int            `json:"failed"`
	Left        int            `json:"left"`   // of a completed job: what was left as it is, each for a reason
	Errors      []bulk.Failure `json:"errors"` // the first 20 that failed or were left; GET …/report has the others
	Limit       int            `json:"limit,omitzero"`
	Seconds     float64        `json:"seconds,omitzero"`
	Until       time.Time      `json:"until,omitzero"` // of snooze
	To          string         `json:"to,omitzero"`    // of hand
	Who         string         `json:"who"`
	Reason      string         `json:"reason"`
	Evidence    string         `json:"evidence,omitzero"`
	CreatedAt   time.Time      `json:"created_at"`
	UpdatedAt   time.Time      `json:"updated_at"`
	CompletedAt time.Time      `json:"completed_at,omitzero"`
}

// maxShown is how many of a job's failures are shown with it.
const maxShown = 20

func newJob(j *bulk.Job) Job {
	return Job{Job: j.ID, Action: j.Action, Filter: filterOf(&j.Query), State: j.State, Total: j.Total, Done: j.Done, Failed: j.Failed,
		Left: j.Left, Errors: append([]bulk.Failure{}, j.Errors[:min(len(j.Errors), maxShown)]...), Limit: j.Limit, Seconds: j.Retain.Seconds(),
		Until: j.Until.UTC(), To: j.To, Who: j.Note.Who, Reason: j.Note.Why,
		Evidence: j.Note.Evidence, CreatedAt: j.CreatedAt.UTC(), UpdatedAt: j.UpdatedAt.UTC(), CompletedAt: j.CompletedAt.UTC()}
}

// Selection is what a job would do, to which records.
type Selection struct {
	Action bulk.Action `json:"action"`
	Filter Parameters  `json:"filter,omitempty"`
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

// query is what they select. Those of a page say nothing of a record, and a downstream name is what
// a store only finds by itself.
func (p Parameters) query() (stet.Query, error) {
	var f Filter
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
			return stet.Query{}, BadParameter("filter", name+" does not select records for a job: leave it out")
		case text == "":
			return stet.Query{}, BadParameter("filter", name+": it is text, a number, or true")
		}
		values.Set(name, text)
	}
	err := members.Query(values, &f)
	if bad, ok := errors.AsType[*members.Error](err); ok {
		return stet.Query{}, BadParameter("filter", bad.Member+": "+bad.Problem)
	}
	q, err := f.query()
	if bad, ok := errors.AsType[*Problem](err); ok {
		return q, BadParameter("filter", bad.Detail)
	}
	return q, nil
}

// Order is what a job is to do, to which records, and why.
type Order struct {
	Selection
	// IDs are the records, in place of a filter: k_…, or k_…@BASIS for one that is changed only
	// while it has that [Record].Basis.
	IDs      []string  `json:"ids,omitempty"`
	Expect   int       `json:"expect"` // how many match, as counted
	Limit    int       `json:"limit,omitzero"`
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
func takes(a bulk.Action, now, override bool) Role {
	if a == bulk.Delete || now || override {
		return Admin
	}
	return Operator
}

// jobs are the bulk jobs, for a caller who may do what takes a role.
func (d *Desk) jobs(r Role) (*bulk.Jobs, error) {
	if d.conf.Jobs == nil {
		return nil, notFound
	}
	return d.conf.Jobs, d.caller.Takes(r)
}

// selected returns the query of a job. It is the one place that decides in which scopes a caller may
// change records in bulk: the query has to name one of the caller's.
func (d *Desk) selected(p Parameters) (stet.Query, error) {
	q, err := p.query()
	if err != nil {
		return q, err
	}
	if d.caller.only(&q.Scope); !d.caller.Allows(q.Scope) {
		return q, notFound
	}
	return q, nil
}

// Count is how many records a job would be about, and which.
type Count struct {
	Matching int            `json:"matching"`
	States   map[string]int `json:"states"`
	Oldest   time.Time      `json:"oldest,omitzero"`
}

// Preview counts what a job would be about. It takes an operator, and an admin where it deletes.
func (d *Desk) Preview(ctx context.Context, s Selection) (Count, error) {
	jobs, err := d.jobs(takes(s.Action, false, false))
	if err != nil {
		return Count{}, err
	}
	q, err := d.selected(s.Filter)
	if err != nil {
		return Count{}, err
	}
	n, err := jobs.Count(ctx, s.Action, q)
	return Count{n.Matching, n.States, n.Oldest.UTC()}, err
}

// Started is a job that was started.
type Started struct {
	Job string `json:"job"`
}

// Start starts a job. It takes what the same change of one record takes.
func (d *Desk) Start(ctx context.Context, o Order) (started Started, err error) {
	jobs, err := d.jobs(takes(o.Action, o.Now, o.Override))
	var q stet.Query
	if err == nil && o.IDs == nil { // else see [Desk.named]
		q, err = d.selected(o.Filter)
	}
	if err = cmp.Or(err, o.regards()); err != nil {
		return started, err
	}
	c := Change{Reason: o.Reason, Evidence: o.Evidence}
	_, wrong := seconds("seconds", o.Seconds)
	switch err := c.check(); {
	case err != nil:
		return started, err
	case o.Expect == 0:
		return started, BadParameter("expect", "say how many records match, as you have seen it: POST /api/v1/bulk/count counts them")
	case wrong != nil:
		return started, wrong
	}
	records, err := d.named(ctx, &o, &q.Scope)
	if err != nil {
		return started, err
	}
	job, err := jobs.Start(ctx, bulk.Order{Action: o.Action, Query: q, Records: records, Expect: o.Expect, Limit: o.Limit,
		Retain: retention(o.Seconds), Until: o.Until, To: o.To, Settle: d.settle, Now: o.Now, Override: o.Override, Note: d.by(&c)})
	return Started{job.ID}, err
}

// regards holds what is stored with records, who looks at them and why, to the bounds of a single
// one.
func (o *Order) regards() error {
	switch {
	case o.Action == bulk.Hand:
		if o.To = strings.TrimSpace(o.To); o.To != "" {
			o.Reason = cmp.Or(o.Reason, o.Note, "handed to "+o.To)
		}
		return cmp.Or(remark("to", o.To, maxName), remark("reason", o.Reason, maxRemark))
	case o.Note != "":
		return BadParameter("note", "only hand takes it, in place of reason")
	case o.Action == bulk.Snooze:
		return remark("reason", o.Reason, maxRemark)
	}
	return nil
}

// named returns the records that a job names by their ids, in place of a filter, and their scope, if
// it is one. A caller who is bound to scopes names those of one scope, whose job they can look at.
func (d *Desk) named(ctx context.Context, o *Order, scope *stet.Scope) ([]bulk.Named, error) {
	switch {
	case o.IDs == nil:
		return nil, nil
	case len(o.Filter) > 0:
		return nil, BadParameter("ids", "they stand in place of a filter; send one of both")
	case len(o.IDs) == 0, len(o.IDs) > bulk.MaxNamed:
		return make([]bulk.Named, min(len(o.IDs), bulk.MaxNamed+1)), nil // which package bulk refuses
	}
	found, err := d.byTags(ctx, o.IDs)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(found, func(n bulk.Named) bool { return n.ID == stet.ID{} }) // these do not match
	if len(all) == 0 {
		return nil, &bulk.Mismatch{Expected: o.Expect}
	}
	if slices.ContainsFunc(all, func(n bulk.Named) bool { return n.ID.Scope != all[0].ID.Scope }) {
		if d.caller.Bound() {
			return nil, BadParameter("ids", "name those of one scope at a time")
		}
		return all, nil
	}
	*scope = all[0].ID.Scope
	return all, nil
}

// tagsAtOnce is how many ids are looked up side by side.
const tagsAtOnce = 8

// byTags finds the records of ids, each with the basis it is named at: k_…@BASIS. What does not
// exist, or is out of reach, has no [stet.ID].
func (d *Desk) byTags(ctx context.Context, ids []string) ([]bulk.Named, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	found, errs, seen := make([]bulk.Named, len(ids)), make([]error, len(ids)), map[string]bool{}
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
				found[i] = bulk.Named{ID: head.ID, Basis: basis}
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

// Job shows a job. It takes a viewer.
func (d *Desk) Job(ctx context.Context, id string) (Job, error) {
	job, err := d.job(ctx, id)
	return newJob(&job), err
}

func (d *Desk) job(ctx context.Context, id string) (bulk.Job, error) {
	jobs, err := d.jobs(Viewer)
	if err != nil {
		return bulk.Job{}, err
	}
	job, err := jobs.Get(ctx, id)
	if err == nil && !d.caller.Allows(job.Query.Scope) {
		err = notFound
	}
	return job, err
}

// Report lists the records that a job failed to change, or left, as far as the job names them. It
// takes a viewer.
func (d *Desk) Report(ctx context.Context, id string) ([]bulk.Failure, error) {
	job, err := d.job(ctx, id)
	return job.Errors, err
}

// Reason is why a job is stopped, or goes on.
type Reason struct {
	Reason string `json:"reason"`
}

// StopJob stops a job where it is. It takes an operator.
func (d *Desk) StopJob(ctx context.Context, id string, why Reason) (Job, error) {
	return d.turn(ctx, id, why, (*bulk.Jobs).Stop, Operator)
}

// ResumeJob lets a stopped job go on. It takes what it takes to start it.
func (d *Desk) ResumeJob(ctx context.Context, id string, why Reason) (Job, error) {
	return d.turn(ctx, id, why, (*bulk.Jobs).Resume, Admin)
}

// turn stops or resumes a job; more is the role that it takes where the job took an admin.
func (d *Desk) turn(ctx context.Context, id string, why Reason, do func(*bulk.Jobs, context.Context, string, stet.Note) (bulk.Job, error), more Role) (doc Job, err error) {
	c := Change{Reason: why.Reason}
	if err := cmp.Or(d.caller.Takes(Operator), c.check()); err != nil {
		return doc, err
	}
	job, err := d.job(ctx, id)
	if err == nil {
		err = d.caller.Takes(min(more, takes(job.Action, job.Now, job.Override)))
	}
	if err != nil {
		return doc, err
	}
	job, err = do(d.conf.Jobs, ctx, job.ID, d.by(&c))
	if errors.Is(err, stet.ErrState) {
		p := *stateChanged(&stet.Head{}).(*Problem)
		p.Title, p.Detail = "The job's state does not allow this", fmt.Sprintf("It is %s. Look at it again.", job.State)
		err = &p
	}
	return newJob(&job), err
}

// JobList is the latest jobs.
type JobList struct {
	Jobs []Job `json:"jobs"`
}

// RecentJobs lists the latest jobs that the caller may see. It takes a viewer.
func (d *Desk) RecentJobs(ctx context.Context) (list JobList, err error) {
	jobs, err := d.jobs(Viewer)
	if err != nil {
		return list, err
	}
	recent, err := jobs.Recent(ctx)
	recent = slices.DeleteFunc(recent, func(j bulk.Job) bool { return !d.caller.Allows(j.Query.Scope) })
	return JobList{documents(recent, newJob)}, err
}
