package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
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

// Filter is the query of a job, by the names that the parameters of a list have. A key is not
// shown.
type Filter struct {
	State     string     `json:"state,omitzero"`
	Scope     stet.Scope `json:"scope,omitzero"`
	Route     string     `json:"route,omitzero"`
	OlderThan float64    `json:"older_than_s,omitzero"`
	Key       stet.Key   `json:"q,omitzero"`
	Path      string     `json:"path,omitzero"`
	Method    string     `json:"method,omitzero"`
	Cause     string     `json:"cause,omitzero"`
	Trace     string     `json:"trace,omitzero"`
	Escalated bool       `json:"escalated,omitzero"`
}

func newFilter(q *stet.Query) Filter {
	f := Filter{Scope: q.Scope, Route: q.Route, OlderThan: q.OlderThan.Seconds(), Key: q.Key, Path: q.Path, Method: q.Method,
		Cause: q.Cause, Trace: q.TraceID, Escalated: q.Escalated}
	if len(q.States) > 0 {
		if f.State = q.States[0].String(); q.Failed {
			f.State = stateFailed
		}
	}
	return f
}

// maxShown is how many of a job's failures are shown with it.
const maxShown = 20

func newJob(j *bulk.Job) Job {
	return Job{Job: j.ID, Action: j.Action, Filter: newFilter(&j.Query), State: j.State, Total: j.Total, Done: j.Done, Failed: j.Failed,
		Left: j.Left, Errors: append([]bulk.Failure{}, j.Errors[:min(len(j.Errors), maxShown)]...), Limit: j.Limit, Seconds: j.Retain.Seconds(),
		Until: j.Until.UTC(), To: j.To, Who: j.Note.Who, Reason: j.Note.Why,
		Evidence: j.Note.Evidence, CreatedAt: j.CreatedAt.UTC(), UpdatedAt: j.UpdatedAt.UTC(), CompletedAt: j.CompletedAt.UTC()}
}

// bulkRequest is the body of POST /api/v1/bulk, and of its count.
type bulkRequest struct {
	Order  // without IDs there is a filter
	filter bulkFilter
	expect *int
}

// bulkFilter is read by the names and rules of the parameters of a list.
type bulkFilter struct{ filter }

// UnmarshalJSON implements [json.Unmarshaler].
func (f *bulkFilter) UnmarshalJSON(doc []byte) error {
	var values map[string]any
	d := json.NewDecoder(strings.NewReader(string(doc)))
	if d.UseNumber(); d.Decode(&values) != nil {
		return errors.New(`it has to be an object of the parameters of a list, such as {"state":"unknown"}`)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text, ok := parameterText(values[name])
		switch {
		case slices.Contains(notFilters, name):
			return fmt.Errorf("%s does not select records for a job: leave it out", name)
		case !ok || text == "":
			return fmt.Errorf("%s: it is text, a number, or true", name)
		}
		if err := f.parameters().set(name, text); err != nil {
			return errors.New(problemOf(err).Detail)
		}
	}
	return nil
}

// notFilters are parameters of a list that say nothing of a record, or what a store only finds by
// itself.
var notFilters = []string{"cursor", "limit", "sort", "downstream"}

// parameterText is a JSON value as a query would have it.
func parameterText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return "1", v
	}
	return "", false
}

// readBulk reads what is to be done, and refuses what the caller may not do or see.
func (h *handler) readBulk(c *call, own map[string]any, b *bulkRequest) error {
	into := map[string]any{"action": (*string)(&b.Action), "filter": &b.filter}
	maps.Copy(into, own)
	if err := h.read(c, into); err != nil {
		return err
	}
	if takesAdmin(b.Action, b.Now, b.Override) && c.who.role < Admin {
		return lacks(c.who, Admin)
	}
	if b.IDs != nil {
		return nil // see [handler.bulkNamed]
	}
	return reach(c.who, &b.filter.Query)
}

// takesAdmin reports whether a job takes an admin, as each of these does for one record.
func takesAdmin(a bulk.Action, now, override bool) bool { return a == bulk.Delete || now || override }

