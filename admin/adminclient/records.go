package adminclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/stet-dev/stet/operate"
)

// RecordPath is a record's in the API.
func RecordPath(n operate.Name) string {
	if n.Scope == "" {
		return "/api/v1/keys/" + Segment(n.Key)
	}
	return "/api/v1/keys/" + Segment(n.Scope) + "/" + Segment(n.Key)
}

// Segment escapes a key, a scope or another name for a path. Dots are escaped as well: "." and ".."
// would be taken for a direction.
func Segment(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }

// Parameters are a query as a bulk job takes it.
func Parameters(q operate.RecordQuery) operate.Parameters {
	all := operate.Parameters{}
	for name, value := range recordValues(q) {
		all[name] = value[0]
	}
	return all
}

// values are the members of a document that are not zero, as a query has them: byte for byte, which
// JSON does not keep.
func values(doc any) url.Values {
	all, v := url.Values{}, reflect.ValueOf(doc)
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		member := v.FieldByIndex(f.Index)
		switch at, instant := member.Interface().(time.Time); {
		case name == "" || member.IsZero():
		case instant:
			all.Set(name, at.Format(time.RFC3339Nano))
		default:
			all.Set(name, fmt.Sprint(member))
		}
	}
	return all
}

func recordValues(q operate.RecordQuery) url.Values {
	all := values(q)
	set(all, "q", string(q.Key)) // it hides itself from fmt
	return all
}

// Keys lists records.
func (c *Client) Keys(q operate.RecordQuery) List[operate.Record] {
	return List[operate.Record]{c, "/api/v1/keys", "keys", recordValues(q)}
}

// Record shows a record.
func (c *Client) Record(ctx context.Context, n operate.Name) (operate.Record, error) {
	return get[operate.Record](ctx, c, RecordPath(n))
}

// Reveal shows a record with its key and its stored response, which the audit trail keeps with the
// reason, if there is one. It takes an operator.
func (c *Client) Reveal(ctx context.Context, n operate.Name, reason string) (operate.Record, error) {
	return get[operate.Record](ctx, c, RecordPath(n)+Revealing(reason))
}

// Revealing is the query that reveals what a path names, for a reason, if there is one.
func Revealing(reason string) string {
	q := url.Values{"reveal": {"1"}}
	set(q, "reason", reason)
	return "?" + q.Encode()
}

// Resolve ends an unknown outcome.
func (c *Client) Resolve(ctx context.Context, n operate.Name, what operate.Resolution) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/resolve", what)
}

// Release says that nothing happened: one retry may run.
func (c *Client) Release(ctx context.Context, n operate.Name, what operate.Resolution) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/release", what)
}

// Extend keeps a result for longer.
func (c *Client) Extend(ctx context.Context, n operate.Name, what operate.Extension) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/extend", what)
}

// Probe asks the upstream now what became of a record.
func (c *Client) Probe(ctx context.Context, n operate.Name, what operate.Question) (operate.Probed, error) {
	return post[operate.Probed](ctx, c, RecordPath(n)+"/probe", what)
}

// Note adds to the audit trail.
func (c *Client) Note(ctx context.Context, n operate.Name, what operate.Remark) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/note", what)
}

// Snooze takes an unknown record out of list and alert for a while, or wakes it.
func (c *Client) Snooze(ctx context.Context, n operate.Name, what operate.Snoozing) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/snooze", what)
}

// Hand hands a record to a name.
func (c *Client) Hand(ctx context.Context, n operate.Name, what operate.Handing) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/hand", what)
}

// Delete drops a stored result, so that the key can be used again. Evidence is not sent.
func (c *Client) Delete(ctx context.Context, n operate.Name, what operate.Change) error {
	what.Evidence = ""
	return c.call(ctx, http.MethodDelete, RecordPath(n)+"?"+values(what).Encode(), nil, nil)
}

// FindPath is, in the API, a search for a text as a key, an id, a trace, and the names of other
// systems; in one scope, unless that is "". The document is an [operate.Search].
func FindPath(text, scope string) string {
	q := url.Values{"q": {text}}
	set(q, "scope", scope)
	return "/api/v1/find?" + q.Encode()
}

// IncidentsPath is the list's in the API.
func IncidentsPath(q operate.IncidentQuery) string { return "/api/v1/incidents?" + values(q).Encode() }

// IncidentPath is an incident's in the API.
func IncidentPath(id string) string { return "/api/v1/incidents/" + Segment(id) }

// Incidents lists the groups of unknown records, the most pressing first.
func (c *Client) Incidents(ctx context.Context, q operate.IncidentQuery) ([]operate.Incident, error) {
	return named[operate.Incident](ctx, c, IncidentsPath(q), "incidents")
}

// named reads a list that has no pages.
func named[T any](ctx context.Context, c *Client, path, name string) (rows []T, err error) {
	err = c.list(ctx, path, name, &rows, nil)
	return rows, err
}
