package adminclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/stet-dev/stet/admin"
)

// Name names a record: by its id, which needs no scope, or by scope and key.
type Name struct{ Scope, Key string }

// Path is the record's in the API.
func (n Name) Path() string {
	if n.Scope == "" {
		return "/api/v1/keys/" + Segment(n.Key)
	}
	return "/api/v1/keys/" + Segment(n.Scope) + "/" + Segment(n.Key)
}

// Segment escapes a key, a scope or another name for a path. Dots are escaped as well: "." and ".."
// would be taken for a direction.
func Segment(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }

// Query selects records.
type Query struct {
	admin.Filter
	// Downstream selects by the name that a system further down knows the effect by; only a scope
	// goes with it.
	Downstream string `json:"downstream,omitzero"`
	// Oldest lists the oldest first; the default is the newest.
	Oldest bool `json:"-"`
}

// Parameters are the filter as a list and a bulk job take it.
func (q *Query) Parameters() (all admin.Parameters) {
	doc, err := json.Marshal(q)
	if err == nil {
		err = json.Unmarshal(doc, &all)
	}
	if err != nil {
		panic("adminclient: a query that is not JSON: " + err.Error())
	}
	if q.Key != "" {
		all["q"] = string(q.Key) // it hides itself in JSON
	}
	return all
}

// values are the members of a document that are not zero, as a query has them: byte for byte, which
// JSON does not keep.
func values(doc any) url.Values {
	all, v := url.Values{}, reflect.ValueOf(doc)
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if member := v.FieldByIndex(f.Index); strings.Trim(name, "-") != "" && !member.IsZero() {
			all.Set(name, fmt.Sprint(member))
		}
	}
	return all
}

// Keys lists records.
func (c *Client) Keys(q Query) List[admin.Record] {
	all := values(q)
	set(all, "q", string(q.Key)) // it hides itself from fmt
	if q.Oldest {
		all.Set("sort", "oldest")
	}
	return List[admin.Record]{c, "/api/v1/keys", "keys", all}
}

// Record shows a record.
func (c *Client) Record(ctx context.Context, n Name) (admin.Record, error) {
	return get[admin.Record](ctx, c, n.Path())
}

// Reveal shows a record with its key and its stored response, which the audit trail keeps with the
// reason, if there is one. It takes an operator.
func (c *Client) Reveal(ctx context.Context, n Name, reason string) (admin.Record, error) {
	return get[admin.Record](ctx, c, n.Path()+Revealing(reason))
}

// Revealing is the query that reveals what a path names, for a reason, if there is one.
func Revealing(reason string) string {
	q := url.Values{"reveal": {"1"}}
	set(q, "reason", reason)
	return "?" + q.Encode()
}

// Resolve ends an unknown outcome.
func (c *Client) Resolve(ctx context.Context, n Name, what admin.Resolution) (admin.Record, error) {
	return post[admin.Record](ctx, c, n.Path()+"/resolve", what)
}

// Release says that nothing happened: one retry may run.
func (c *Client) Release(ctx context.Context, n Name, what admin.Resolution) (admin.Record, error) {
	return post[admin.Record](ctx, c, n.Path()+"/release", what)
}

// Extend keeps a result for longer.
func (c *Client) Extend(ctx context.Context, n Name, what admin.Extension) (admin.Record, error) {
	return post[admin.Record](ctx, c, n.Path()+"/extend", what)
}

// Probe asks the upstream now what became of a record.
func (c *Client) Probe(ctx context.Context, n Name, what admin.Question) (admin.Probed, error) {
	return post[admin.Probed](ctx, c, n.Path()+"/probe", what)
}

// Note adds to the audit trail.
func (c *Client) Note(ctx context.Context, n Name, what admin.Remark) (admin.Record, error) {
	return post[admin.Record](ctx, c, n.Path()+"/note", what)
}

// Snooze takes an unknown record out of list and alert for a while, or wakes it.
func (c *Client) Snooze(ctx context.Context, n Name, what admin.Snoozing) (admin.Record, error) {
	return post[admin.Record](ctx, c, n.Path()+"/snooze", what)
}

// Hand hands a record to a name.
func (c *Client) Hand(ctx context.Context, n Name, what admin.Handing) (admin.Record, error) {
	return post[admin.Record](ctx, c, n.Path()+"/hand", what)
}

// Delete drops a stored result, so that the key can be used again. Evidence is not sent.
func (c *Client) Delete(ctx context.Context, n Name, what admin.Change) error {
	what.Evidence = ""
	return c.call(ctx, http.MethodDelete, n.Path()+"?"+values(what).Encode(), nil, nil)
}

// FindPath is, in the API, a search for a text as a key, an id, a trace, and the names of other
// systems; in one scope, unless that is "". The document is an [admin.Search].
func FindPath(text, scope string) string {
	q := url.Values{"q": {text}}
	set(q, "scope", scope)
	return "/api/v1/find?" + q.Encode()
}

// IncidentQuery selects incidents; what is "" selects all.
type IncidentQuery struct {
	Scope string `json:"scope,omitzero"`
	Route string `json:"route,omitzero"`
	With  string `json:"with,omitzero"` // to whom records were handed
}

// Path is the list's in the API.
func (q IncidentQuery) Path() string { return "/api/v1/incidents?" + values(q).Encode() }

// IncidentPath is an incident's in the API.
func IncidentPath(id string) string { return "/api/v1/incidents/" + Segment(id) }

// Incidents lists the groups of unknown records, the most pressing first.
func (c *Client) Incidents(ctx context.Context, q IncidentQuery) ([]admin.Incident, error) {
	return named[admin.Incident](ctx, c, q.Path(), "incidents")
}

// named reads a list that has no pages.
func named[T any](ctx context.Context, c *Client, path, name string) (rows []T, err error) {
	err = c.list(ctx, path, name, &rows, nil)
	return rows, err
}
