package admin_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// Whatever is asked of it, and however it answers, the handler says who it is.
func TestMarker(t *testing.T) { // D03
	d := newDesk(t, admin.Config{Tokens: tokens(), Metrics: say("metrics"), Webhook: http.NotFoundHandler()}, failing{memstore.New(memstore.Config{})})
	marked := func(res *http.Response) {
		t.Helper()
		if res.Header.Get("Stet-Admin") != "1" {
			t.Errorf("%s %s: %d %v", res.Request.Method, res.Request.URL, res.StatusCode, res.Header)
		}
	}
	seen := map[int]bool{}
	for _, token := range []string{"", "viewer-token", "admin-token", "wrong"} {
		for _, path := range []string{"/livez", "/readyz", "/metrics", "/policy.json", "/", "//x", "/api/v1/keys", "/api/v1/keys?limit=0",
			"/api/v1/keys/s/k", "/api/v1/keys/s/k/release", "/api/v1/audit", "/hooks/reconcile", "/%2e%2e/x"} {
			if token == "wrong" && path != "/metrics" { // it is slowed down
				continue
			}
			for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "OPTIONS", "BREW"} {
				d.token, d.host = token, ""
				res, _ := d.do(method, path)
				marked(res)
				seen[res.StatusCode] = true
			}
		}
	}
	d.host = "evil.example"
	res, _ := d.get("/api/v1/keys")
	marked(res)
	seen[res.StatusCode] = true
	for _, status := range []int{200, 307, 400, 401, 403, 404, 415, 429, 503} {
		if !seen[status] {
			t.Errorf("no answer was a %d: %v", status, seen)
		}
	}
}

// bound is a desk with records of three tenants, and tokens for some of them.
func bound(t *testing.T) *desk {
	d := newDesk(t, admin.Config{Metrics: say("metrics"), Policy: func() admin.Policy { return admin.Policy{} }, Tokens: only(
		scoped(admin.NewToken("one", "token-of-acme", operate.Admin), "acme"),
		scoped(admin.NewToken("shops", "token-of-shops", operate.Admin), "shop-*", "other"),
		scoped(admin.NewToken("each", "token-of-each", operate.Admin), "*"),
		admin.NewToken("all", "token-of-all", operate.Admin))}, telling{memstore.New(memstore.Config{})})
	for _, scope := range []stet.Scope{"acme", "shop-1", "shop-2"} {
		for i := range 3 {
			d.put(scope, stet.Key(fmt.Sprint("done", i)), answered(200))
		}
		d.put(scope, "lost", unknown)
	}
	return d
}

// telling is a store whose cursors hold a key, as Redis's do.
type telling struct{ *memstore.Store }

func (s telling) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	q.After, _, _ = strings.Cut(q.After, " ")
	heads, next, err := s.Store.List(ctx, q)
	if next != "" {
		next += " " + string(heads[len(heads)-1].Key)
	}
	return heads, next, err
}

func (s telling) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if id.Key == "damaged" {
		return stet.Record{}, stet.ErrCorrupt
	}
	return s.Store.Get(ctx, id)
}

func scoped(t admin.Token, scopes ...string) admin.Token {
	t.Scopes = scopes
	return t
}

