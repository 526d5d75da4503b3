package console_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/console"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/operate/fleet"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

// shop is an engine with records of every state, and its API.
type shop struct {
	testing.TB
	engine *stet.Engine
	api    http.Handler
}

func newShop(t *testing.T, settle time.Duration) *shop {
	t.Helper()
	board := fleet.New(fleet.Config{Version: "test"})
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Pepper: []byte("pepper"), Holder: "gw-1:1", Observe: board.Observe})
	if err != nil {
		t.Fatal(err)
	}
	jobs := operate.NewJobs()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = jobs.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	missing := reconcile.Resolver(func(context.Context, stet.Head) (reconcile.Finding, error) {
		return reconcile.Finding{Effect: reconcile.Missing, Status: 404, Evidence: "the probe was answered 404"}, nil
	})
	asked := &reconcile.Reconciler{Engine: e, Resolver: missing, Settle: settle}
	s := &shop{TB: t, engine: e}
	s.api = admin.New(e, admin.Config{
		Config: operate.Config{Title: "production eu-1", Settle: settle, Reconciler: asked, Jobs: jobs,
			Asking: board.Asking, Figures: board.Figures},
		Settings: func() []admin.Setting { return []admin.Setting{{Path: "listen", Value: ":8080"}} },
		Policy:   func() admin.Policy { return admin.Policy{Scope: "single tenant"} },
		Tokens: []admin.Token{admin.NewToken("vera", "viewer-token", operate.Viewer), admin.NewToken("otto", "operator-token", operate.Operator),
			admin.NewToken("ada", "admin-token", operate.Admin)}})
	for i := range 3 {
		s.put(fmt.Sprint("lost-", i), func(c *stet.Claim) stet.Outcome { c.Unknown("panic"); return stet.Outcome{} })
	}
	s.put("done", func(*stet.Claim) stet.Outcome {
		return stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("secret body")}}
	})
	s.put("failed", func(*stet.Claim) stet.Outcome { return stet.Outcome{Response: stet.Response{Status: 503}} })
	s.put("free", func(c *stet.Claim) stet.Outcome { c.NotExecuted("stated"); return stet.Outcome{} })
	s.put("runs", nil)
	return s
}

func (s *shop) put(key string, end func(*stet.Claim) stet.Outcome) {
	s.Helper()
	d, err := s.engine.Begin(context.Background(), stet.Request{ID: stet.ID{Scope: "acme", Key: stet.Key(key)}, Route: "POST /v1/charges",
		TraceID: "0af7651916cd43dd8448eb211c80319c", Subject: stet.Subject{Method: "POST", Path: "/v1/charges"}})
	if err != nil {
		s.Fatal(err)
	}
	if end != nil {
		if err := d.Claim.Settle(context.Background(), end(d.Claim)); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *shop) id(key string) string {
	return s.engine.Tag(stet.ID{Scope: "acme", Key: stet.Key(key)})
}

func (s *shop) state(key string) stet.State {
	s.Helper()
	r, err := s.engine.Get(context.Background(), stet.ID{Scope: "acme", Key: stet.Key(key)})
	if err != nil {
		s.Fatal(err)
	}
	return r.State
}

// incident is the address of the first incident.
func (v *visitor) incident() string {
	v.t.Helper()
	for _, tg := range tagsOf(v.page("/unknown")) {
		if id := tg.attrs["data-incident"]; id != "" {
			return "/unknown/" + id
		}
	}
	v.t.Fatal("there is no incident")
	return ""
}

// The pages are drawn from the documents of the real API.
func TestOverTheAPI(t *testing.T) {
	s := newShop(t, 10*time.Minute)
	for _, role := range []string{"viewer", "operator", "admin"} {
		v := as(t, s.api, role)
		all := []string{"/", "/unknown", v.incident(), "/keys", "/keys?state=failed&sort=oldest", "/dead", "/routes", "/audit", "/config", "/jobs", "/find"}
		for _, key := range []string{"lost-0", "done", "failed", "free", "runs"} {
			all = append(all, "/keys/"+s.id(key))
		}
		for _, at := range all {
			page := v.page(at)
			for _, p := range faults(page) {
				t.Errorf("%s, %s: %s", at, role, p)
			}
			if strings.Contains(page, "secret body") || strings.Contains(page, "lost-0") {
				t.Errorf("%s, %s: a key or an answer is shown", at, role)
			}
		}
		page := v.page("/keys/" + s.id("lost-0"))
		for _, want := range []string{"The handler panicked.", "409 outcome-unknown.", "The API has not been asked about it yet.", "production eu-1"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the key's page does not say %q", role, want)
			}
		}
		if res, _ := v.get("/keys/acme/" + s.id("lost-0")); res.StatusCode != 303 || res.Header.Get("Location") != "/keys/"+s.id("lost-0") {
			t.Errorf("by its scope: %d", res.StatusCode)
		}
	}
}

