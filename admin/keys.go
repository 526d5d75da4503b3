package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

// listTimeout bounds one page of records, or the search for an id.
const listTimeout = 15 * time.Second

// list answers GET /api/v1/keys.
func (h *handler) list(c *call) (any, error) {
	f, err := readFilter(c.URL)
	switch {
	case err != nil:
		return nil, err
	case f.names() && c.who.role < Operator: // a viewer could guess keys
		return nil, lacks(c.who, Operator)
	}
	if err := c.who.within(&f.Scope); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.Context(), listTimeout)
	defer cancel()
	heads, next, err := rows(h, c.who, f.After, f.Bound(), func(head *stet.Head) stet.Scope { return head.Scope },
		func(after string, n int) ([]stet.Head, string, error) {
			f.After, f.Limit = after, n
			return h.page(ctx, &f)
		})
	if err != nil {
		return nil, err
	}
	return paged("keys", heads, next, h.record), nil
}

// paged is the document of a list.
func paged[T, D any](name string, rows []T, next string, doc func(*T) D) map[string]any {
	docs := make([]D, len(rows))
	for i := range rows {
		docs[i] = doc(&rows[i])
	}
	return map[string]any{name: docs, "next_cursor": next}
}

// page returns the records that a filter selects, and the cursor of the next page.
func (h *handler) page(ctx context.Context, f *filter) ([]stet.Head, string, error) {
	if f.downstream != "" {
		heads, err := h.engine.Operator().Find(ctx, f.downstream)
		switch {
		case errors.Is(err, stet.ErrUnsupported):
			return nil, "", unfound
		case err != nil:
			return nil, "", unavailable
		}
		return slices.DeleteFunc(heads, func(head stet.Head) bool { return f.Scope != "" && head.Scope != f.Scope }), "", nil
	}
	heads, next, err := h.engine.Operator().List(ctx, f.Query)
	if err != nil {
		return nil, "", h.listFailed(ctx, f.Query, err)
	}
	return heads, next, nil
}

// listFailed tells a cursor that is none from a store that does not answer: the store answers
// without it.
func (h *handler) listFailed(ctx context.Context, q stet.Query, err error) error {
	if errors.Is(err, stet.ErrUnsupported) {
		return unlisted
	}
	if q.After != "" {
		q.After, q.Limit = "", 1
		if _, _, err := h.engine.Operator().List(ctx, q); err == nil {
			return badParameter("cursor", "it is not from this store; start without one")
		}
	}
	return unavailable
}

// filter is what a list is asked for.
type filter struct {
	stet.Query
	downstream string // the name that a system further down knows it by; see [stet.Finder]
}

// names reports whether the filter has a name in it that is not shown to everybody who may see
// records.
func (f *filter) names() bool { return f.Key != "" || f.downstream != "" }

// readFilter reads the parameters of a list. One that is not known is refused: a mistyped filter
// would select everything.
func readFilter(u *url.URL) (f filter, err error) {
	err = parameters(u, f.set)
	if f.downstream != "" && err == nil {
		rest := f.Query
		if rest.Scope = ""; !reflect.DeepEqual(rest, stet.Query{}) {
			err = badParameter("downstream", "it selects alone, or with scope: leave the others out")
		}
	}
	return f, err
}

// limitOf reads how many rows a page has at most.
func limitOf(v string, limit *int) error { return atMost("limit", v, stet.MaxLimit, limit) }

func atMost(name, v string, most int, into *int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		return badParameter(name, "it is a number from 1 to "+strconv.Itoa(most))
	}
	*into = n
	return nil
}

// parameters hands each parameter of a query to set, which says what is wrong with it. No problem
// names a value: it may be a key.
func parameters(u *url.URL, set func(name, v string) error) error {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return badParameter("query", "it is not properly encoded")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) != 1 {
			return badParameter(name, "it is there more than once; send it once")
		}
		if err := set(name, values[name][0]); err != nil {
			return err
		}
	}
	return nil
}

// texts are the parameters whose values are taken as they are.
func (f *filter) texts() map[string]*string {
	return map[string]*string{"scope": (*string)(&f.Scope), "route": &f.Route, "q": (*string)(&f.Key), "path": &f.Path, "method": &f.Method,
		"cause": &f.Cause, "trace": &f.TraceID, "downstream": &f.downstream, "cursor": &f.After}
}