// What is in another scope than the token's is for it as if it had never been, whatever is tried.
func TestTokensBoundToScopes(t *testing.T) { // D12
	d := bound(t)
	d.token = "token-of-acme"
	tag := d.engine.Tag(stet.ID{Scope: "shop-1", Key: "lost"})
	_, want := d.get("/api/v1/keys/acme/never")
	for _, path := range []string{"/api/v1/keys/shop-1/lost", "/api/v1/keys/shop-1/lost?reveal=1", "/api/v1/keys/shop-1/never", "/api/v1/keys/shop-1/" + tag, "/api/v1/keys/shop-1/damaged", "/api/v1/keys/" + tag,
		"/api/v1/keys/acme/" + tag, "/api/v1/keys/ACME/lost", "/metrics"} {
		if res, got := d.get(path); res.StatusCode != 404 || got != want {
			t.Errorf("%s: %d %s", path, res.StatusCode, got)
		}
	}
	for _, c := range []struct{ method, path, doc string }{
		{"POST", "/api/v1/keys/shop-1/lost/release", `{"reason":"x"}`},
		{"POST", "/api/v1/keys/shop-1/done0/release", `{"reason":"x"}`}, // with another token: 409
		{"POST", "/api/v1/keys/shop-1/lost/resolve", `{"outcome":"completed","status":201,"reason":"x"}`},
		{"DELETE", "/api/v1/keys/shop-1/done0?reason=x", ""},
		{"DELETE", "/api/v1/keys/shop-1/lost?reason=x", ""},
	} {
		if status, got := d.change(c.method, c.path, c.doc); status != 404 || got != want {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, got)
		}
	}
	if r, err := d.engine.Get(t.Context(), stet.ID{Scope: "shop-1", Key: "lost"}); err != nil || r.State != stet.Unknown {
		t.Errorf("%v %v", r.State, err)
	}
	if status, body := d.change("POST", "/api/v1/keys/acme/lost/release", `{"reason":"x"}`); status != 200 {
		t.Errorf("its own: %d %s", status, body)
	}
	if d.doc("/policy.json") == nil {
		t.Error("the policy is published")
	}
}

// A list is of what the token may see, on every page; so is the audit trail, where what has no
// scope is for tokens of all.
func TestListsOfBoundTokens(t *testing.T) { // D12
	d := bound(t)
	d.token = "token-of-all"
	for _, scope := range []string{"acme", "shop-1", "shop-2"} {
		if status, body := d.change("POST", "/api/v1/keys/"+scope+"/lost/release", `{"reason":"x"}`); status != 200 {
			t.Fatal(body)
		}
	}
	if err := d.engine.Operator().Audit(t.Context(), stet.ID{}, stet.Note{Who: "192.0.2.1", Action: "login-refused"}); err != nil {
		t.Fatal(err)
	}
	scopes := func(path, member string) map[string]int {
		t.Helper()
		if res, body := d.get(path + "limit=2"); res.StatusCode == 403 {
			if !strings.Contains(body, "is bound to other scopes: name one of those, or none.") {
				t.Errorf("%s: %s", path, body)
			}
			return map[string]int{"refused": res.StatusCode}
		}
		got, cursor := map[string]int{}, ""
		for range 20 {
			doc := d.doc(path + "limit=2&cursor=" + url.QueryEscape(cursor))
			for _, k := range doc[member].([]any) {
				got[k.(map[string]any)["scope"].(string)]++
			}
			if cursor = doc["next_cursor"].(string); cursor == "" {
				return got
			}
		}
		t.Fatal("it does not end")
		return nil
	}
	for token, want := range map[string][3]string{
		"token-of-acme":  {"map[acme:4]", "map[acme:1]", "map[refused:403]"},
		"token-of-shops": {"map[shop-1:4 shop-2:4]", "map[shop-1:1 shop-2:1]", "map[shop-1:4]"},
		"token-of-each":  {"map[acme:4 shop-1:4 shop-2:4]", "map[acme:1 shop-1:1 shop-2:1]", "map[shop-1:4]"},
		"token-of-all":   {"map[acme:4 shop-1:4 shop-2:4]", "map[:1 acme:1 shop-1:1 shop-2:1]", "map[shop-1:4]"},
	} {
		d.token = token
		got := [3]string{fmt.Sprint(scopes("/api/v1/keys?", "keys")), fmt.Sprint(scopes("/api/v1/audit?", "entries")), fmt.Sprint(scopes("/api/v1/keys?scope=shop-1&", "keys"))}
		if got != want {
			t.Errorf("%s sees %v, want %v", token, got, want)
		}
	}
}

