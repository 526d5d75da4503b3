package console_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/console"
)

// visitor is a user with a browser that keeps cookies and runs no scripts.
type visitor struct {
	t       *testing.T
	h       http.Handler
	cookies map[string]string
	header  http.Header
}

func visit(t *testing.T, f http.Handler, c console.Config) *visitor {
	t.Helper()
	c.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	if api, is := f.(*fake); is { // its pages are of its day
		c.Now = func() time.Time { return api.now }
	}
	h := console.New(doorOf(f), c)
	console.SetPatience(h, time.Hour) // a busy machine is no slow store
	return &visitor{t, h, map[string]string{}, http.Header{}}
}

// as is a visitor who has signed in.
func as(t *testing.T, f http.Handler, role string) *visitor {
	t.Helper()
	v := visit(t, f, console.Config{ProbeURL: "http://payments.internal:3000{path}?key={key}&tenant={scope}"})
	v.signIn(role + "-token")
	return v
}

func (v *visitor) signIn(token string) *http.Response {
	v.t.Helper()
	res, _ := v.send("POST", "/login", url.Values{"token": {token}, "next": {"/unknown"}})
	return res
}

func (v *visitor) send(method, at string, form url.Values) (*http.Response, string) {
	v.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	at, _, _ = strings.Cut(at, "#") // a browser keeps that to itself
	r := httptest.NewRequest(method, "http://localhost"+at, body)
	r.RemoteAddr = "127.0.0.1:1234"
	for name, values := range v.header {
		r.Header[name] = values
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if r.Header.Get("Origin") == "" {
			r.Header.Set("Origin", "http://localhost")
		}
	}
	for name, value := range v.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, r)
	res := w.Result()
	for _, c := range res.Cookies() {
		v.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(v.cookies, c.Name)
		}
	}
	return res, w.Body.String()
}

func (v *visitor) get(at string) (*http.Response, string) {
	v.t.Helper()
	return v.send("GET", at, nil)
}

// page is a page that has to be there.
func (v *visitor) page(at string) string {
	v.t.Helper()
	res, body := v.get(at)
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		v.t.Fatalf("%s: %d %v\n%.2000s", at, res.StatusCode, res.Header, body)
	}
	return body
}

// submit sends a form as a page has it, with what is typed.
func (v *visitor) submit(page, action string, typed url.Values) (*http.Response, string) {
	v.t.Helper()
	form := url.Values{}
	for _, f := range formsOf(page) {
		if f.action == action {
			for name, values := range f.fields {
				form[name] = values
			}
		}
	}
	if form.Get("csrf") == "" {
		v.t.Fatalf("the page has no form for %s", action)
	}
	for name, values := range typed {
		form[name] = values
	}
	return v.send("POST", action, form)
}

// pages are the addresses of one page of each kind.
var pages = []string{"/", "/unknown", "/unknown?which=late", "/unknown?which=snoozed", "/unknown?open=i-v1-refunds", "/unknown/i-v1-charges",
	"/unknown/i-v1-charges/release", "/unknown/i-v1-refunds/resolve", "/unknown/i-v1-charges/probe", "/unknown/i-v1-charges/snooze", "/unknown/i-v1-charges/hand", "/keys", "/keys?state=unknown&scope=acme", "/keys/" + cutID, "/keys/" + lateID, "/keys/" + deadID, "/keys/" + doneID,
	"/keys/" + cutID + "/happened", "/keys/" + lateID + "/happened", "/keys/" + cutID + "/released", "/keys/" + cutID + "/released?cancelled=1", "/keys/" + doneID + "/forget",
	"/dead", "/outbox/18204", "/routes", "/audit", "/audit?who=otto", "/config", "/config?changed=1", "/jobs", "/jobs/bulk_1", "/jobs/bulk_2", "/find"}