// reach is the one place that decides in which scopes a caller may change records in bulk: the
// query has to name one of the caller's.
func reach(who principal, q *stet.Query) error {
	if who.only(&q.Scope); !who.allows(q.Scope) {
		return notFound
	}
	return nil
}

// accepted is the answer to a job that was started.
type accepted struct {
	Job string `json:"job"`
}

// bulkStart answers POST /api/v1/bulk.
func (h *handler) bulkStart(c *call) (any, error) {
	var b bulkRequest
	err := h.readBulk(c, map[string]any{"ids": &b.IDs, "expect": &b.expect, "limit": &b.Limit, "seconds": &b.Seconds, "now": &b.Now,
		"override": &b.Override, "reason": &b.Reason, "evidence": &b.Evidence, "until": &b.Until, "to": &b.To, "note": &b.Note}, &b)
	var retain time.Duration
	wrong := seconds(&retain)(strconv.FormatFloat(b.Seconds, 'f', -1, 64))
	err = cmp.Or(err, b.regards())
	n := note{reason: b.Reason, evidence: b.Evidence}
	switch err = cmp.Or(err, n.unreasoned()); {
	case err != nil:
		return nil, err
	case b.expect == nil:
		return nil, badParameter("expect", "say how many records match, as you have seen it: POST /api/v1/bulk/count counts them")
	case wrong != nil:
		return nil, badParameter("seconds", wrong.Error())
	}
	records, err := h.bulkNamed(c, &b)
	if err != nil {
		return nil, err
	}
	job, err := h.Bulk.Start(c.Context(), bulk.Order{Action: b.Action, Query: b.filter.Query, Records: records, Expect: *b.expect, Limit: b.Limit,
		Retain: min(retain, maxSeconds*time.Second), Until: b.Until, To: b.To, Settle: h.Settle, Now: b.Now, Override: b.Override, Note: n.by(c.who)})
	return accepted{job.ID}, err
}

// regards holds what is stored with records, who looks at them and why, to the bounds of a single
// one.
func (b *bulkRequest) regards() error {
	switch {
	case b.Action == bulk.Hand:
		if b.To = strings.TrimSpace(b.To); b.To != "" {
			b.Reason = cmp.Or(b.Reason, b.Note, "handed to "+b.To)
		}
		return cmp.Or(remark("to", b.To, maxName), remark("reason", b.Reason, maxRemark))
	case b.Note != "":
		return badParameter("note", "only hand takes it, in place of reason")
	case b.Action == bulk.Snooze:
		return remark("reason", b.Reason, maxRemark)
	}
	return nil
}

// bulkNamed returns the records that a job names by their ids, in place of a filter. A token that
// is bound to scopes names those of one scope, whose job it can look at.
func (h *handler) bulkNamed(c *call, b *bulkRequest) ([]bulk.Named, error) {
	switch {
	case b.IDs == nil:
		return nil, nil
	case !reflect.DeepEqual(b.filter.Query, stet.Query{}):
		return nil, badParameter("ids", "they stand in place of a filter; send one of both")
	case len(b.IDs) == 0, len(b.IDs) > bulk.MaxNamed:
		return make([]bulk.Named, min(len(b.IDs), bulk.MaxNamed+1)), nil // which package bulk refuses
	}
	found, err := h.byTags(c, b.IDs)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(found, func(n bulk.Named) bool { return n.ID == stet.ID{} }) // these do not match
	if len(all) == 0 {
		return nil, &bulk.Mismatch{Expected: *b.expect}
	}
	if slices.ContainsFunc(all, func(n bulk.Named) bool { return n.ID.Scope != all[0].ID.Scope }) {
		if c.who.bound() {
			return nil, badParameter("ids", "name those of one scope at a time")
		}
		return all, nil
	}
	b.filter.Scope = all[0].ID.Scope
	return all, nil
}

// tagsAtOnce is how many ids are looked up side by side.
const tagsAtOnce = 8

