package admin_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// desk is an admin handler on a real listener. Unless a test says otherwise, records may be
// released at once.
type desk struct {
	testing.TB
	engine *stet.Engine
	url    string
	log    bytes.Buffer
	token  string
	host   string
}

func newDesk(t testing.TB, c admin.Config, store stet.Store) *desk {
	t.Helper()
	return newDeskWithin(t, c, store, 10*time.Second)
}

// newDeskWithin is newDesk for a store that answers within a time, or not at all.
func newDeskWithin(t testing.TB, c admin.Config, store stet.Store, within time.Duration) *desk {
	t.Helper()
	d := &desk{TB: t}
	if store == nil {
		store = memstore.New(memstore.Config{})
	}
	var err error
	if d.engine, err = stet.New(store, stet.Config{Pepper: []byte("pepper"), Holder: "host:1", StoreTimeout: within}); err != nil {
		t.Fatal(err)
	}
	c.Log = slog.New(slog.NewJSONHandler(&d.log, nil))
	c.Settle = cmp.Or(c.Settle, stet.Never)
	srv := httptest.NewServer(conforming(t, admin.New(d.engine, c)))
	t.Cleanup(srv.Close)
	d.url = srv.URL
	return d
}

// get asks for a path, and returns status and body.
func (d *desk) get(path string) (*http.Response, string) {
	d.Helper()
	return d.do(http.MethodGet, path)
}

func (d *desk) do(method, path string) (*http.Response, string) {
	d.Helper()
	req, err := http.NewRequest(method, d.url+path, nil)
	if err != nil {
		d.Fatal(err)
	}
	req.Host = d.host
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		d.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		d.Fatal(err)
	}
	return res, string(b)
}

// doc asks for a JSON document.
func (d *desk) doc(path string) map[string]any {
	d.Helper()
	res, body := d.get(path)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" {
		d.Fatalf("%s: %d %s %s", path, res.StatusCode, res.Header.Get("Content-Type"), body)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		d.Fatal(err)
	}
	return doc
}

// refused demands a problem document, and returns its parameter.
func (d *desk) refused(path string, status int, code string) string {
	d.Helper()
	res, body := d.get(path)
	var p struct{ Type, Title, Detail, Code, Parameter string }
	if err := json.Unmarshal([]byte(body), &p); err != nil || res.StatusCode != status || p.Code != code || p.Title == "" || p.Detail == "" ||
		!strings.HasSuffix(p.Type, code) || res.Header.Get("Content-Type") != "application/problem+json" {
		d.Fatalf("%s: want %d %s: %d %v %s", path, status, code, res.StatusCode, res.Header, body)
	}
	return p.Parameter
}

// put makes a record. end settles it; nil leaves it running.
func (d *desk) put(scope stet.Scope, key stet.Key, end func(*stet.Claim) stet.Outcome) {
	d.Helper()
	dec, err := d.engine.Begin(context.Background(), stet.Request{ID: stet.ID{Scope: scope, Key: key}, Route: "POST /v1/payments",
		TraceID: "0af7651916cd43dd8448eb211c80319c", Subject: stet.Subject{Method: "POST", Path: "/v1/payments"}})
	if err != nil || dec.Verdict != stet.Execute {
		d.Fatalf("%v, %v", dec.Verdict, err)
	}
	if end != nil {
		if err := dec.Claim.Settle(context.Background(), end(dec.Claim)); err != nil {
			d.Fatal(err)
		}
	}
}

