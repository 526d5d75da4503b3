package adminclient

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/stet-dev/stet/internal/members"
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
	for name, value := range members.Values(q) {
		all[name] = value[0]
	}
	return all
}

// Keys lists records.
func (c *Client) Keys(q operate.RecordQuery) List[operate.Record] {
	return List[operate.Record]{c, "/api/v1/keys", "keys", members.Values(q)}
}

// Records implements [operate.API].
func (c *Client) Records(ctx context.Context, q operate.RecordQuery) (operate.RecordList, error) {
	return get[operate.RecordList](ctx, c, "/api/v1/keys?"+members.Values(q).Encode())
}

// Record implements [operate.API].
func (c *Client) Record(ctx context.Context, n operate.Name) (operate.Record, error) {
	return get[operate.Record](ctx, c, RecordPath(n))
}

// Reveal implements [operate.API].
func (c *Client) Reveal(ctx context.Context, n operate.Name, reason string) (operate.Record, error) {
	return get[operate.Record](ctx, c, RecordPath(n)+Revealing(reason))
}

// Revealing is the query that reveals what a path names, for a reason, if there is one.
func Revealing(reason string) string {
	q := url.Values{"reveal": {"1"}}
	set(q, "reason", reason)
	return "?" + q.Encode()
}

// Resolve implements [operate.API].
func (c *Client) Resolve(ctx context.Context, n operate.Name, what operate.Resolution) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/resolve", what)
}

// Release implements [operate.API].
func (c *Client) Release(ctx context.Context, n operate.Name, what operate.Resolution) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/release", what)
}

// Extend implements [operate.API].
func (c *Client) Extend(ctx context.Context, n operate.Name, what operate.Extension) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/extend", what)
}

// Probe implements [operate.API].
func (c *Client) Probe(ctx context.Context, n operate.Name, what operate.Question) (operate.Probed, error) {
	return post[operate.Probed](ctx, c, RecordPath(n)+"/probe", what)
}

// Note implements [operate.API].
func (c *Client) Note(ctx context.Context, n operate.Name, what operate.Remark) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/note", what)
}

// Snooze implements [operate.API].
func (c *Client) Snooze(ctx context.Context, n operate.Name, what operate.Snoozing) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/snooze", what)
}

// Hand implements [operate.API].
func (c *Client) Hand(ctx context.Context, n operate.Name, what operate.Handing) (operate.Record, error) {
	return post[operate.Record](ctx, c, RecordPath(n)+"/hand", what)
}

// Delete implements [operate.API]. Evidence is not sent.
func (c *Client) Delete(ctx context.Context, n operate.Name, what operate.Change) error {
	what.Evidence = ""
	return c.call(ctx, http.MethodDelete, RecordPath(n)+"?"+members.Values(what).Encode(), nil, nil)
}

// FindPath is, in the API, a search for a text as a key, an id, a trace, and the names of other
// systems; in one scope, unless that is "". The document is an [operate.Search].
func FindPath(text, scope string) string {
	q := url.Values{"q": {text}}
	set(q, "scope", scope)
	return "/api/v1/find?" + q.Encode()
}

// Find implements [operate.API].
func (c *Client) Find(ctx context.Context, q operate.SearchQuery) (operate.Search, error) {
	return get[operate.Search](ctx, c, "/api/v1/find?"+members.Values(q).Encode())
}

// IncidentsPath is the list's in the API.
func IncidentsPath(q operate.IncidentQuery) string {
	return "/api/v1/incidents?" + members.Values(q).Encode()
}

// IncidentPath is an incident's in the API.
func IncidentPath(id string) string { return "/api/v1/incidents/" + Segment(id) }

// Incidents implements [operate.API].
func (c *Client) Incidents(ctx context.Context, q operate.IncidentQuery) (operate.IncidentList, error) {
	return get[operate.IncidentList](ctx, c, IncidentsPath(q))
}

// Incident implements [operate.API].
func (c *Client) Incident(ctx context.Context, id string, s operate.Shown) (operate.Incident, error) {
	return get[operate.Incident](ctx, c, IncidentPath(id)+"?"+members.Values(s).Encode())
}