// Neither a page's length nor its cursor says anything of records in between that are not the
// token's.
func TestPagesOfBoundTokens(t *testing.T) { // D12
	d := bound(t)
	d.put("acme", "secret-key-of-acme", answered(200)) // the newest
	d.token = "token-of-all"
	first := d.doc("/api/v1/keys?limit=1")["next_cursor"].(string)
	if !strings.Contains(first, "secret-key-of-acme") {
		t.Fatalf("this test is of cursors with keys: %q", first)
	}
	d.token = "token-of-shops"
	page := d.doc("/api/v1/keys?limit=3&sort=oldest") // four of acme are before
	cursor := page["next_cursor"].(string)
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if n := len(page["keys"].([]any)); n != 3 || err != nil || strings.Contains(string(raw), "done") || strings.Contains(string(raw), "shop") {
		t.Errorf("%d rows, cursor %q, %v", n, raw, err)
	}
	if n := len(d.doc("/api/v1/keys?limit=3&sort=oldest&cursor=" + cursor)["keys"].([]any)); n != 3 {
		t.Errorf("%d rows on the second page", n)
	}
	d.token = "token-of-acme"
	if d.refused("/api/v1/keys?sort=oldest&cursor="+cursor, 400, "bad-parameter") != "cursor" || d.refused("/api/v1/keys?cursor="+url.QueryEscape(first), 400, "bad-parameter") != "cursor" {
		t.Error("another's cursor")
	}
	v := newDesk(t, admin.Config{Tokens: tokens()}, telling{memstore.New(memstore.Config{})})
	v.put("acme", "secret-1", answered(200))
	v.put("acme", "secret-2", answered(200))
	v.token = "viewer-token" // who may not see keys
	cursor = v.doc("/api/v1/keys?limit=1")["next_cursor"].(string)
	if raw, err := base64.RawURLEncoding.DecodeString(cursor); err != nil || strings.Contains(string(raw), "secret") {
		t.Errorf("%q, %v", raw, err)
	}
	if n := len(v.doc("/api/v1/keys?limit=1&cursor=" + cursor)["keys"].([]any)); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// Who may not is told which role it takes and which the token has.
func TestForbiddenNamesBothRoles(t *testing.T) { // D03
	d := newDesk(t, admin.Config{Tokens: tokens()}, nil)
	d.token = "viewer-token"
	_, reveal := d.get("/api/v1/keys/s/k?reveal=1")
	_, release := d.change("POST", "/api/v1/keys/s/k/release", `{"reason":"x"}`)
	for _, body := range []string{reveal, release} {
		if !strings.Contains(body, "This takes the role operator; vera has the role viewer.") {
			t.Error(body)
		}
	}
}

// asker asks a handler from an address, without a network.
type asker struct {
	http.Handler
	engine *stet.Engine
	log    bytes.Buffer
	wrong  int
}

func newAsker(t *testing.T, tokens ...admin.Token) *asker {
	a := &asker{engine: must(stet.New(memstore.New(memstore.Config{}), stet.Config{}))}
	a.Handler = admin.New(a.engine, admin.Config{Config: operate.Config{Log: slog.New(slog.NewJSONHandler(&a.log, nil))}, Tokens: only(tokens...), Refused: func() { a.wrong++ }})
	return a
}

func (a *asker) ask(from, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "http://localhost/api/v1/keys", nil)
	r.RemoteAddr = from
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

func (a *asker) audited(t *testing.T) []stet.Change {
	t.Helper()
	var all []stet.Change
	for q := (stet.HistoryQuery{Limit: stet.MaxLimit}); ; {
		page, next, err := a.engine.Operator().History(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if q.After = next; next == "" {
			return all
		}
	}
}

const right, wrong = "Bearer a-token-of-twenty-bytes", "Bearer another-of-twenty-bytes"

// Wrong tokens are logged, counted and audited, and who goes on guessing has to wait longer and
// longer, also with the right one.
func TestWrongTokensAreSlowed(t *testing.T) { // D11
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t, admin.NewToken("ada", "a-token-of-twenty-bytes", operate.Admin))
		for i := range 5 {
			if w := a.ask("192.0.2.1:9", wrong); w.Code != 401 || !strings.Contains(w.Header().Get("WWW-Authenticate"), "invalid_token") {
				t.Fatalf("%d: %d %v", i, w.Code, w.Header())
			}
		}
		for _, wait := range []string{"1", "2", "4", "8", "16", "32", "60", "60"} {
			for _, token := range []string{wrong, right} {
				if w := a.ask("192.0.2.1:8", token); w.Code != 429 || w.Header().Get("Retry-After") != wait {
					t.Fatalf("want %s s: %d %v", wait, w.Code, w.Header())
				}
			}
			if w := a.ask("192.0.2.2:9", right); w.Code != 200 {
				t.Fatalf("somebody else: %d", w.Code)
			}
			d, _ := time.ParseDuration(wait + "s")
			time.Sleep(d)
			if w := a.ask("192.0.2.1:9", wrong); w.Code != 401 {
				t.Fatalf("after %s: %d", d, w.Code)
			}
		}
		time.Sleep(time.Minute)
		if w := a.ask("192.0.2.1:9", right); w.Code != 200 {
			t.Errorf("the right one: %d", w.Code)
		}
		if w := a.ask("192.0.2.1:9", ""); w.Code != 401 || a.wrong != 13 {
			t.Errorf("none is no wrong one: %d, %d", w.Code, a.wrong)
		}
		if n := strings.Count(a.log.String(), `"msg":"a login was refused","remote":"192.0.2.1"`); n != 13 || strings.Contains(a.log.String(), "twenty") {
			t.Errorf("%d lines: %s", n, &a.log)
		}
		time.Sleep(10 * time.Minute)
		for range 5 {
			if w := a.ask("192.0.2.1:9", wrong); w.Code != 401 {
				t.Errorf("it is not forgotten: %d", w.Code)
			}
		}
	})
}