// Each page has what every page has, whatever the role of its reader: one heading, a name for every
// field, no script or style of its own, and no id twice.
func TestPages(t *testing.T) {
	f := newFake()
	for _, role := range []string{"viewer", "operator", "admin"} {
		v := as(t, f, role)
		for _, at := range pages {
			res, page := v.get(at)
			if res.StatusCode == http.StatusForbidden && role != "admin" {
				continue // a form of another role
			}
			if res.StatusCode != http.StatusOK {
				t.Errorf("%s, %s: %d", at, role, res.StatusCode)
				continue
			}
			for _, p := range faults(page) {
				t.Errorf("%s, %s: %s", at, role, p)
			}
			if !strings.Contains(page, "production eu-1") {
				t.Errorf("%s, %s: the installation is not in sight", at, role)
			}
		}
	}
}

// A page that is not looked at by these tests is missed.
func TestEveryPageIsLookedAt(t *testing.T) {
	elsewhere := []string{"/keys/{scope}/{id}", "/audit/export", "/jobs/{job}/report"} // which draw none
	mux, seen := http.NewServeMux(), map[string]bool{}
	for _, at := range console.Pages() {
		mux.HandleFunc(at, func(http.ResponseWriter, *http.Request) {})
	}
	for _, at := range pages {
		_, pattern := mux.Handler(httptest.NewRequest(http.MethodGet, at, nil))
		seen[pattern] = true
	}
	for _, at := range console.Pages() {
		if !seen[at] && !slices.Contains(elsewhere, at) {
			t.Errorf("no test looks at %s", at)
		}
	}
}

// The export is every entry that the filter selects, a line each.
func TestExportOfTheAuditTrail(t *testing.T) {
	v := as(t, newFake(), "viewer")
	if page := v.page("/audit?id=" + cutID); !strings.Contains(page, `href="/audit/export?id=`+cutID+`"`) {
		t.Error("the page has no link to it, with its filter")
	}
	res, lines := v.get("/audit/export?id=" + cutID)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/x-ndjson" || strings.Count(lines, "\n") != 1 || strings.Count(lines, `"action":"probe"`) != 1 {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, lines)
	}
	if res, page := v.get("/audit/export?since=yesterday"); res.StatusCode != 400 || !strings.Contains(page, "such as 2026") {
		t.Errorf("a wrong instant: %d", res.StatusCode)
	}
}

// Who was not let in is shown the problem, and nothing of the installation.
func TestThoseOutsideSeeNothing(t *testing.T) {
	f := newFake()
	v := visit(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusForbidden, "forbidden", "This name is not served here.")
	}), console.Config{})
	res, page := v.get("/unknown")
	if res.StatusCode != 403 || !strings.Contains(page, "not served here") || strings.Contains(page, "csrf") || strings.Contains(page, "<form") {
		t.Errorf("%d %s", res.StatusCode, page)
	}
	for _, at := range []string{"/nothing", "/keys.json", "/keys/" + cutID + ".json"} {
		if res, page := as(t, f, "viewer").get(at); res.StatusCode != 404 || !strings.Contains(page, "production eu-1") {
			t.Errorf("%s, of those inside: %d", at, res.StatusCode)
		}
	}
}

// A message's page lists the attempts that failed.
func TestAttemptsOfAMessage(t *testing.T) {
	says(t, "a message", as(t, newFake(), "viewer").page("/outbox/18204"), `<bdi>422 no such account</bdi></p><p class="meta">attempt 20</p>`)
}

