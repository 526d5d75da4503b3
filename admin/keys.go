package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/internal/ledger"
	"github.com/stet-dev/stet/internal/tag"
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
	heads, next, err := rows(h, c.who, f.After, f.Bound(), 1,
		func(head *stet.Head) bool { return c.who.allows(head.Scope) },
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
	return map[string]any{name: documents(rows, doc), "next_cursor": next}
}

// documents describes rows.
func documents[T, D any](rows []T, doc func(*T) D) []D {
	docs := make([]D, len(rows))
	for i := range rows {
		docs[i] = doc(&rows[i])
	}
	return docs
}

// page returns the records that a filter selects, and the cursor of the next page.
func (h *handler) page(ctx context.Context, f *filter) ([]stet.Head, string, error) {
	if f.downstream != "" {
		heads, err := h.engine.Operator().Find(ctx, f.Scope, f.downstream)
		switch {
		case errors.Is(err, stet.ErrUnsupported):
			return nil, "", unfound
		case err != nil:
			return nil, "", unavailable
		}
		return heads, "", nil
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
	return wrongCursor(q.After, func() error {
		q.After, q.Limit = "", 1
		_, _, err := h.engine.Operator().List(ctx, q)
		return err
	})
}

// wrongCursor is the problem of a page that could not be read: its cursor is none if the store
// answers without it.
func wrongCursor(after string, without func() error) error {
	if after != "" && without() == nil {
		return badParameter("cursor", "it is not from this store; start without one")
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

// readFilter reads the parameters of a list.
func readFilter(u *url.URL) (f filter, err error) {
	err = f.parameters().read(u)
	if f.downstream != "" && err == nil {
		rest := f.Query
		if rest.Scope = ""; !reflect.DeepEqual(rest, stet.Query{}) {
			err = badParameter("downstream", "it selects alone, or with scope: leave the others out")
		}
	}
	return f, err
}

func (f *filter) parameters() parameters {
	dead := flagged(&f.Escalated, "it is 1, for dead letters alone; leave it out for all", "1", "true")
	oldest := flagged(&f.Oldest, "it is oldest; leave it out for the newest first", "oldest")
	return parameters{{"state", f.setState}, {"scope", verbatim(&f.Scope)}, {"route", verbatim(&f.Route)},
		{"q", verbatim(&f.Key)}, {"path", verbatim(&f.Path)}, {"method", verbatim(&f.Method)},
		{"cause", verbatim(&f.Cause)}, {"escalated", dead}, {"trace", verbatim(&f.TraceID)},
		{"downstream", verbatim(&f.downstream)}, {"older_than_s", seconds(&f.OlderThan)}, {"sort", oldest},
		{"cursor", verbatim(&f.After)}, {"limit", upTo(stet.MaxLimit, &f.Limit)}}
}

func (f *filter) setState(v string) error {
	if v == "" {
		return nil
	}
	if v == stateFailed {
		f.States, f.Failed = []stet.State{stet.Completed}, true
		return nil
	}
	st, err := stet.ParseState(v)
	if err != nil {
		return errors.New("it is one of running, completed, failed, retryable, unknown, expired")
	}
	f.States, f.Succeeded = []stet.State{st}, st == stet.Completed
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
	doc := h.detailed(c.Context(), &rec.Head)
	doc.Points = flow.Points(&rec)
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
	shown := ""
	asked := parameters{{"reveal", oneOf(&shown, "it is 1 or 0", "1", "0")}, {"reason", verbatim(&why)}}
	if err = asked.read(c.URL); err == nil {
		err = remark("reason", why, maxRemark)
	}
	if reveal = shown == "1"; err == nil && reveal && c.who.role < Operator {
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
	rec, err := find(stet.WithMaxBody(ctx, stet.SmallBody), h.engine, scope, cmp.Or(c.PathValue("key"), c.PathValue("id")))
	own := rec.Scope == stet.OwnScope && c.Method != http.MethodGet
	if rec.ID != (stet.ID{}) && (own || !c.who.allows(rec.Scope)) {
		return stet.Record{}, stet.ErrNotFound
	}
	if err == nil && rec.Left > 0 {
		rec, err = h.engine.GetWithin(ctx, rec.ID, c)
	}
	return rec, err
}

// bodies counts the bytes of large stored bodies that are read for operators, until they are
// answered. One that is larger than all of it is read alone.
var bodies = ledger.New(maxBodies, 0, 1)

const maxBodies = 32 << 20

// Reserve implements [stet.Room].
func (c *call) Reserve(bytes int64) error {
	if !c.room.Raise(min(bytes, maxBodies), false) {
		c.header.Set("Retry-After", "1")
		return showing
	}
	return nil
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
	_, ok := tag.Parse(name)
	return ok
}

// boundRows is how many rows of the store one page of a list is put together from, for a token that
// is bound to several scopes. The page may then be short.
const boundRows = 20_000

// rows is a page of a list as who asks sees it: of up to limit rows that are selected. What is in
// other scopes is not, as if there were none, which how full a page is would tell as well. page
// returns rows of the store, at most n of them after a cursor: it is asked looks times at most, or
// for boundRows. The store's cursors may hold a key: who may not see keys, or not everybody's,
// gets them sealed.
func rows[T any](h *handler, who principal, after string, limit, looks int, selects func(*T) bool,
	page func(after string, n int) ([]T, string, error)) (found []T, next string, err error) {
	sealed := who.bound() || who.role < Operator
	if sealed && after != "" {
		var ok bool
		if after, ok = h.cursors.Open(after, who.name); !ok {
			return nil, "", badParameter("cursor", "it is not for this token, or the tokens have changed since; start without one")
		}
	}
	if who.bound() {
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
		next = h.cursors.Seal(next, who.name)
	}
	return found, next, nil
}