func answered(status int) func(*stet.Claim) stet.Outcome {
	return func(*stet.Claim) stet.Outcome {
		return stet.Outcome{Response: stet.Response{Status: status, Body: []byte("secret-body\x00\xff"),
			Header: []stet.Field{{Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"}}}}
	}
}

func unknown(c *stet.Claim) stet.Outcome { c.Unknown("panic"); return stet.Outcome{} }
func free(c *stet.Claim) stet.Outcome    { c.NotExecuted("stated"); return stet.Outcome{} }

// names are the members of a document, in order.
func names(doc map[string]any) []string { return slices.Sorted(maps.Keys(doc)) }

func TestRecordDocument(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	d.put("t1", "secret-key-1", nil)
	d.put("t1", "secret-key-2", answered(201))
	d.put("t1", "secret-key-3", answered(503))
	d.put("t1", "secret-key-4", free)
	d.put("t1", "secret-key-5", unknown)
	always := []string{"attempt", "basis", "created_at", "due_at", "explanation", "id", "method", "outlook", "owner", "path", "route", "scope", "state", "trace_id", "updated_at", "version"}
	for i, row := range []struct {
		state string
		more  []string
	}{
		{"running", nil},
		{"completed", []string{"completed_at", "expires_at", "response_bytes", "status", "took_ms"}},
		{"failed", []string{"completed_at", "expires_at", "response_bytes", "status", "took_ms"}},
		{"retryable", []string{"cause", "expires_at", "took_ms"}},
		{"unknown", []string{"asking", "cause", "took_ms", "unknown_since"}},
	} {
		key := fmt.Sprint("secret-key-", i+1)
		_, text := d.get("/api/v1/keys/t1/" + key)
		doc := d.doc("/api/v1/keys/t1/" + key)
		want := slices.Sorted(slices.Values(append(slices.Clone(always), row.more...)))
		if _, quick := doc["took_ms"]; !quick { // under a microsecond is left out
			want = slices.DeleteFunc(want, func(s string) bool { return s == "took_ms" })
		}
		if doc["state"] != row.state || !slices.Equal(names(doc), want) {
			t.Errorf("%s: %v\nhas %v\nwant %v", row.state, doc, names(doc), want)
		}
		if doc["id"] != d.engine.Tag(stet.ID{Scope: "t1", Key: stet.Key(key)}) {
			t.Errorf("id %v", doc["id"])
		}
		for _, name := range names(doc) {
			if strings.HasSuffix(name, "_at") {
				if _, err := time.Parse(time.RFC3339, doc[name].(string)); err != nil || !strings.HasSuffix(doc[name].(string), "Z") {
					t.Errorf("%s: %v", name, doc[name])
				}
			}
		}
		if strings.Contains(text, "secret") {
			t.Errorf("shown without being asked for: %s", text)
		}
	}
	if doc := d.doc("/api/v1/keys/t1/secret-key-2"); doc["response_bytes"] != 13.0 || doc["status"] != 201.0 {
		t.Errorf("%v", doc)
	}
}

// Keys and scopes are segments, percent-encoded; a record is also found by its id.
func TestFindOne(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	for _, id := range []stet.ID{
		{Scope: "t1", Key: "plain"}, {Scope: "a/b", Key: "c/d"}, {Scope: "a", Key: "b/c/d"}, {Scope: "..", Key: "."}, {Scope: "%2F", Key: "%"},
		{Scope: "t 1?", Key: `"q" #;`}, {Scope: "é", Key: "k_0123456789abcdef"}, {Scope: "+", Key: "a+b"},
	} {
		d.put(id.Scope, id.Key, answered(200))
		escape := func(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }
		for _, name := range []string{string(id.Key), d.engine.Tag(id)} {
			doc := d.doc("/api/v1/keys/" + escape(string(id.Scope)) + "/" + escape(name))
			if doc["scope"] != string(id.Scope) || doc["id"] != d.engine.Tag(id) {
				t.Errorf("%q: %v", name, doc)
			}
		}
	}
}

// What never was, what is in another scope, and what is out of reach look the same to the byte.
func TestNotFound(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	d.put("t1", "k", answered(200))
	_, want := d.get("/api/v1/keys/t1/none")
	for _, path := range []string{
		"/api/v1/keys/t2/k", "/api/v1/keys/t1/k_0123456789abcdef", "/api/v1/keys/t2/" + d.engine.Tag(stet.ID{Scope: "t1", Key: "k"}),
		"/api/v1/keys/t1/", "/api/v1/keys/t1/k/more", "/api/v1/nothing", "/", "/metrics", "/policy.json",
	} {
		d.refused(path, 404, "not-found")
		if _, body := d.get(path); body != want {
			t.Errorf("%s: %s", path, body)
		}
	}
	for _, method := range []string{"POST", "PUT"} {
		if res, _ := d.do(method, "/api/v1/keys/t1/k"); res.StatusCode != 404 {
			t.Errorf("%s: %d", method, res.StatusCode)
		}
	}
}

func TestList(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	for i := range 5 {
		d.put("t1", stet.Key(fmt.Sprint("done", i)), answered(200+i))
	}
	d.put("t1", "failed", answered(500))
	d.put("t2", "running", nil)
	d.put("t2", "unknown", unknown)
	states := func(query string) (states []string, next string) {
		t.Helper()
		doc := d.doc("/api/v1/keys" + query)
		if !slices.Equal(names(doc), []string{"keys", "next_cursor"}) {
			t.Fatalf("%v", doc)
		}
		for _, k := range doc["keys"].([]any) {
			states = append(states, k.(map[string]any)["state"].(string))
		}
		slices.Sort(states)
		return states, doc["next_cursor"].(string)
	}
	done := []string{"completed", "completed", "completed", "completed", "completed"}
	for query, want := range map[string][]string{
		"":                       append(slices.Clone(done), "failed", "running", "unknown"),
		"?state=completed":       done,
		"?state=failed":          {"failed"},
		"?state=unknown":         {"unknown"},
		"?state=retryable":       nil,
		"?scope=t2":              {"running", "unknown"},
		"?scope=t2&state=failed": nil,
		"?route=POST+/v1/payments&scope=t2&state=running": {"running"},
		"?route=other":                            nil,
		"?older_than_s=3600":                      nil,
		"?older_than_s=0&limit=1000&state=failed": {"failed"},
	} {
		if got, next := states(query); !slices.Equal(got, want) || next != "" {
			t.Errorf("%s: %v %q, want %v", query, got, next, want)
		}
	}
	if doc := d.doc("/api/v1/keys?state=retryable"); doc["keys"] == nil {
		t.Error("an empty list is a list")
	}
	all, cursor := []string{}, ""
	for pages := 1; ; pages++ {
		got, next := states("?limit=3&cursor=" + url.QueryEscape(cursor))
		if all = append(all, got...); next == "" {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		cursor = next
	}
	if len(all) != 8 {
		t.Errorf("%v", all)
	}
}

// Problem documents name the parameter at fault.
func TestBadParameters(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	for query, want := range map[string]string{
		"?state=open": "state", "?limit=0": "limit", "?limit=1001": "limit", "?limit=x": "limit", "?older_than_s=-1": "older_than_s",
		"?older_than_s=NaN": "older_than_s", "?older_than_s=1e30": "older_than_s", "?older_than_s=15m": "older_than_s",
		"?cursor=nonsense": "cursor", "?statee=unknown": "statee", "?state=unknown&state=failed": "state", "?reveal=1": "reveal", "?a=%zz": "query",
	} {
		if got := d.refused("/api/v1/keys"+query, 400, "bad-parameter"); got != want {
			t.Errorf("%s: %q is blamed", query, got)
		}
	}
	d.put("t1", "k", nil)
	for query, want := range map[string]string{"?reveal=yes": "reveal", "?limit=1": "limit", "?reveal=1&reveal=1": "reveal"} {
		if got := d.refused("/api/v1/keys/t1/k"+query, 400, "bad-parameter"); got != want {
			t.Errorf("%s: %q is blamed", query, got)
		}
	}
}

func tokens() []admin.Token {
	return only(admin.NewToken("vera", "viewer-token", operate.Viewer), admin.NewToken("otto", "operator-token", operate.Operator),
		admin.NewToken("ada", "admin-token", operate.Admin))
}

// only is who may ask.
func only(t ...admin.Token) []admin.Token { return t }

// SE-01: keys and responses are shown to operators who ask, and that is logged.
func TestReveal(t *testing.T) {
	d := newDesk(t, admin.Config{Tokens: tokens()}, nil)
	d.put("t1", "secret-key", answered(201))
	d.put("t1", "secret-running", nil)
	d.token = "viewer-token"
	d.refused("/api/v1/keys/t1/secret-key?reveal=1", 403, "forbidden")
	if doc := d.doc("/api/v1/keys/t1/secret-key?reveal=0"); doc["key"] != nil || doc["response"] != nil {
		t.Errorf("%v", doc)
	}
	if d.log.Len() > 0 {
		t.Errorf("logged: %s", &d.log)
	}
	d.token = "operator-token"
	doc := d.doc("/api/v1/keys/t1/secret-key?reveal=1")
	want := map[string]any{"status": 201.0, "headers": map[string]any{"X-A": []any{"1", "2"}}, "body_b64": "c2VjcmV0LWJvZHkA/w=="}
	if got, _ := json.Marshal(doc["response"]); doc["key"] != "secret-key" || string(got) != string(must(json.Marshal(want))) {
		t.Errorf("%v", doc)
	}
	var entry struct{ Msg, Action, Who, ID, Scope string }
	if err := json.Unmarshal(d.log.Bytes(), &entry); err != nil || entry.Msg != "audit" || entry.Action != "reveal" || entry.Who != "otto" ||
		entry.Scope != "t1" || entry.ID != doc["id"] || strings.Contains(d.log.String(), "secret") {
		t.Errorf("%v %s", err, &d.log)
	}
	if doc := d.doc("/api/v1/keys/t1/secret-running?reveal=1"); doc["key"] != "secret-running" || doc["response"] != nil {
		t.Errorf("%v", doc)
	}
}

func TestAuthentication(t *testing.T) {
	c := admin.Config{Tokens: tokens(), Metrics: say("metrics"), Policy: func() admin.Policy { return admin.Policy{} }}
	for _, token := range []string{"", "wrong", "viewer-toke", "viewer-token2", "vera"} {
		for _, path := range []string{"/api/v1/keys", "/api/v1/keys/t1/k", "/metrics", "/policy.json", "/", "/other"} {
			d := newDesk(t, c, nil) // wrong tokens are slowed down
			d.token = token
			d.refused(path, 401, "unauthenticated")
			if res, _ := d.get(path); !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s: %v", path, res.Header)
			}
			for _, path := range []string{"/livez", "/readyz"} {
				if res, _ := d.get(path); res.StatusCode != 200 {
					t.Errorf("%s: %d", path, res.StatusCode)
				}
			}
		}
	}
	d := newDesk(t, c, nil)
	req := must(http.NewRequest(http.MethodGet, d.url+"/api/v1/keys", nil))
	req.Header.Set("Authorization", "Basic viewer-token")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || res.StatusCode != 401 {
		t.Errorf("another scheme: %v, %v", res, err)
	}
	res.Body.Close()
	for _, token := range []string{"viewer-token", "operator-token", "admin-token"} {
		d.token = token
		if res, body := d.get("/metrics"); res.StatusCode != 200 || body != "metrics" {
			t.Errorf("%s: %d %s", token, res.StatusCode, body)
		}
	}
}

func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// Without a token, only connections over loopback are served: the listener's address is not the
// handler's to know.
func TestLoopbackOnlyWithoutTokens(t *testing.T) {
	h := admin.New(must(stet.New(memstore.New(memstore.Config{}), stet.Config{})), admin.Config{})
	for addr, want := range map[string]int{
		"127.0.0.1:9": 200, "[::1]:9": 200, "127.9.9.9:9": 200, "[::ffff:127.0.0.1]:9": 200,
		"192.0.2.1:9": 401, "[2001:db8::1]:9": 401, "10.0.0.1:9": 401, "": 401, "@": 401,
	} {
		r := httptest.NewRequest("GET", "http://127.0.0.1/api/v1/keys", nil)
		r.RemoteAddr = addr
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d, want %d", addr, w.Code, want)
		}
	}
}

// A foreign name that points at this address gets nothing (DNS rebinding).
func TestHosts(t *testing.T) {
	d := newDesk(t, admin.Config{Hosts: []string{"gateway.internal"}}, nil)
	for _, host := range []string{"localhost", "LOCALHOST:8081", "127.0.0.1", "10.1.2.3:99", "[::1]", "[::1]:8081", "gateway.internal", "Gateway.Internal:8081"} {
		if d.host = host; d.doc("/api/v1/keys") == nil {
			t.Errorf("%s", host)
		}
	}
	for _, host := range []string{"evil.example", "evil.example:8081", "localhost.evil.example", "127.0.0.1.evil.example", "gateway.internal.evil.example"} {
		d.host = host
		d.refused("/api/v1/keys", 403, "forbidden")
		if res, _ := d.get("/livez"); res.StatusCode != 200 { // says nothing, and probes use any name
			t.Errorf("%s: /livez %d", host, res.StatusCode)
		}
	}
}

// failing is a store that is away.
type failing struct{ stet.Store }

var errAway = errors.New("away")

func (failing) Get(context.Context, stet.ID) (stet.Record, error) { return stet.Record{}, errAway }
func (failing) List(context.Context, stet.Query) ([]stet.Head, string, error) {
	return nil, "", errAway
}

// hanging is one that does not come back in its own time.
type hanging struct{ stet.Store }

func (hanging) Get(ctx context.Context, _ stet.ID) (stet.Record, error) {
	<-ctx.Done()
	return stet.Record{}, ctx.Err()
}

// corrupt cannot read anything, and cannot list.
type corrupt struct{ stet.Store }

func (corrupt) Get(context.Context, stet.ID) (stet.Record, error) {
	return stet.Record{}, stet.ErrCorrupt
}

func TestReadiness(t *testing.T) {
	var draining atomic.Bool
	d := newDesk(t, admin.Config{Draining: draining.Load}, nil)
	if res, body := d.get("/readyz"); res.StatusCode != 200 || body != "ready\n" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	draining.Store(true)
	if res, body := d.get("/readyz"); res.StatusCode != 503 || body != "draining\n" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, _ := d.get("/livez"); res.StatusCode != 200 {
		t.Errorf("/livez: %d", res.StatusCode)
	}
	for name, s := range map[string]stet.Store{"away": failing{}, "hanging": hanging{}} {
		d := newDeskWithin(t, admin.Config{}, s, 100*time.Millisecond)
		if res, body := d.get("/readyz"); res.StatusCode != 503 || strings.Contains(body, errAway.Error()) {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
		if res, _ := d.get("/livez"); res.StatusCode != 200 {
			t.Errorf("%s: /livez %d", name, res.StatusCode)
		}
	}
}

// Those who ask whether the process is ready show no token: the store is asked once a second for all
// of them.
func TestReadinessCostsTheStoreLittle(t *testing.T) { // Y24
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		s := ability.Wrap(memstore.New(memstore.Config{}), func(ctx context.Context, c *ability.Call) error {
			asked.Add(1)
			return c.Do(ctx)
		}, false)
		h := admin.New(must(stet.New(s, stet.Config{})), admin.Config{})
		ready := func() {
			for range 20 {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
				if w.Code != 200 {
					t.Error(w.Code)
				}
			}
		}
		ready()
		ready()
		if n := asked.Load(); n != 1 {
			t.Errorf("the store was asked %d times", n)
		}
		time.Sleep(time.Second)
		if ready(); asked.Load() != 2 {
			t.Errorf("a second later it was asked %d times in all", asked.Load())
		}
	})
}

func TestStoreFailures(t *testing.T) {
	d := newDesk(t, admin.Config{}, failing{})
	d.refused("/api/v1/keys", 503, "store-unavailable")
	d.refused("/api/v1/keys?cursor=x", 503, "store-unavailable")
	d.refused("/api/v1/keys/t1/k", 503, "store-unavailable")
	d = newDesk(t, admin.Config{}, corrupt{})
	d.refused("/api/v1/keys", 501, "not-supported")
	d.refused("/api/v1/keys/t1/k", 500, "corrupt-record")
}

// PF-05: the policy is published, by route, in the words of the configuration.
func TestPolicy(t *testing.T) {
	e := must(stet.New(memstore.New(memstore.Config{}), stet.Config{}))
	filled := func(c stethttp.Config) stethttp.Config {
		return must(stethttp.New(e, stethttp.SingleTenant, c)).Config()
	}
	seed := filled(must(stethttp.Profile("seed-strict")))
	special := filled(stethttp.Config{Route: "bee", Mode: stethttp.ModeRequired, Waiting: stethttp.Accepted, MaxRequestAge: time.Minute,
		On5xx: stethttp.UnknownFailure, OnPanic: stethttp.PanicReplay, FailOpen: true,
		Key:         stet.KeyRule{Pattern: regexp.MustCompile("^(?:[a-z]+)$")},
		Policy:      stet.Policy{Execution: stet.Never, Rules: stet.Rules{Retain: time.Hour, KeepExpired: time.Hour, FromCreation: true, OnLapse: stet.LapseReexecute}},
		Fingerprint: stet.Recipe{Body: stet.BodyFields, Fields: []string{"/amount"}, ExcludeFields: []string{"ts"}, Host: true}})
	d := newDesk(t, admin.Config{Policy: func() admin.Policy {
		return admin.Policy{Scope: "header X-Tenant-Id", Routes: []admin.Route{{Match: "POST /b", Config: special}, {Config: seed}, {Config: filled(stethttp.Config{})}}}
	}}, nil)
	doc := d.doc("/policy.json")
	if doc["scope"] != "header X-Tenant-Id" {
		t.Errorf("%v", doc)
	}
	got := string(must(json.Marshal(doc["routes"])))
	for i, want := range [][]string{
		{`"match":"POST /b"`, `"mode":"required"`, `"pattern":"^(?:[a-z]+)$"`, `"ttl_from":"creation"`, `"on_expired":"reject"`, `"default_ttl_s":3600`,
			`"recipe":"3 fields host +/amount x:ts"`, `"exclude_fields":["ts"]`, `"host":true`, `"in-progress":202`, `"wait_policy":"accepted"`, `"max_request_age_s":60`,
			`"on_lease_expiry":"reexecute"`, `"on_5xx":"unknown"`, `"on_panic":"replay"`, `"fail_mode":"open"`},
		{`"syntax":"opaque"`, `"max_len":200`, `"key-reused":409`, `"invalid-key":422`, `"no_store_status":[]`, `"headers":["Accept","Accept-Language"]`},
		{`"mode":"by-method"`, `"header":"Idempotency-Key"`, `"syntax":"lenient"`, `"max_len":255`, `"default_ttl_s":86400`, `"min_ttl_s":3600`, `"max_ttl_s":2592000`,
			`"ttl_from":"completion"`, `"recipe":"3 auto"`, `"key-reused":422`, `"in-progress":409`, `"required_methods":["POST","PATCH"]`, `"execution_timeout_s":30`,
			`"on_lease_expiry":"unknown"`, `"on_5xx":"replay"`, `"on_panic":"unknown"`, `"fail_mode":"closed"`},
	} {
		route := string(must(json.Marshal(doc["routes"].([]any)[i])))
		for _, w := range want {
			if !strings.Contains(route, w) {
				t.Errorf("route %d: want %s in %s", i, w, route)
			}
		}
	}
	if regexp.MustCompile(`"required_methods"`).FindAllString(got, -1) == nil || strings.Contains(string(must(json.Marshal(doc["routes"].([]any)[0]))), "execution_timeout_s") {
		t.Errorf("%s", got)
	}
}

func TestParseTokens(t *testing.T) {
	sum := "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" // of "test"
	got, err := admin.ParseTokens([]byte(`{"b":{"sha256":"` + sum + `","role":"operator"},"a":{"sha256":"` + strings.ToUpper(sum) + `","role":"viewer"}}`))
	if err != nil || !reflect.DeepEqual(got, []admin.Token{admin.NewToken("a", "test", operate.Viewer), admin.NewToken("b", "test", operate.Operator)}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{
		"", "[]", "{}", `{"a":{}}`, `{"a":{"sha256":"` + sum + `"}}`, `{"a":{"sha256":"ab","role":"viewer"}}`, `{"a":{"sha256":"` + sum + `","role":"king"}}`,
		`{"":{"sha256":"` + sum + `","role":"viewer"}}`, `{"a":{"sha256":"` + sum + `","role":"viewer","x":1}}`, `{"a":{"sha256":"` + sum + `","role":"viewer"}} {}`,
	} {
		if _, err := admin.ParseTokens([]byte(bad)); err == nil {
			t.Errorf("%s: want an error", bad)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