// faults are what is wrong with a page.
func faults(page string) (all []string) {
	fault := func(s string) { all = append(all, s) }
	ids, refs := map[string]bool{}, map[string]string{}
	h1, open := 0, 0
	labelled, tags := spans(page, "<label", "</label>"), tagsOf(page)
	for _, t := range tags {
		if id := t.attrs["id"]; has(t, "id") {
			if ids[id] || id == "" {
				fault("the id " + id + " is there twice, or empty")
			}
			ids[id] = true
		}
		for _, name := range []string{"aria-describedby", "aria-labelledby", "for", "form"} {
			if to := t.attrs[name]; to != "" && !(name == "for" && t.name != "label") {
				refs[to] = name
			}
		}
		for name := range t.attrs {
			if name == "style" || strings.HasPrefix(name, "on") || strings.HasPrefix(name, "hx-on") {
				fault(t.name + " has the attribute " + name)
			}
		}
		switch t.name {
		case "h1":
			h1++
		case "style":
			fault("there is a style element")
		case "script":
			if !strings.HasPrefix(t.attrs["src"], "/assets/") {
				fault("a script is not one of the assets")
			}
		case "form":
			open++
		case "th":
			if t.attrs["scope"] == "" {
				fault("a head cell has no scope")
			}
		case "input", "select", "textarea":
			inside := slices.ContainsFunc(labelled, func(l [2]int) bool { return l[0] < t.at && t.at < l[1] })
			if t.attrs["type"] != "hidden" && t.attrs["aria-label"] == "" && !inside && !strings.Contains(page, `for="`+t.attrs["id"]+`"`) {
				fault("the field " + t.attrs["name"] + " has no label")
			}
		}
		for _, name := range []string{"href", "src", "action", "formaction"} {
			if to := strings.TrimSpace(strings.ToLower(t.attrs[name])); strings.HasPrefix(to, "javascript:") || strings.HasPrefix(to, "data:") || strings.HasPrefix(to, "//") {
				fault("an address that runs: " + to)
			}
		}
	}
	for to, name := range refs {
		if !ids[to] {
			fault(name + " refers to " + to + ", which is not there")
		}
	}
	if h1 != 1 {
		fault("a page has one heading of the first level")
	}
	for _, f := range formsIn(page, tags) {
		if f.method == "post" && f.fields.Get("csrf") == "" && f.action != "/login" {
			fault("the form for " + f.action + " has no token")
		}
	}
	if strings.Contains(page, "<no value>") || strings.Contains(page, "ZgotmplZ") || strings.Contains(page, "%!") {
		fault("a value is missing, or was refused")
	}
	return all
}

// Every link of every page leads to a page, and every form to something that takes it.
func TestLinksResolve(t *testing.T) {
	f := newFake()
	f.settle()
	v := as(t, f, "admin")
	seen, queue := map[string]bool{}, []string{"/"}
	follow := func(from, to string) {
		to, _, _ = strings.Cut(to, "#")
		if to == "" || strings.HasPrefix(to, "https://traces.example/") || seen[to] {
			return
		}
		if !strings.HasPrefix(to, "/") {
			t.Errorf("%s links to %s", from, to)
			return
		}
		seen[to] = true
		queue = append(queue, to)
	}
	actions := map[string]string{}
	for len(queue) > 0 && len(seen) < 500 {
		at := queue[0]
		queue = queue[1:]
		res, page := v.get(at)
		if res.StatusCode != 200 {
			t.Errorf("%s: %d", at, res.StatusCode)
		}
		if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
			continue
		}
		for _, tg := range tagsOf(page) {
			switch {
			case tg.name == "a" || tg.name == "link":
				follow(at, tg.attrs["href"])
			case tg.attrs["hx-get"] != "":
				follow(at, tg.attrs["hx-get"])
			case tg.name == "form" && strings.EqualFold(tg.attrs["method"], "post"):
				actions[tg.attrs["action"]] = at
			case tg.name == "form":
				follow(at, tg.attrs["action"])
			case tg.attrs["formaction"] != "":
				actions[tg.attrs["formaction"]] = at
			}
		}
	}
	if len(seen) < 40 || len(actions) < 15 {
		t.Errorf("only %d links and %d forms were found", len(seen), len(actions))
	}
	for action, from := range actions {
		if action == "/logout" {
			continue
		}
		action, _, _ = strings.Cut(action, "#")
		res, _ := v.send("POST", action, url.Values{"csrf": {"wrong"}})
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s has a form for %s, which answers %d", from, action, res.StatusCode)
		}
	}
	if len(f.changed()) > 0 {
		t.Errorf("reading changed something: %q", f.changed())
	}
}

