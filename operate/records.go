package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/tag"
)

// listTimeout bounds one page of records, or the search for an id.
const listTimeout = 15 * time.Second

// Filter selects records. A zero field selects all.
type Filter struct {
	State     string     `json:"state,omitzero"` // a state's name, or failed: completed with a status of 500 and above
	Scope     stet.Scope `json:"scope,omitzero"`
	Route     string     `json:"route,omitzero"`
	OlderThan float64    `json:"older_than_s,omitzero"`
	Key       stet.Key   `json:"q,omitzero"` // not shown
	Path      string     `json:"path,omitzero"`
	Method    string     `json:"method,omitzero"`
	Cause     string     `json:"cause,omitzero"`
	Trace     string     `json:"trace,omitzero"`
	Escalated bool       `json:"escalated,omitzero"` // dead letters alone
}

// filterOf is the inverse of [Filter.query].
func filterOf(q *stet.Query) Filter {
	f := Filter{Scope: q.Scope, Route: q.Route, OlderThan: q.OlderThan.Seconds(), Key: q.Key, Path: q.Path, Method: q.Method,
		Cause: q.Cause, Trace: q.TraceID, Escalated: q.Escalated}
	if len(q.States) > 0 {
		if f.State = q.States[0].String(); q.Failed {
			f.State = stateFailed
		}
	}
	return f
}

// query is the filter as stores take it.
func (f *Filter) query() (stet.Query, error) {
	q := stet.Query{Scope: f.Scope, Route: f.Route, Key: f.Key, Path: f.Path, Method: f.Method, Cause: f.Cause, TraceID: f.Trace, Escalated: f.Escalated}
	switch {
	case f.State == "":
	case f.State == stateFailed:
		q.States, q.Failed = []stet.State{stet.Completed}, true
	default:
		st, err := stet.ParseState(f.State)
		if err != nil {
			return q, BadParameter("state", "it is one of running, completed, failed, retryable, unknown, expired")
		}
		q.States, q.Succeeded = []stet.State{st}, st == stet.Completed
	}
	var err error
	q.OlderThan, err = seconds("older_than_s", f.OlderThan)
	return q, err
}

// seconds is a number of seconds, whole or decimal, as a duration.
func seconds(name string, s float64) (time.Duration, error) {
	if !(s >= 0 && s <= bounds.Long.Seconds()) {
		return 0, BadParameter(name, "it is a number of seconds, not negative, and not over a hundred years")
	}
	return time.Duration(s * float64(time.Second)), nil
}

// Page is which page of a list is asked for.
type Page struct {
	Cursor string `json:"cursor,omitzero"` // the NextCursor of the page before; "" for the first
	Limit  int    `json:"limit,omitzero"`  // how many rows it has at most; 0 means [stet.DefaultLimit]
}

func (p *Page) check() error { return upTo("limit", stet.MaxLimit, p.Limit) }

// upTo says what is wrong with a number of rows; 0 means a default.
func upTo(name string, most, n int) error {
	if n < 0 || n > most {
		return BadParameter(name, fmt.Sprintf("it is a number from 1 to %d", most))
	}
	return nil
}

// RecordQuery asks for a page of records.
type RecordQuery struct {
	Filter
	// Downstream selects by the name that a system further down knows the effect by; only a scope
	// goes with it. See [stet.Finder].
	Downstream string `json:"downstream,omitzero"`
	Sort       string `json:"sort,omitzero"` // oldest: the oldest first; "": the newest
	Page
}

// query is what the store is asked for.
func (r *RecordQuery) query() (stet.Query, error) {
	q, err := r.Filter.query()
	switch rest := r.Filter; {
	case err != nil:
		return q, err
	case r.Sort != "" && r.Sort != "oldest":
		return q, BadParameter("sort", "it is oldest; leave it out for the newest first")
	case r.Downstream != "":
		if rest.Scope = ""; rest != (Filter{}) || r.Sort != "" || r.Page != (Page{}) {
			return q, BadParameter("downstream", "it selects alone, or with scope: leave the others out")
		}
	}
	q.Oldest, q.After, q.Limit = r.Sort != "", r.Cursor, r.Limit
	return q, r.check()
}