func (f *filter) set(name, v string) error {
	if place := f.texts()[name]; place != nil {
		*place = v
		return nil
	}
	switch name {
	case "state":
		return setState(&f.Query, v)
	case "escalated":
		if f.Escalated = v == "1" || v == "true"; !f.Escalated {
			return badParameter(name, "it is 1, for dead letters alone; leave it out for all")
		}
	case "sort":
		if f.Oldest = v == "oldest"; !f.Oldest {
			return badParameter(name, "it is oldest; leave it out for the newest first")
		}
	case "older_than_s":
		d, ok := parseSeconds(v)
		if !ok {
			return badParameter(name, "it is a number of seconds, not negative")
		}
		f.OlderThan = d
	case "limit":
		return limitOf(v, &f.Limit)
	default:
		return badParameter(name, "there is no such parameter: state, scope, route, q, path, method, cause, escalated, trace, downstream, older_than_s, "+
			"sort, cursor, limit")
	}
	return nil
}

// parseSeconds reads a number of seconds, whole or decimal, that a duration can hold.
func parseSeconds(v string) (time.Duration, bool) {
	const most = float64(1<<63-1) / float64(time.Second)
	s, err := strconv.ParseFloat(v, 64)
	if err != nil || !(s >= 0 && s < most) {
		return 0, false
	}
	return time.Duration(s * float64(time.Second)), true
}

func setState(q *stet.Query, v string) error {
	if v == "" {
		return nil
	}
	if v == stateFailed {
		q.States, q.Failed = []stet.State{stet.Completed}, true
		return nil
	}
	st, err := stet.ParseState(v)
	if err != nil {
		return badParameter("state", "it is one of running, completed, failed, retryable, unknown, expired")
	}
	q.States, q.Succeeded = []stet.State{st}, st == stet.Completed
	return nil
}

// show answers GET /api/v1/keys/{scope}/{key} and /api/v1/keys/{id}.
func (h *handler) show(c *call) (any, error) {
	reveal, why, err := c.reveals()
	if err != nil {
		return nil, err
	}
	rec, err := h.named(c)
	if err != nil {
		return nil, err
	}
	doc := h.whole(c.Context(), &rec)
	if reveal {
		if err := h.revealing(c, rec.ID, "", why); err != nil {
			return nil, err
		}
		doc.reveal(&rec)
	}
	return doc, nil
}

// reveals reports whether the call asks for what is not shown by default, which takes an operator,
// and the reason, where it says one.
func (c *call) reveals() (reveal bool, why string, err error) {
	err = parameters(c.URL, func(name, v string) error {
		switch {
		case name == "reason":
			why = v
			return remark(name, v, maxRemark)
		case name != "reveal":
			return badParameter(name, "there is no such parameter: reveal, reason")
		case v != "1" && v != "0":
			return badParameter(name, "it is 1 or 0")
		}
		reveal = v == "1"
		return nil
	})
	if err == nil && reveal && c.who.role < Operator {
		err = lacks(c.who, Operator)
	}
	return reveal, why, err
}

// named returns the record that a call names, by scope and key or by its id. Every verb finds its
// record here: what is in a scope that the caller may not see is [stet.ErrNotFound] for all of
// them, like what never was. Stet's own records are there to be read alone: who could end a job's
// would end what another role has started.
func (h *handler) named(c *call) (stet.Record, error) {
	ctx, cancel := context.WithTimeout(c.Context(), listTimeout)
	defer cancel()
	scope := stet.Scope(c.PathValue("scope"))
	if scope != "" && !c.who.allows(scope) { // without one, what is found says its own
		return stet.Record{}, stet.ErrNotFound
	}
	rec, err := find(ctx, h.engine, scope, cmp.Or(c.PathValue("key"), c.PathValue("id")))
	own := rec.Scope == stet.OwnScope && c.Method != http.MethodGet
	if rec.ID != (stet.ID{}) && (own || !c.who.allows(rec.Scope)) {
		return stet.Record{}, stet.ErrNotFound
	}
	return rec, err
}

// find returns the record that name stands for: without a scope the one with this id (see
// [stet.Head].Tag), and within a scope the one of that scope with this id, or else with this key.
// No key of an id's form hides a record. The error is [stet.ErrNotFound], or the store's; one about
// a record that is there comes with the record's head.
func find(ctx context.Context, e *stet.Engine, scope stet.Scope, name string) (stet.Record, error) {
	if isTag(name) {
		head, err := e.Operator().ByTag(ctx, name)
		switch {
		case err == nil && (scope == "" || scope == head.Scope):
			rec, err := e.Get(ctx, head.ID)
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
	return e.Get(ctx, stet.ID{Scope: scope, Key: stet.Key(name)})
}

func isTag(name string) bool {
	digits, ok := strings.CutPrefix(name, "k_")
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}