// A change is the user's: the audit trail has the token's name.
func TestChangesOverTheAPI(t *testing.T) {
	s := newShop(t, 10*time.Minute)
	v := as(t, s.api, "operator")
	lost := func(i int) string { return "/keys/" + s.id(fmt.Sprint("lost-", i)) }
	ok := func(res *http.Response, page string) {
		t.Helper()
		if res.StatusCode != http.StatusSeeOther {
			t.Fatalf("%d %.2000s", res.StatusCode, page[strings.Index(page, "<main"):])
		}
		for _, p := range faults(v.page(res.Header.Get("Location"))) {
			t.Error(p)
		}
	}
	page := v.page(lost(0))
	ok(v.submit(page, lost(0)+"/probe", nil))
	if page := v.page(lost(0)); !strings.Contains(page, "No trace (404)") {
		t.Error("the page does not say what the API said")
	}
	ok(v.submit(page, lost(0)+"/hand", url.Values{"to": {"ben"}, "note": {"ticket 88123"}}))
	page = v.page(lost(0))
	ok(v.submit(page, lost(0)+"/snooze", url.Values{"reason": {"INC-1"}, "until": {time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}}))
	page = v.page(lost(0))
	if !strings.Contains(page, "It is with ben") || !strings.Contains(page, "It is snoozed until") || !strings.Contains(page, "ticket 88123") {
		t.Error("the page does not say who has it and until when it is snoozed")
	}
	ok(v.submit(page, lost(0)+"/snooze", nil))
	page = v.page(lost(0))
	ok(v.submit(page, lost(0)+"/note", url.Values{"note": {"asked the bank"}}))
	ok(v.submit(v.page(lost(0)+"/happened"), lost(0)+"/resolve", url.Values{"status": {"201"}, "body": {"found"}, "reason": {"INC-1"}}))
	if s.state("lost-0") != stet.Completed {
		t.Error("it is not completed")
	}
	res, page := v.submit(v.page(lost(1)), lost(1)+"/reveal#reveal", url.Values{"reason": {"INC-2"}})
	if res.StatusCode != 200 || !strings.Contains(page, "lost-1") {
		t.Errorf("reveal: %d", res.StatusCode)
	}
	page = v.page("/audit?who=otto")
	for _, want := range []string{"resolve", "hand", "snooze", "note", "reveal", "INC-2", "asked the bank"} {
		if !strings.Contains(page, want) {
			t.Errorf("the audit trail does not have %q", want)
		}
	}
	res, page = v.submit(v.page("/"), "/find", url.Values{"q": {"lost-1"}})
	if res.StatusCode != 303 && !strings.Contains(page, s.id("lost-1")) {
		t.Errorf("find: %d", res.StatusCode)
	}
	admin := as(t, s.api, "admin")
	page = admin.page("/keys/" + s.id("done") + "/forget")
	if res, _ := admin.submit(page, "/keys/"+s.id("done")+"/forget", url.Values{"id": {s.id("done")}, "reason": {"INC-3"}}); res.StatusCode != 200 {
		t.Errorf("forget: %d", res.StatusCode)
	}
	page = admin.page(lost(2) + "/released?cancelled=1")
	if res, _ := admin.submit(page, lost(2)+"/release", url.Values{"reason": {"INC-3"}, "evidence": {"can_1"}}); res.StatusCode != 303 || s.state("lost-2") != stet.Retryable {
		t.Errorf("cancelled by the provider: %d", res.StatusCode)
	}
}