// What is the admin API's goes to it as it is; the rest is the console's.
func TestPassesTheAPIThrough(t *testing.T) {
	var got []string
	h := console.New(door{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusTeapot)
	})}, console.Config{})
	for _, at := range []string{"/api/v1/keys", "/livez", "/readyz", "/metrics", "/policy.json", "/hooks/reconcile", "/problems/not-found", "/openapi.json", "/api/nothing"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("BREW", at, nil))
		if w.Code != http.StatusTeapot || len(got) == 0 || got[len(got)-1] != "BREW "+at {
			t.Errorf("%s: %d %q", at, w.Code, got)
		}
		if w.Header().Get("Content-Security-Policy") != "" {
			t.Errorf("%s has headers of the console", at)
		}
	}
	got = nil
	for _, at := range []string{"/", "/unknown", "/livezz", "/metrics/x", "/login", "/assets/none", "/nothing"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, at, nil))
		if w.Header().Get(admin.Marker) != "1" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %v", at, w.Header())
		}
	}
	for _, call := range got {
		if call != "GET /api/v1/whoami" {
			t.Errorf("the console called %s for those who have not signed in", call)
		}
	}
}

func TestHeaders(t *testing.T) {
	v := as(t, newFake(), "operator")
	res, page := v.get("/unknown")
	want := map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"}
	for name, value := range want {
		if got := res.Header.Get(name); got != value {
			t.Errorf("%s: %q", name, got)
		}
	}
	n := 0
	for _, tg := range tagsOf(page) {
		at := tg.attrs["src"] + tg.attrs["href"]
		if !strings.HasPrefix(at, "/assets/") {
			continue
		}
		n++
		res, body := v.get(at)
		if res.StatusCode != 200 || res.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || body == "" || res.Header.Get("Content-Type") == "" {
			t.Errorf("%s: %d %v", at, res.StatusCode, res.Header)
		}
	}
	if n != 5 {
		t.Errorf("%d assets", n)
	}
}

// A cursor of a store may have a key in it, and no key is in an address.
func TestCursorsAreSealed(t *testing.T) {
	v := as(t, newFake(), "operator")
	page := v.page("/keys")
	if strings.Contains(page, "order-4712") || strings.Contains(page, "cursor-with") {
		t.Error("the cursor is in the page")
	}
	next := ""
	for _, tg := range tagsOf(page) {
		if tg.attrs["rel"] == "next" {
			next = tg.attrs["href"]
		}
	}
	if next == "" {
		t.Fatal("no next page")
	}
	if page := v.page(next); strings.Contains(page, "data-live") {
		t.Error("a later page moves while it is read")
	}
}

// Where the API lacks documents, or does not answer, the pages say so and show what is known.
func TestDegrades(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	f.lacks = []string{"/api/v1/status", "/api/v1/audit", "/policy.json", "/api/v1/outbox"}
	for _, r := range f.records {
		r.Probe, r.Asking, r.Mismatch = nil, nil, nil
	}
	for _, at := range []string{"/", "/unknown", "/keys/" + cutID, "/keys/" + lateID, "/keys/" + doneID, "/keys/" + cutID + "/happened", "/routes", "/dead"} {
		for _, p := range faults(v.page(at)) {
			t.Errorf("%s: %s", at, p)
		}
	}
	f.lacks, f.status = nil, 503
	says(t, "unknown, not read", v.page("/unknown"), "<b>Not read yet</b>", `data-live="5"`, "!Nothing is unknown", `<span id="n-unknown" class="n n-unknown">?</span>`, `<span id="n-dead" class="n n-dead">?</span>`)
	res, page := v.get("/keys")
	if res.StatusCode != 503 || !strings.Contains(page, "store-unavailable") || !strings.Contains(page, "stet explain") {
		t.Errorf("%d %s", res.StatusCode, page)
	}
}