// A handler with the Throttle of the one before it goes on with its waits, and with its entries in
// the audit trail; one without begins anew.
func TestWaitsOutliveAHandler(t *testing.T) { // D11
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t)
		conf := admin.Config{Tokens: tokensOfAda, Throttle: new(admin.Throttle)}
		for _, looked := range []int{4, 1, 0} {
			a.Handler = admin.New(a.engine, conf)
			for range looked {
				if w := a.ask("192.0.2.1:9", wrong); w.Code != 401 {
					t.Errorf("it has to wait already: %d", w.Code)
				}
			}
		}
		if w := a.ask("192.0.2.1:9", wrong); w.Code != 429 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("after five at the handlers before: %d %v", w.Code, w.Header())
		}
		if n := len(a.audited(t)); n != 1 {
			t.Errorf("%d entries of one minute", n)
		}
		conf.Throttle = nil
		a.Handler = admin.New(a.engine, conf)
		if w := a.ask("192.0.2.1:9", wrong); w.Code != 401 {
			t.Errorf("a handler of its own: %d", w.Code)
		}
	})
}

// The trail has one entry for an address and a minute, and a bounded number for all of them;
// nothing else grows either.
func TestRefusedLoginsDoNotFillTheStore(t *testing.T) { // D11
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t, admin.NewToken("ada", "a-token-of-twenty-bytes", operate.Admin))
		for range 4 {
			a.ask("192.0.2.1:9", wrong)
		}
		trail := a.audited(t)
		if len(trail) != 1 || trail[0].Note.Who != "192.0.2.1" || trail[0].Note.Action != "login-refused" || strings.Contains(fmt.Sprint(trail), "twenty") {
			t.Fatalf("%+v", trail)
		}
		time.Sleep(time.Minute)
		a.ask("192.0.2.1:9", wrong)
		if n := len(a.audited(t)); n != 2 {
			t.Errorf("%d entries after a minute", n)
		}
		time.Sleep(time.Minute)
		for i := range 5000 {
			a.ask(fmt.Sprintf("[2001:db8:%x::1]:9", i), wrong)
		}
		if n := len(a.audited(t)) - 2; n != 60 {
			t.Errorf("%d entries of one minute", n)
		}
		for i := range 6 { // of one network
			if w := a.ask(fmt.Sprintf("[2001:db8:ffff:ffff:%x::1]:9", i), wrong); w.Code != 401 != (i == 5) {
				t.Errorf("%d: %d", i, w.Code)
			}
		}
	})
}