// Many are freed by a job of the API.
func TestFreeManyOverTheAPI(t *testing.T) {
	s := newShop(t, time.Millisecond)
	for i := range 3 {
		for idle := time.Duration(0); idle < time.Millisecond; {
			r, err := s.engine.Get(t.Context(), stet.ID{Scope: "acme", Key: stet.Key(fmt.Sprint("lost-", i))})
			if err == nil {
				_, err = s.engine.Operator().Probed(t.Context(), &r.Head, stet.LastProbe{Found: "missing"}, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			idle = r.Idle()
		}
	}
	v := as(t, s.api, "operator")
	at := v.incident() + "/release"
	res, page := v.submit(v.page(at), at, url.Values{"count": {"3"}, "reason": {"INC-1"}})
	if res.StatusCode != 303 || !strings.HasPrefix(res.Header.Get("Location"), "/jobs/") {
		t.Fatalf("%d %s", res.StatusCode, page)
	}
	for !strings.Contains(v.page(res.Header.Get("Location")), "3 changed, 0 left alone") {
		if t.Context().Err() != nil {
			t.Fatal("the job does not end")
		}
	}
	if s.state("lost-1") != stet.Retryable {
		t.Error("it is not free")
	}
}

// Asking, snoozing and handing over is done with many by jobs of the API.
func TestManyOverTheAPI(t *testing.T) {
	s := newShop(t, 10*time.Minute)
	v := as(t, s.api, "operator")
	at := v.incident()
	if page := v.page(at + "/resolve"); !strings.Contains(page, "Left out: 3") || strings.Contains(page, `name="key"`) {
		t.Error("answers are given that are not known")
	}
	for _, c := range []struct {
		do    string
		typed url.Values
		want  string
	}{
		{"probe", url.Values{"reason": {"INC-1"}}, "No trace (404)"},
		{"hand", url.Values{"to": {"ben"}, "note": {"ticket 88123"}}, "ticket 88123"},
		{"snooze", url.Values{"reason": {"INC-1"}, "until": {time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}}, "It is snoozed until"},
	} {
		c.typed.Set("count", "3")
		// The API shares its reading of incidents for a while: it may have the versions of before.
		for done := false; !done; {
			res, page := v.submit(v.page(at+"/"+c.do), at+"/"+c.do, c.typed)
			if res.StatusCode == http.StatusConflict {
				continue
			}
			if res.StatusCode != http.StatusSeeOther {
				t.Fatalf("%s: %d %s", c.do, res.StatusCode, page)
			}
			for page = ""; !strings.Contains(page, "It is over"); {
				page = v.page(res.Header.Get("Location"))
			}
			done = strings.Contains(page, "3 changed, 0 left alone")
			if !done && !strings.Contains(page, "it was changed meanwhile") {
				t.Fatalf("%s: %s", c.do, page)
			}
		}
		for i := range 3 {
			if page := v.page("/keys/" + s.id(fmt.Sprint("lost-", i))); !strings.Contains(page, c.want) {
				t.Errorf("%s: a key's page does not say %q", c.do, c.want)
			}
		}
	}
}

// A name that anybody could point at this address is not served, and neither are others' scopes.
func TestTheAPIsDoorIsTheConsoles(t *testing.T) {
	s := newShop(t, 10*time.Minute)
	v := as(t, s.api, "operator")
	r := httptest.NewRequest("GET", "http://evil.example/unknown", nil)
	r.AddCookie(&http.Cookie{Name: "stet-console", Value: v.cookies["stet-console"]})
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), s.id("lost-0")) {
		t.Errorf("another Host: %d", w.Code)
	}
	open := admin.New(s.engine, admin.Config{})
	for remote, want := range map[string]int{"127.0.0.1:99": 200, "203.0.113.9:99": 303} {
		r := httptest.NewRequest("GET", "http://localhost/unknown", nil)
		r.RemoteAddr = remote
		w := httptest.NewRecorder()
		console.New(open, console.Config{}).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("without tokens, from %s: %d", remote, w.Code)
		}
		for _, name := range admin.ProxyHeaders { // Y6
			r.Header = http.Header{name: {"203.0.113.9"}}
			w := httptest.NewRecorder()
			console.New(open, console.Config{}).ServeHTTP(w, r)
			if w.Code == http.StatusOK {
				t.Errorf("without tokens, from %s by a proxy (%s): %d", remote, name, w.Code)
			}
		}
	}
}