// RecordList is a page of records. The list ends with the page whose NextCursor is "".
type RecordList struct {
	Keys       []Record `json:"keys"`
	NextCursor string   `json:"next_cursor"`
}

// Records lists records, without what is around them. It takes a viewer, and an operator where it
// asks by a key or by a downstream name: a viewer could guess them.
func (d *Desk) Records(ctx context.Context, r RecordQuery) (list RecordList, err error) {
	q, err := r.query()
	if err == nil && (r.Key != "" || r.Downstream != "") {
		err = d.caller.Takes(Operator)
	}
	if err == nil {
		err = d.caller.within(&q.Scope)
	}
	if err != nil {
		return list, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	heads, next, err := rows(d, q.After, q.Bound(), 1,
		func(head *stet.Head) bool { return d.caller.Allows(head.Scope) },
		func(after string, n int) ([]stet.Head, string, error) {
			q.After, q.Limit = after, n
			return d.page(ctx, q, r.Downstream)
		})
	return RecordList{documents(heads, d.record), next}, err
}

// documents describes rows.
func documents[T, D any](rows []T, doc func(*T) D) []D {
	docs := make([]D, len(rows))
	for i := range rows {
		docs[i] = doc(&rows[i])
	}
	return docs
}

// page returns the records that a query selects, and the cursor of the next page.
func (s *service) page(ctx context.Context, q stet.Query, downstream string) ([]stet.Head, string, error) {
	if downstream != "" {
		heads, err := s.engine.Operator().Find(ctx, q.Scope, downstream)
		switch {
		case errors.Is(err, stet.ErrUnsupported):
			return nil, "", unfound
		case err != nil:
			return nil, "", unavailable
		}
		return heads, "", nil
	}
	heads, next, err := s.engine.Operator().List(ctx, q)
	if err != nil {
		return nil, "", s.listFailed(ctx, q, err)
	}
	return heads, next, nil
}

// listFailed tells a cursor that is none from a store that does not answer: the store answers
// without it.
func (s *service) listFailed(ctx context.Context, q stet.Query, err error) error {
	if errors.Is(err, stet.ErrUnsupported) {
		return unlisted
	}
	return wrongCursor(q.After, func() error {
		q.After, q.Limit = "", 1
		_, _, err := s.engine.Operator().List(ctx, q)
		return err
	})
}

// wrongCursor is the problem of a page that could not be read: its cursor is none if the store
// answers without it.
func wrongCursor(after string, without func() error) error {
	if after != "" && without() == nil {
		return BadParameter("cursor", "it is not from this store; start without one")
	}
	return unavailable
}

// boundRows is how many rows of the store one page of a list is put together from, for a caller who
// is bound to several scopes. The page may then be short.
const boundRows = 20_000

// rows is a page of a list as the caller sees it: of up to limit rows that are selected. What is in
// other scopes is not, as if there were none, which how full a page is would tell as well. page
// returns rows of the store, at most n of them after a cursor: it is asked looks times at most, or
// for boundRows. The store's cursors may hold a key: who may not see keys, or not everybody's,
// gets them sealed.
func rows[T any](d *Desk, after string, limit, looks int, selects func(*T) bool,
	page func(after string, n int) ([]T, string, error)) (found []T, next string, err error) {
	sealed := d.caller.Bound() || d.caller.Role < Operator
	if sealed && after != "" {
		var ok bool
		if after, ok = d.cursors.Open(after, d.caller.Name); !ok {
			return nil, "", BadParameter("cursor", "it is not for this token, or the tokens have changed since; start without one")
		}
	}
	if d.caller.Bound() {
		looks = max(looks, boundRows/limit)
	}
	for range looks {
		var got []T
		if got, next, err = page(after, limit-len(found)); err != nil {
			return nil, "", err
		}
		found = append(found, slices.DeleteFunc(got, func(row T) bool { return !selects(&row) })...)
		if after = next; next == "" || len(found) >= limit {
			break
		}
	}
	if sealed && next != "" {
		next = d.cursors.Seal(next, d.caller.Name)
	}
	return found, next, nil
}

// Name names a record: by its id, which needs no scope, or by scope and key. An id is also taken in
// place of the key.
type Name struct {
	Scope, Key string
	id         stet.ID // in place of both, where it is known
}

// Record shows a record and what is around it. It takes a viewer.
func (d *Desk) Record(ctx context.Context, n Name) (Record, error) {
	rec, err := d.read(ctx, n)
	if err != nil {
		return Record{}, err
	}
	return d.shown(ctx, &rec), nil
}

// Reveal shows a record with its key and its stored response. The audit trail has that before
// anything is returned, with the reason, which may be "". It takes an operator.
func (d *Desk) Reveal(ctx context.Context, n Name, why string) (Record, error) {
	var rec stet.Record
	err := d.mayReveal(why)
	if err == nil {
		rec, err = d.read(ctx, n)
	}
	if err == nil {
		err = d.revealing(ctx, rec.ID, "", why)
	}
	if err != nil {
		return Record{}, err
	}
	doc := d.shown(ctx, &rec)
	doc.reveal(&rec)
	return doc, nil
}

func (s *service) shown(ctx context.Context, rec *stet.Record) Record {
	doc := s.explained(ctx, &rec.Head)
	doc.Points = flow.Points(rec)
	return doc
}

// read returns the record of a name. Every verb finds its record here: what is in a scope that the
// caller may not see is [stet.ErrNotFound] for all of them, like what never was.
func (d *Desk) read(ctx context.Context, n Name) (stet.Record, error) {
	within, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	scope := stet.Scope(n.Scope)
	if scope != "" && !d.caller.Allows(scope) { // without one, what is found says its own
		return stet.Record{}, stet.ErrNotFound
	}
	small := within
	if d.room != nil {
		small = stet.WithMaxBody(within, stet.SmallBody)
	}
	var rec stet.Record
	var err error
	if n.id != (stet.ID{}) {
		rec, err = d.engine.Get(small, n.id)
		rec.ID = n.id // also of one that cannot be read
	} else {
		rec, err = d.find(small, scope, n.Key)
	}
	if rec.ID != (stet.ID{}) && !d.caller.Allows(rec.Scope) {
		return stet.Record{}, stet.ErrNotFound
	}
	if err == nil && rec.Left > 0 {
		rec, err = d.engine.GetWithin(within, rec.ID, d.room)
	}
	return rec, err
}

// find returns the record that name stands for: without a scope the one with this id (see
// [stet.Head].Tag), and within a scope the one of that scope with this id, or else with this key.
// No key of an id's form hides a record. The error is [stet.ErrNotFound], or the store's; one about
// a record that is there comes with the record's head.
func (s *service) find(ctx context.Context, scope stet.Scope, name string) (stet.Record, error) {
	if isTag(name) {
		head, err := s.engine.Operator().ByTag(ctx, name)
		switch {
		case err == nil && (scope == "" || scope == head.Scope):
			rec, err := s.engine.Get(ctx, head.ID)
			if err != nil {
				rec.Head = head
			}
			return rec, err
		case err == nil, errors.Is(err, stet.ErrNotFound), errors.Is(err, stet.ErrUnsupported) && scope != "":
		default:
			return stet.Record{}, err
		}
	}
	if scope == "" {
		return stet.Record{}, stet.ErrNotFound
	}
	return s.engine.Get(ctx, stet.ID{Scope: scope, Key: stet.Key(name)})
}

func isTag(name string) bool {
	_, ok := tag.Parse(name)
	return ok
}
