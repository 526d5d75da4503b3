package console

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
)

//go:embed templates
var templateFiles embed.FS

// templates are parsed when the first page is drawn: commands that draw none do not wait for it.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"icon": icon, "use": use, "path": methodPath, "dict": dict,
		"num": number[int], "bytes": sizeOf, "plural": plural, "percent": percent, "milli": milli, "rate": rate,
		"mark": func(r operate.Record) mark { return markOf(&r) }, "messageMark": messageMark,
		"state":   func(word string) mark { return marked(marks, word) },
		"ending":  func(word string) mark { return marked(endings, word) },
		"foundBy": func(word string) string { return cmp.Or(foundBy[word], word) }, "entry": ofEntry, "jobOf": jobOf,
		"short": short, "stamp": stamp, "full": full, "probed": (*operate.ProbeAnswer).Text, "probesTotal": probesTotal,
		"seenAs": seenAs, "isDefault": isDefault, "sorted": sorted,
		"keyURL": keyURL, "scopeURL": scopeURL, "routeURL": routeURL,
	}).ParseFS(templateFiles, "templates/*.html"))
})

// page is a request for a page, by a user who may see it.
type page struct {
	api     admin.API // what the user can do
	token   string    // of the session
	console *console
	w       http.ResponseWriter
	r       *http.Request
	Now     time.Time // when the page was drawn
	Who     admin.Whoami
	CSRF    string   // is in every form that changes something
	session *session // nil: the user needed none
}

// view is what a template draws.
type view struct {
	*page
	// Name is the page's entry in the list of pages; Title comes first in the window's title.
	Name, Title string
	// Live is how often the page reads itself again, in seconds; 0 means never.
	Live int
	// Status is what the frame shows; nil where the API has none.
	Status *operate.Status
	// Wait is set while the page has its frame alone.
	Wait bool
	// Note is an answer of the console to what the user did.
	Note *note
	D    any
}

// note is an answer of the console, said where it happened.
type note struct {
	Kind string // done, unknown, dead, or empty
	Icon string
	Bold string
	Text string
	Link string // an address of more
	More string // what the link says
}

// pageFunc draws a page, or makes a change. An error that it returns becomes a page.
type pageFunc func(*page) error

// mount registers every page, and every change.
func (h *console) mount() {
	h.mux.HandleFunc("GET /assets/{version}/{file}", h.assets.serve)
	h.mux.HandleFunc("GET /login", h.loginPage)
	h.mux.HandleFunc("POST /login", h.login)
	h.mux.HandleFunc("POST /logout", h.logout)
	for _, rt := range pages {
		h.mux.HandleFunc("GET "+rt.path, h.page(rt.role, rt.draw))
	}
	for _, rt := range changes {
		h.mux.HandleFunc("POST "+rt.path, h.page(rt.role, change(rt.do)))
	}
	h.mux.HandleFunc("/", h.page("viewer", func(*page) error { return noPage }))
}

var noPage = &problem{Status: http.StatusNotFound, Code: "not-found", Title: "There is no such page",
	Detail: "Every page of the console has the list of all of them."}

// newPage is a request whose user was not let in yet: see [page.enter].
func (h *console) newPage(w http.ResponseWriter, r *http.Request) *page {
	p := &page{console: h, w: w, r: r, Now: h.Now().UTC(), CSRF: h.csrf}
	if s := h.sessionOf(r); s != nil {
		p.token, p.CSRF, p.session = s.Token, s.CSRF, s
	}
	return p
}

// enter lets the user in: by the token of the session, or as the request itself is let in.
func (p *page) enter() (leave func(), err error) {
	p.api, leave, err = p.console.door.Enter(p.r, p.token)
	if err != nil {
		return leave, fit(err)
	}
	p.Who, err = tidied(p.api.Whoami(p.ctx()))
	return leave, err
}

func (p *page) ctx() context.Context { return p.r.Context() }

// oldAfter is from when on a page says how old what it shows of all unknown records is. A page reads
// itself every 5 s.
const oldAfter = 10 * time.Second

// glance is a context for readings of all unknown records.
func (p *page) glance() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.ctx(), p.console.patience)
}

// page returns the handler of a page, or of a form, for those with a role. It finds out who asks:
// some have to sign in first.
func (h *console) page(role string, draw pageFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := h.newPage(w, r)
		leave, err := p.enter()
		defer leave()
		switch bad, is := errors.AsType[*problem](err); {
		case is && bad.Status == http.StatusUnauthorized:
			h.askToSignIn(w, r)
			return
		case err == nil && !p.May(role):
			err = &problem{Status: http.StatusForbidden, Code: "forbidden", Title: "This takes the role " + role,
				Detail: "You can read. Somebody with that role can do it."}
		case err == nil:
			if p.session != nil {
				h.renew(w, r, p.session)
			}
			if p.Reading() && inFull(r) {
				p.drawPage(draw)
				return
			}
			err = draw(p)
		}
		if err != nil {
			p.fail(err)
		}
	}
}

