package console

import (
	"net/http"
	"net/url"
	"strings"
)

// pageRow is a page, the role that it takes, and the address of the API's document that it is drawn
// from.
type pageRow struct {
	path, role string
	draw       pageFunc
	twin       func(*page) string
}

// changeRow is a form, and the role that it takes: that of the call that it makes.
type changeRow struct {
	path, role string
	do         pageFunc
}

// list is the address of a document that takes these parameters of the page's query.
func list(at string, allowed ...string) func(*page) string {
	return func(p *page) string { return at + p.filter(allowed...) }
}

// of is the address of the document of what the page's path names.
func of(format, name string) func(*page) string {
	return func(p *page) string { return address(format, p.r.PathValue(name)) }
}

// drawn is a page that is drawn from one list alone: that of its twin.
func drawn(path, role string, draw func(*page, *lists) error, twin func(*page) string) pageRow {
	return pageRow{path, role, func(p *page) error {
		var doc lists
		if err := p.get(twin(p), &doc); err != nil {
			return err
		}
		return draw(p, &doc)
	}, twin}
}

// pages are all pages.
var pages = []pageRow{
	{"/{$}", "viewer", (*page).overview, list("/api/v1/status")},
	drawn("/unknown", "viewer", (*page).unknown, list("/api/v1/incidents")),
	{"/unknown/{incident}", "viewer", (*page).incident, of("/api/v1/incidents/%s", "incident")},
	{"/unknown/{incident}/{do}", "operator", (*page).many, of("/api/v1/incidents/%s", "incident")},
	{"/keys", "viewer", (*page).keys, list("/api/v1/keys", keyFilters...)},
	{"/keys/{id}", "viewer", (*page).key, of("/api/v1/keys/%s", "id")},
	{"/keys/{scope}/{id}", "viewer", (*page).keyOfScope, nil},
	{"/keys/{id}/happened", "operator", onForm("happened", (*page).happened), of("/api/v1/keys/%s", "id")},
	{"/keys/{id}/released", "operator", onForm("released", (*page).released), of("/api/v1/keys/%s", "id")},
	{"/keys/{id}/forget", "admin", onForm("forget", (*page).forgetting), of("/api/v1/keys/%s", "id")},
	{"/dead", "viewer", (*page).dead, (*page).deadMessages},
	{"/outbox/{message}", "viewer", (*page).message, of("/api/v1/outbox/%s", "message")},
	drawn("/routes", "viewer", (*page).routes, list("/api/v1/routes")),
	drawn("/scopes", "viewer", (*page).scopes, list("/api/v1/scopes")),
	{"/audit", "viewer", (*page).audit, list("/api/v1/audit", auditFilters...)},
	{"/audit/export", "viewer", (*page).export, nil},
	drawn("/config", "viewer", (*page).config, list("/api/v1/config")),
	drawn("/jobs", "viewer", (*page).jobs, list("/api/v1/bulk")),
	{"/jobs/{job}", "viewer", (*page).job, of("/api/v1/bulk/%s", "job")},
	{"/jobs/{job}/report", "viewer", (*page).report, nil},
	{"/find", "viewer", (*page).findPage, nil},
}

// changes are the forms. Each makes a call that changes something, or that shows what is hidden.
var changes = []changeRow{
	{"/keys/{id}/resolve", "operator", onForm("happened", (*page).resolve)},
	{"/keys/{id}/release", "operator", onForm("released", (*page).release)},
	{"/keys/{id}/forget", "admin", onForm("forget", (*page).forget)},
	{"/keys/{id}/probe", "operator", (*page).probe},
	{"/keys/{id}/snooze", "operator", (*page).snooze},
	{"/keys/{id}/hand", "operator", (*page).hand},
	{"/keys/{id}/note", "operator", (*page).annotate},
	{"/keys/{id}/reveal", "operator", (*page).reveal},
	{"/unknown/{incident}/{do}", "operator", (*page).many},
	{"/jobs/{job}/stop", "operator", (*page).turn},
	{"/jobs/{job}/resume", "operator", (*page).turn},
	{"/outbox/{message}/retry", "operator", (*page).settleMessage},
	{"/outbox/{message}/confirm", "operator", (*page).settleMessage},
	{"/outbox/{message}/discard", "operator", (*page).settleMessage},
	{"/outbox/{message}/reveal", "operator", (*page).revealMessage},
	{"/find", "viewer", (*page).find},
}

// twin returns the handler of a page's twin: what is asked for with .json after its address.
func (h *console) twin(at func(*page) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := h.newPage(w, r)
		if err := p.api.Relay(r.Context(), w, at(p)); err != nil {
			p.fail(err)
		}
	}
}

// untwinned is the request for the page whose twin is asked for, or nil.
func untwinned(r *http.Request) *http.Request {
	plain, ok := strings.CutSuffix(r.URL.Path, ".json")
	if !ok {
		return nil
	}
	if plain == "/index" {
		plain = "/"
	}
	in := r.Clone(r.Context())
	in.URL.Path, in.URL.RawPath = plain, strings.TrimSuffix(r.URL.RawPath, ".json")
	return in
}

// filter is the part of the page's query that the API understands, with the cursor opened.
func (p *page) filter(allowed ...string) string {
	q := url.Values{}
	for _, name := range allowed {
		if v := p.r.URL.Query().Get(name); v != "" {
			q.Set(name, v)
		}
	}
	if c := p.r.URL.Query().Get("cursor"); c != "" && len(allowed) > 0 {
		if opened, ok := p.console.Sessions.cursors.Open(c, ""); ok {
			c = opened
		} // else the API says what is wrong with it
		q.Set("cursor", c)
	}
	return query(q)
}