// A session outlives a restart of the process, and ends where its token is not taken any more, or
// where its user has ended it. Of a session that another set of tokens has made nothing can be read.
func TestSessionsOutliveARestart(t *testing.T) { // O13
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	start := func(tokens ...admin.Token) *admin.Handler { return admin.New(e, admin.Config{Tokens: tokens}) }
	otto, vera := admin.NewToken("otto", "operator-token", operate.Operator), admin.NewToken("vera", "viewer-token", operate.Viewer)
	ended := console.NewSessions()
	v := visit(t, start(otto, vera), console.Config{Sessions: ended})
	v.signIn("operator-token")
	v.page("/find")
	for name, after := range map[string]struct {
		door console.Door
		conf console.Config
		want int
	}{
		"a reload":              {start(vera, otto), console.Config{Sessions: ended}, 200},
		"a restart":             {start(otto, vera), console.Config{}, 200},
		"the token taken back":  {start(vera), console.Config{}, 303},
		"another set of tokens": {start(otto, vera, admin.NewToken("new", "new-token", operate.Viewer)), console.Config{}, 303},
	} {
		v.h = console.New(after.door, after.conf)
		if res, _ := v.get("/find"); res.StatusCode != after.want {
			t.Errorf("after %s: %d", name, res.StatusCode)
		}
	}
	v.h = console.New(start(otto, vera), console.Config{Sessions: ended})
	stolen := v.cookies["stet-console"]
	v.submit(v.page("/find"), "/logout", nil)
	v.cookies["stet-console"] = stolen
	v.h = console.New(start(otto, vera), console.Config{Sessions: ended})
	if res, _ := v.get("/find"); res.StatusCode != 303 {
		t.Errorf("after its user has ended it, and a reload: %d", res.StatusCode)
	}
	expired := otto
	expired.Expires = time.Now().Add(-time.Second)
	v = visit(t, start(otto, vera), console.Config{})
	v.signIn("operator-token")
	v.h = console.New(start(expired, vera), console.Config{})
	if res, _ := v.get("/find"); res.StatusCode != 303 {
		t.Errorf("after its token has expired: %d", res.StatusCode)
	}
}

// Where no token is asked for, a form of before a reload is still of this console.
func TestFormsWithoutASessionOutliveAReload(t *testing.T) {
	s := newShop(t, stet.Never)
	start := func() console.Door { return admin.New(s.engine, admin.Config{}) }
	at := "/keys/" + s.id("lost-0")
	v := visit(t, s.api, console.Config{})
	v.h = console.New(start(), console.Config{})
	page := v.page(at)
	v.h = console.New(start(), console.Config{})
	if res, _ := v.submit(page, at+"/note", url.Values{"note": {"n"}}); res.StatusCode != http.StatusSeeOther {
		t.Errorf("%d", res.StatusCode)
	}
}

// Who guesses tokens does not shut out those at the same address who have signed in.
func TestGuessesShutNoSessionOut(t *testing.T) { // O05
	s := newShop(t, stet.Never)
	v := as(t, s.api, "operator")
	guesser := visit(t, s.api, console.Config{})
	waits := false
	for range 20 {
		res := guesser.signIn("wrong")
		waits = waits || res.StatusCode == http.StatusTooManyRequests
	}
	if !waits {
		t.Error("guesses are not slowed down")
	}
	v.page("/keys")
	if res := guesser.signIn("operator-token"); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a right guess at the same address: %d", res.StatusCode)
	}
}

// What a browser keeps shows nothing of the token, and nothing that was changed in it is taken.
func TestCookiesAreSealed(t *testing.T) {
	v := as(t, newFake(), "operator")
	kept := v.cookies["stet-console"]
	raw, err := base64.RawURLEncoding.DecodeString(kept)
	if err != nil || strings.Contains(string(raw), "token") {
		t.Errorf("%q, %v", raw, err)
	}
	for i := range raw {
		raw[i] ^= 1
		v.cookies["stet-console"] = base64.RawURLEncoding.EncodeToString(raw)
		if res, _ := v.get("/find"); res.StatusCode != 303 {
			t.Fatalf("a cookie of which byte %d was changed is taken: %d", i, res.StatusCode)
		}
		raw[i] ^= 1
	}
}

// Of the sessions that were ended a bounded number is remembered.
func TestEndedSessionsAreBounded(t *testing.T) {
	if n := console.EndSessions(1_002); n != 1_000 {
		t.Errorf("%d are remembered", n)
	}
}