// downloads are pages that are no page.
var downloads = []string{"/export", "/report"}

// inFull reports whether a request is for a page by itself, and not for a part of the one that the
// browser has, or for a file.
func inFull(r *http.Request) bool {
	return !ticks(r) && r.Header.Get("HX-Request") == "" &&
		!slices.ContainsFunc(downloads, func(end string) bool { return strings.HasSuffix(r.URL.Path, end) })
}

// ticks reports whether a page that is left open asks for itself.
func ticks(r *http.Request) bool { return r.Header.Get(tickHeader) != "" }

// maxForm bounds the body of a form: a response of the size that is kept by default, encoded, and
// the rest.
const maxForm = 4 << 20

// change does what a form says, which has to come from a page of this console: its Origin and its
// token say so.
func change(do pageFunc) pageFunc {
	return func(p *page) error {
		err := p.readForm(maxForm)
		switch {
		case err != nil:
			return err
		case !same(p.Typed("csrf"), p.CSRF):
			return foreignForm
		}
		return do(p)
	}
}

// readForm reads a form of at most so many bytes, unless a page of another site has sent it.
func (p *page) readForm(most int64) error {
	p.r.Body = http.MaxBytesReader(p.w, p.r.Body, most)
	if p.console.foreign.Check(p.r) != nil {
		return foreignForm
	}
	if p.r.ParseForm() != nil {
		return &problem{Status: http.StatusBadRequest, Title: "The form cannot be read",
			Detail: "It is too long, or was cut off. Nothing was changed."}
	}
	return nil
}

var foreignForm = &problem{Status: http.StatusForbidden, Code: "forbidden",
	Title:  "This form is not from a page of yours",
	Detail: "Nothing was changed. The page was of another session, or of another site: open it again, and do it there."}

// fault is what is wrong with a form.
type fault struct {
	Error string
	At    string // the field that the error is about
}

// answered goes on after a form was sent to the API: with another page, or with the form and what
// is wrong with it. Where a field is not at fault, a note says why nothing was changed.
func (p *page) answered(err error, next string, f *fault, again func(status int, n *note) error) error {
	bad, is := errors.AsType[*problem](err)
	switch {
	case err == nil:
		return p.to(next)
	case !is:
		return err
	case f != nil && bad.Status == http.StatusBadRequest:
		f.Error, f.At = bad.Detail, bad.Parameter
		return again(bad.Status, nil)
	}
	return again(bad.Status, failed(bad))
}

// render answers with a page.
func (p *page) render(status int, name string, v view) error {
	if v.Name = cmp.Or(v.Name, name); !p.Reading() || !p.Is("cursor", "") {
		v.Live = 0 // its address answers forms, or its list stands still while it is read
	}
	if v.Status == nil {
		v.Status = p.status()
	}
	return p.write(status, name, v)
}

func (p *page) write(status int, name string, v view) error {
	v.page = p
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, name+".html", v); err != nil {
		return fmt.Errorf("console: the page %s cannot be drawn: %w", name, err)
	}
	p.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	p.w.WriteHeader(status)
	_, _ = p.w.Write(b.Bytes())
	return nil
}

// status is what the frame of every page shows, or nil where the API does not say.
func (p *page) status() *operate.Status {
	ctx, cancel := p.glance()
	defer cancel()
	s, err := tidied(p.api.Overview(ctx))
	if err != nil {
		return nil
	}
	return &s
}

// fail answers with a page that says what went wrong. It must not fail itself. Those who were not
// let in are shown nothing but the problem: no title, and no form.
func (p *page) fail(err error) {
	bad, ok := errors.AsType[*problem](err)
	if !ok {
		p.console.Log.LogAttrs(p.r.Context(), slog.LevelError, "a page of the console could not be drawn",
			slog.String("error", err.Error()))
		bad = &problem{Status: http.StatusInternalServerError, Title: "The page cannot be drawn",
			Detail: "The gateway's log says why. Nothing was changed."}
	}
	if bad.RetryAfter != "" {
		p.w.Header().Set("Retry-After", bad.RetryAfter)
	}
	v, name := view{Title: bad.Title, D: bad}, "refused"
	if bad.Code == "not-found" && bad != noPage && bad != noKey {
		v.Title = "There is no such key, incident or page"
	}
	if p.Who.Role != "" {
		name = "problem"
		if bad.Status < http.StatusInternalServerError { // else the status would fail, too
			v.Status = p.status()
		}
	}
	_ = p.write(bad.Status, name, v)
}

// to answers a form with the address of the page to go on with.
func (p *page) to(at string) error {
	http.Redirect(p.w, p.r, at, http.StatusSeeOther)
	return nil
}