// A token that is known and too short, or over, is refused; the log names it, the answer does not.
func TestExpiredTokens(t *testing.T) { // D11
	synctest.Test(t, func(t *testing.T) {
		brief := admin.NewToken("brief", "a-token-of-twenty-bytes", operate.Admin)
		brief.Expires = time.Now().Add(time.Hour)
		a := newAsker(t, brief)
		if w := a.ask("192.0.2.1:9", right); w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		time.Sleep(time.Hour)
		if w := a.ask("192.0.2.1:9", right); w.Code != 401 || strings.Contains(w.Body.String(), "brief") || !strings.Contains(a.log.String(), `"token":"brief"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// Who may open the socket is its owner, who needs no token where loopback needs none.
func TestSocketIsLocal(t *testing.T) { // D12
	path := filepath.Join(t.TempDir(), "s")
	on, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	e := must(stet.New(memstore.New(memstore.Config{}), stet.Config{}))
	var tokens []admin.Token
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admin.New(e, admin.Config{Tokens: tokens}).ServeHTTP(w, r)
	}))
	srv.Listener = on
	srv.Start()
	defer srv.Close()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	defer tr.CloseIdleConnections()
	for _, want := range []int{200, 401} {
		res, err := (&http.Client{Transport: tr}).Get("http://localhost/api/v1/keys")
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != want {
			t.Errorf("with %d tokens: %d", len(tokens), res.StatusCode)
		}
		tokens = tokensOfAda
	}
}

// A proxy on this machine brings the whole network to loopback: without tokens what says that it was
// passed on is refused.
func TestProxiedCallsAreNotLocal(t *testing.T) { // Y6
	for _, name := range admin.ProxyHeaders {
		for _, tokens := range [][]admin.Token{nil, tokensOfAda} {
			d := newDesk(t, admin.Config{Tokens: tokens}, nil)
			for _, value := range []string{"203.0.113.9", ""} {
				req := must(http.NewRequest(http.MethodGet, d.url+"/api/v1/keys", nil))
				req.Header.Set(name, value)
				want := http.StatusForbidden
				if tokens != nil {
					req.Header.Set("Authorization", "Bearer admin-token")
					want = http.StatusOK
				}
				res, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if res.Body.Close(); res.StatusCode != want {
					t.Errorf("%s: %q with %d tokens: %d", name, value, len(tokens), res.StatusCode)
				}
			}
		}
	}
}

var tokensOfAda = only(admin.NewToken("ada", "admin-token", operate.Admin))

func TestParseScopesOfTokens(t *testing.T) { // D12
	entry := func(more string) []byte {
		return fmt.Appendf(nil, `{"a":{"sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","role":"viewer"%s}}`, more)
	}
	got, err := admin.ParseTokens(entry(`,"scopes":["acme","shop-*"],"expires":"2030-01-02T03:04:05Z"`))
	if err != nil || !slices.Equal(got[0].Scopes, []string{"acme", "shop-*"}) || got[0].Expires.Year() != 2030 {
		t.Errorf("%v, %v", got, err)
	}
	for _, more := range []string{`,"scopes":[]`, `,"scopes":[""]`, `,"scopes":"acme"`, `,"scope":["acme"]`, `,"expires":"tomorrow"`} {
		if got, err := admin.ParseTokens(entry(more)); err == nil || !json.Valid(entry(more)) {
			t.Errorf("%s: %v", more, got)
		}
	}
}

// A cursor of a viewer opens at every gateway with the same tokens, in whatever order they are, and
// at none with others.
func TestCursorsOfOtherGateways(t *testing.T) { // Y14
	vera, otto := admin.NewToken("vera", "vera-token", operate.Viewer), admin.NewToken("otto", "otto-token", operate.Operator)
	store := memstore.New(memstore.Config{})
	one := newDesk(t, admin.Config{Tokens: []admin.Token{vera, otto}}, store)
	for i := range 3 {
		one.put("t1", stet.Key(fmt.Sprint("k", i)), answered(201))
	}
	one.token = "vera-token"
	next := "/api/v1/keys?limit=1&cursor=" + url.QueryEscape(one.doc("/api/v1/keys?limit=1")["next_cursor"].(string))
	other := newDesk(t, admin.Config{Tokens: []admin.Token{otto, vera}}, store)
	other.token = "vera-token"
	if n := len(other.doc(next)["keys"].([]any)); n != 1 {
		t.Errorf("%d keys", n)
	}
	changed := newDesk(t, admin.Config{Tokens: []admin.Token{vera}}, store)
	changed.token = "vera-token"
	if parameter := changed.refused(next, 400, "bad-parameter"); parameter != "cursor" {
		t.Errorf("it is the fault of %q", parameter)
	}
}
