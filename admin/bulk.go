package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
)

// bulkRoles are what it takes to have each of the actions done: what it takes for one record.
var bulkRoles = map[bulk.Action]Role{bulk.Release: Operator, bulk.Delete: Admin, bulk.Extend: Operator}

// Job is a bulk job as the API shows it.
type Job struct {
	Job         string         `json:"job"`
	Action      bulk.Action    `json:"action"`
	Filter      Filter         `json:"filter"`
	State       bulk.State     `json:"state"`
	Total       int            `json:"total"`
	Done        int            `json:"done"`
	Failed      int            `json:"failed"`
	Left        int            `json:"left"` // of a completed job: what had been changed by others before
	Errors      []bulk.Failure `json:"errors"`
	Limit       int            `json:"limit,omitzero"`
	Seconds     float64        `json:"seconds,omitzero"`
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

func newJob(j *bulk.Job) Job {
	return Job{Job: j.ID, Action: j.Action, Filter: newFilter(&j.Query), State: j.State, Total: j.Total, Done: j.Done, Failed: j.Failed,
		Left: j.Left, Errors: append([]bulk.Failure{}, j.Errors...), Limit: j.Limit, Seconds: j.Retain.Seconds(), Who: j.Note.Who, Reason: j.Note.Why,
		Evidence: j.Note.Evidence, CreatedAt: j.CreatedAt.UTC(), UpdatedAt: j.UpdatedAt.UTC(), CompletedAt: j.CompletedAt.UTC()}
}

// bulkRequest is the body of POST /api/v1/bulk, and of its count.
type bulkRequest struct {
	note
	action        bulk.Action
	filter        bulkFilter
	expect        *int
	limit         int
	seconds       float64
	now, override bool
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
		if err := f.set(name, text); err != nil {
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
	into := map[string]any{"action": (*string)(&b.action), "filter": &b.filter}
	maps.Copy(into, own)
	if err := h.read(c, into); err != nil {
		return err
	}
	if role, known := bulkRoles[b.action]; known && c.who.role < role {
		return lacks(c.who, role)
	}
	return reach(c.who, &b.filter.Query)
}

// reach is the one place that decides in which scopes a caller may change records in bulk: the
// query has to name one of the caller's.
func reach(who principal, q *stet.Query) error {
	if only, ok := who.only(); ok && q.Scope == "" {
		q.Scope = only
	}
	if !who.allows(q.Scope) {
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
	err := h.readBulk(c, map[string]any{"expect": &b.expect, "limit": &b.limit, "seconds": &b.seconds, "now": &b.now,
		"override": &b.override, "reason": &b.reason, "evidence": &b.evidence}, &b)
	retain, ok := parseSeconds(strconv.FormatFloat(b.seconds, 'f', -1, 64))
	switch {
	case err != nil:
		return nil, err
	case b.unreasoned() != nil:
		return nil, reasonRequired
	case b.expect == nil:
		return nil, badParameter("expect", "say how many records match, as you have seen it: POST /api/v1/bulk/count counts them")
	case !ok:
		return nil, badParameter("seconds", "it is a number of seconds, not negative")
	}
	job, err := h.Bulk.Start(c.Context(), bulk.Order{Action: b.action, Query: b.filter.Query, Expect: *b.expect, Limit: b.limit,
		Retain: retain, Settle: h.Settle, Now: b.now, Override: b.override, Note: b.by(c.who)})
	return accepted{job.ID}, err
}

// bulkCount answers POST /api/v1/bulk/count: what a job would be about.
func (h *handler) bulkCount(c *call) (any, error) {
	var b bulkRequest
	if err := h.readBulk(c, nil, &b); err != nil {
		return nil, err
	}
	n, err := h.Bulk.Count(c.Context(), b.action, b.filter.Query)
	return struct {
		Matching int            `json:"matching"`
		States   map[string]int `json:"states"`
		Oldest   time.Time      `json:"oldest,omitzero"`
	}{n.Matching, n.States, n.Oldest.UTC()}, err
}

// bulkShow answers GET /api/v1/bulk/{job}.
func (h *handler) bulkShow(c *call) (any, error) {
	job, err := h.Bulk.Get(c.Context(), c.PathValue("job"))
	if err == nil && !c.who.allows(job.Query.Scope) {
		err = notFound
	}
	return newJob(&job), err
}

// bulkRecent answers GET /api/v1/bulk.
func (h *handler) bulkRecent(c *call) (any, error) {
	jobs, err := h.Bulk.Recent(c.Context())
	all := []Job{}
	for i := range jobs {
		if c.who.allows(jobs[i].Query.Scope) {
			all = append(all, newJob(&jobs[i]))
		}
	}
	return map[string][]Job{"jobs": all}, err
}