// known is the status; where the API has none, an empty one.
func (v view) known() *operate.Status { return cmp.Or(v.Status, &operate.Status{}) }

// Where is the name of the installation.
func (v view) Where() string { return v.known().Title }

// Waiting is how many unknown records wait for a person or a probe, "?" where that was not read.
func (v view) Waiting() string { return v.count(v.Unread(), v.known().Waiting) }

// Unread reports whether it is not known how many unknown records there are.
func (v view) Unread() bool { return v.Status == nil || v.Status.Unread }

// Old reports whether what is shown of unknown records was read some time ago.
func (v view) Old() bool {
	return !v.Unread() && !v.Status.ReadAt.IsZero() && v.Now.Sub(v.Status.ReadAt) > oldAfter
}

func (v view) count(unread bool, n int) string {
	switch {
	case unread:
		return "?"
	case v.Status.More:
		return number(n) + "+"
	}
	return number(n)
}

// TraceURL is the address of a trace, or empty.
func (v view) TraceURL(id string) string {
	if id == "" {
		return ""
	}
	return strings.ReplaceAll(v.known().TraceURL, "{trace_id}", url.PathEscape(id))
}

// DeadLetters counts those of keys and of the outbox, "?" where either was not read.
func (v view) DeadLetters() string {
	return v.count(v.Unread() || v.Status.OutboxUnread, v.known().Dead+v.deadMessages())
}

func (v view) deadMessages() int { return *cmp.Or(v.known().OutboxDead, new(int)) }

// Gateways counts those that are ready, and those that have not ended.
func (v view) Gateways() (n struct{ Ready, Known int }) {
	for _, g := range v.known().Gateways {
		n.Ready, n.Known = n.Ready+btoi(g.State == "ready"), n.Known+btoi(g.State != "ended")
	}
	return n
}

// Asset is the address of a file.
func (p *page) Asset(file string) string { return p.console.assets[file] }

// Day is the date, in full.
func (p *page) Day() string { return p.Now.Format("Monday, 2 January 2006") }

// Session reports whether the user has signed in, and can leave.
func (p *page) Session() bool { return p.session != nil }

// May reports whether the user has at least a role.
func (p *page) May(role string) bool { return roles[p.Who.Role] >= roles[role] }

var roles = map[string]int{"viewer": 1, "operator": 2, "admin": 3}

// Self is the address of the page.
func (p *page) Self() string { return p.r.URL.RequestURI() }

// Typed is what was typed into a field of the form that was sent.
func (p *page) Typed(name string) string { return p.r.PostForm.Get(name) }

// verb is the last word of the address: of a form, what it is for.
func (p *page) verb() string { return path.Base(p.r.URL.Path) }

// Sent reports whether the page answers the form for a verb.
func (p *page) Sent(verb string) bool { return !p.Reading() && p.verb() == verb }

// Reading reports whether the page can be read again: it is not the answer to a form.
func (p *page) Reading() bool { return p.r.Method == http.MethodGet || p.r.Method == http.MethodHead }

// Query is the page's filter, for another page with the same.
func (p *page) Query() string {
	q := p.r.URL.Query()
	q.Del("cursor")
	return query(q)
}

// query is a query with its question mark, or nothing. What a page adds for itself is left out.
func query(q url.Values) string {
	if q.Del("done"); len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// With is the address of the page with one parameter of its query changed, and without those that
// stand for a place in a list.
func (p *page) With(name, value string) string {
	q := p.r.URL.Query()
	q.Del("cursor")
	q.Set(name, value)
	if value == "" {
		q.Del(name)
	}
	return p.r.URL.EscapedPath() + query(q)
}

// Next is the address of the next part of a list.
func (p *page) Next(c string) string {
	return p.With("cursor", p.console.box.Seal(c, asCursor))
}

// Is reports whether a parameter of the query has a value.
func (p *page) Is(name, value string) bool { return p.r.URL.Query().Get(name) == value }

// address is a path from segments that are names, each escaped.
func address(format string, names ...string) string {
	escaped := make([]any, len(names))
	for i, n := range names {
		escaped[i] = strings.ReplaceAll(url.PathEscape(n), ".", "%2E") // dots would be a direction
	}
	return fmt.Sprintf(format, escaped...)
}

// keyURL is the address of a key's page. It has the record's id in it, and never the key.
func keyURL(id string) string { return address("/keys/%s", id) }

// short cuts the middle out of an id that is long.
func short(id string) string {
	if len(id) <= 17 {
		return id
	}
	return id[:8] + "…" + id[len(id)-6:]
}

func scopeURL(scope string) string { return "/keys?" + url.Values{"scope": {scope}}.Encode() }

func routeURL(route string) string { return "/routes?" + url.Values{"route": {route}}.Encode() }