// byTags finds the records of ids, each with the basis it is named at: k_…@BASIS. What does not
// exist, or is out of reach, has no [stet.ID].
func (h *handler) byTags(c *call, ids []string) ([]bulk.Named, error) {
	ctx, cancel := context.WithTimeout(c.Context(), listTimeout)
	defer cancel()
	found, errs, seen := make([]bulk.Named, len(ids)), make([]error, len(ids)), map[string]bool{}
	workers := walk.NewWorkers(tagsAtOnce)
	for i, name := range ids {
		tag, basis, pinned := strings.Cut(name, "@")
		if !isTag(tag) || seen[tag] || pinned && !isTag("k_"+basis) {
			workers.Wait()
			return nil, badParameter("ids", "each is a record's id, k_ and 16 hex digits, with @ and the basis you have seen if it is to be changed at that one alone, and is there once")
		}
		seen[tag] = true
		asked := workers.Go(ctx, func() {
			head, err := h.engine.Operator().ByTag(ctx, tag)
			if errs[i] = err; err == nil && c.who.allows(head.Scope) && head.Scope != stet.OwnScope {
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

// bulkCount answers POST /api/v1/bulk/count: what a job would be about.
func (h *handler) bulkCount(c *call) (any, error) {
	var b bulkRequest
	if err := h.readBulk(c, nil, &b); err != nil {
		return nil, err
	}
	n, err := h.Bulk.Count(c.Context(), b.Action, b.filter.Query)
	return Count{n.Matching, n.States, n.Oldest.UTC()}, err
}

// bulkShow answers GET /api/v1/bulk/{job}.
func (h *handler) bulkShow(c *call) (any, error) {
	job, err := h.job(c)
	return newJob(&job), err
}

// job returns the job that a call names.
func (h *handler) job(c *call) (bulk.Job, error) {
	job, err := h.Bulk.Get(c.Context(), c.PathValue("job"))
	if err == nil && !c.who.allows(job.Query.Scope) {
		err = notFound
	}
	return job, err
}

// bulkReport answers GET /api/v1/bulk/{job}/report: a line of JSON for each record that failed or
// was left, as far as the job names them.
func (h *handler) bulkReport(c *call) (any, error) {
	job, err := h.job(c)
	if err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	for i := range job.Errors {
		if err := json.NewEncoder(&lines).Encode(&job.Errors[i]); err != nil {
			return nil, err
		}
	}
	return as(http.StatusOK, "application/x-ndjson", lines.Bytes()), nil
}

// bulkStop answers POST /api/v1/bulk/{job}/stop.
func (h *handler) bulkStop(c *call) (any, error) { return h.turn(c, h.Bulk.Stop, Operator) }

// bulkResume answers POST /api/v1/bulk/{job}/resume, which takes what it takes to start the job.
func (h *handler) bulkResume(c *call) (any, error) { return h.turn(c, h.Bulk.Resume, Admin) }

// turn stops or resumes a job; more is the role that it takes where the job took an admin.
func (h *handler) turn(c *call, do func(context.Context, string, stet.Note) (bulk.Job, error), more Role) (any, error) {
	var n note
	if err := cmp.Or(h.read(c, map[string]any{"reason": &n.reason}), n.unreasoned()); err != nil {
		return nil, err
	}
	job, err := h.job(c)
	switch {
	case err != nil:
		return nil, err
	case takesAdmin(job.Action, job.Now, job.Override) && c.who.role < more:
		return nil, lacks(c.who, more)
	}
	job, err = do(c.Context(), job.ID, n.by(c.who))
	if errors.Is(err, stet.ErrState) {
		p := *stateChanged(&stet.Head{}).(*Problem)
		p.Title, p.Detail = "The job's state does not allow this", fmt.Sprintf("It is %s. Look at it again.", job.State)
		err = &p
	}
	return newJob(&job), err
}

// bulkRecent answers GET /api/v1/bulk.
func (h *handler) bulkRecent(c *call) (any, error) {
	jobs, err := h.Bulk.Recent(c.Context())
	jobs = slices.DeleteFunc(jobs, func(j bulk.Job) bool { return !c.who.allows(j.Query.Scope) })
	return map[string][]Job{"jobs": documents(jobs, newJob)}, err
}
