package stethttp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// serve puts a handler on a real listener.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// told is an answer, read to its end.
type told struct {
	*http.Response
	body    string
	problem stethttp.Problem // where it is one
}

// ask sends a POST with header lines "Name: value".
func ask(t *testing.T, url, body string, lines ...string) told {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		req.Header[http.CanonicalHeaderKey(name)] = append(req.Header[http.CanonicalHeaderKey(name)], value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := told{Response: resp, body: string(b)}
	if resp.Header.Get("Content-Type") == stethttp.ProblemMediaType {
		if err := json.Unmarshal(b, &a.problem); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
	}
	return a
}

func (a told) want(t *testing.T, status int, code stethttp.Code) told {
	t.Helper()
	if a.StatusCode != status || a.problem.Code != code {
		t.Errorf("%d %s, want %d %s", a.StatusCode, a.body, status, code)
	}
	return a
}

// has wants header lines "Name: value"; an empty value is none.
func (a told) has(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		name, want, _ := strings.Cut(line, ": ")
		if got := strings.Join(a.Header.Values(name), " | "); got != want {
			t.Errorf("%d %s: %s is %q, want %q", a.StatusCode, a.problem.Code, name, got, want)
		}
	}
}

// blocked is a guarded handler that runs until it is let go.
type blocked struct {
	entered, free chan struct{}
	once          sync.Once
}

func newBlocked(t *testing.T) *blocked {
	b := &blocked{entered: make(chan struct{}), free: make(chan struct{})}
	t.Cleanup(b.release)
	return b
}

func (b *blocked) release() { b.once.Do(func() { close(b.free) }) }

func (b *blocked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	close(b.entered)
	<-b.free
	created(w, r)
}

// first sends the request that runs, until it is let go or the test ends.
func (b *blocked) first(t *testing.T, url, key string) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", key)
	var wg sync.WaitGroup
	wg.Go(func() {
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	})
	<-b.entered
	t.Cleanup(func() {
		b.release()
		wg.Wait()
	})
}

const key1 = `Idempotency-Key: "k-1"`

// C08: a client that obeys is not sent away for the rest of a lease after an operation of a second.
func TestRetryAfterFollowsTheRun(t *testing.T) {
	b := newBlocked(t)
	r := newRig(t, stethttp.Config{}, b.ServeHTTP)
	url := serve(t, r.handler)
	b.first(t, url, "k-1")
	ask(t, url, "{}", key1).want(t, 409, stethttp.InProgress).has(t, "Retry-After: 1", `Idempotency-Key: "k-1"`, "Stet-Outcome: not-executed")

	for ran, want := range map[time.Duration]string{0: "1", 1500 * time.Millisecond: "2", 7 * time.Second: "7", 19 * time.Second: "12"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stethttp.Config{RetryAfterMax: 12 * time.Second}, func(w http.ResponseWriter, _ *http.Request) { time.Sleep(25 * time.Second) })
			go r.post("k", "{}")
			synctest.Wait()
			time.Sleep(ran)
			if got := r.post("k", "{}").Header.Get("Retry-After"); got != want {
				t.Errorf("after %s: %q, want %s", ran, got, want)
			}
			time.Sleep(time.Minute)
		})
	}
}

// C08: who is limited is told when there is a token again, not to try every second.
func TestRetryAfterOfALimit(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits stethttp.LimitsConfig
		code   stethttp.Code
		want   string
	}{
		{"new keys", stethttp.LimitsConfig{NewKeysPerSecond: 0.1, Burst: 1}, stethttp.RateLimited, "10"},
		{"new keys, over the maximum", stethttp.LimitsConfig{NewKeysPerSecond: 1e-9, Burst: 1}, stethttp.RateLimited, "20"},
		{"quota", stethttp.LimitsConfig{MaxKeysPerScope: 1}, stethttp.KeyQuotaExceeded, "20"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := stethttp.Config{Limits: stethttp.NewLimits(c.limits), RetryAfterMax: 20 * time.Second}
			url := serve(t, stethttp.Middleware(newEngine(), stethttp.SingleTenant, conf)(http.HandlerFunc(created)))
			ask(t, url, "{}", key1).want(t, 201, "")
			ask(t, url, "{}", `Idempotency-Key: "k-2"`).want(t, 429, c.code).has(t, "Retry-After: "+c.want, `Idempotency-Key: "k-2"`)
			ask(t, url, "{}", key1).want(t, 201, "").has(t, "Idempotent-Replayed: true")
		})
	}
	r := newRig(t, stethttp.Config{Limits: stethttp.NewLimits(stethttp.LimitsConfig{LookupsPerSecond: 0.125})}, created)
	url := serve(t, r.handler)
	ask(t, url, "{}", key1)
	ask(t, url, "[]", key1).want(t, 422, stethttp.KeyReused)
	ask(t, url, "[]", key1).want(t, 429, stethttp.RateLimited).has(t, "Retry-After: 8")
}

// C18: 422 says which parts differ, and so does the event, without what is in them.
func TestMismatchNamesParts(t *testing.T) {
	r := newRig(t, stethttp.Config{Fingerprint: stet.Recipe{Headers: []string{"accept", "accept-language"}}}, created)
	url := serve(t, r.handler)
	typed := "Content-Type: application/json"
	ask(t, url+"/a?x=1", `{"a":1}`, key1, typed, "Accept: a").want(t, 201, "")
	for _, c := range []struct {
		target, body string
		lines        []string
		want         string
	}{
		{"/a?x=1", `{"a":2}`, []string{typed, "Accept: a"}, "body"},
		{"/a?x=1", `{"a":1}`, []string{"Content-Type: text/plain", "Accept: a"}, "media-type"},
		{"/a?x=2", `{"a":1}`, []string{typed, "Accept: a"}, "query"},
		{"/b?x=1", `{"a":1}`, []string{typed, "Accept: a"}, "path"},
		{"/a?x=1", `{"a":1}`, []string{typed, "Accept: b"}, "header:Accept"},
		{"/a?x=1", `{"a":1}`, []string{typed, "Accept: a", "Accept-Language: de"}, "header:Accept-Language"},
		{"/b?x=2", `{"a":2}`, []string{typed, "Accept: a"}, "path query body"},
		{"/a?x=1", "", []string{typed, "Accept: a"}, "body"},
	} {
		a := ask(t, url+c.target, c.body, append(c.lines, key1)...).want(t, 422, stethttp.KeyReused)
		if got := strings.Join(a.problem.Mismatch, " "); got != c.want {
			t.Errorf("%v: %q, want %q", c, got, c.want)
		}
		a.has(t, `Idempotency-Key: "k-1"`, "Stet-Outcome: not-executed")
		if e := r.last(); e.Kind != stet.Answer || strings.Join(e.Mismatch, " ") != c.want {
			t.Errorf("the event says %q", e.Mismatch)
		}
	}
	ask(t, url+"/a?x=1", `{"a":1}`, key1, typed, "Accept: a").want(t, 201, "").has(t, "Idempotent-Replayed: true")
}

// Q06: the path that counts is the one that was asked for, whatever a router has cut off.
func TestPathsBehindAPrefix(t *testing.T) {
	r := newRig(t, stethttp.Config{}, created)
	mux := http.NewServeMux()
	mux.Handle("/charges/", http.StripPrefix("/charges", r.handler))
	mux.Handle("/refunds/", http.StripPrefix("/refunds", r.handler))
	url := serve(t, mux)
	ask(t, url+"/charges/7", "{}", key1).want(t, 201, "")
	a := ask(t, url+"/refunds/7", "{}", key1).want(t, 422, stethttp.KeyReused)
	if !slices.Equal(a.problem.Mismatch, []string{"path"}) {
		t.Errorf("%q", a.problem.Mismatch)
	}
	ask(t, url+"/charges/7", "{}", key1).want(t, 201, "").has(t, "Idempotent-Replayed: true")
	r.wantRuns(1)
}

// Q10: parts of one upload are requests of their own, and each is replayed.
func TestPartsOfAnUpload(t *testing.T) {
	r := newRig(t, stethttp.Config{}, created)
	url := serve(t, r.handler)
	for _, name := range []string{"Content-Range: bytes %d-%d/10", "Upload-Offset: %d%.0d"} {
		key := "Idempotency-Key: " + name[:7]
		ask(t, url, "12345", key, fmt.Sprintf(name, 0, 4)).want(t, 201, "")
		a := ask(t, url, "12345", key, fmt.Sprintf(name, 5, 9)).want(t, 422, stethttp.KeyReused)
		if field, _, _ := strings.Cut(name, ":"); !slices.Equal(a.problem.Mismatch, []string{"header:" + field}) {
			t.Errorf("%q", a.problem.Mismatch)
		}
		ask(t, url, "12345", key, fmt.Sprintf(name, 0, 4)).want(t, 201, "").has(t, "Idempotent-Replayed: true")
	}
}

// A record of a release that compares requests in a way that this one does not know is refused for
// its key, and nothing runs because of it.
func TestRecordsOfANewerRecipe(t *testing.T) {
	for _, open := range []bool{false, true} {
		r := newRig(t, stethttp.Config{FailOpen: open}, created)
		for key, state := range map[stet.Key]stet.State{"done": stet.Completed, "free": stet.Retryable} {
			made := stet.Record{Head: stet.Head{ID: stet.ID{Scope: stethttp.DefaultScope, Key: key}, Version: 7, State: state, Status: 201, Attempt: 1,
				Fingerprint: stet.Fingerprint{Recipe: "99 auto"}, DueIn: time.Hour}}
			if _, err := r.store.Create(t.Context(), made); err != nil {
				t.Fatal(err)
			}
			r.want(r.post(string(key), "{}"), 503, stethttp.StoreUnavailable)
		}
		r.wantRuns(0)
	}
}

// last is the latest event.
func (r *rig) last() stet.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[len(r.events)-1]
}

// miswired are the causes that were reported.
func (r *rig) miswired() (causes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == stet.Miswired {
			causes = append(causes, e.Cause)
		}
	}
	return causes
}

// C18: every keyed answer repeats the key as it was understood, also where it was refused before
// anybody looked at it, and nothing that is no key.
func TestEveryKeyedAnswerEchoes(t *testing.T) {
	down := &flaky{Store: memstore.New(memstore.Config{})}
	engine, err := stet.New(down, stet.Config{StoreTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	const named = "X-Idem"
	for _, c := range []struct {
		name   string
		config stethttp.Config
		lines  []string
		body   string
		status int
		echo   string
	}{
		{"401", stethttp.Config{}, []string{key1}, "{}", 401, `"k-1"`},
		{"401 of a bare key", stethttp.Config{}, []string{"Idempotency-Key: k-1"}, "{}", 401, `"k-1"`},
		{"401 of an invalid key", stethttp.Config{}, []string{`Idempotency-Key: "k`}, "{}", 401, ""},
		{"401 of two keys", stethttp.Config{}, []string{key1, key1}, "{}", 401, ""},
		{"401 without a key", stethttp.Config{}, nil, "{}", 401, ""},
		{"400", stethttp.Config{}, []string{"X-Tenant-Id: t", `Idempotency-Key: "k`}, "{}", 400, ""},
		{"400 of no key", stethttp.Config{}, []string{"X-Tenant-Id: t"}, "{}", 400, ""},
		{"413", stethttp.Config{MaxBody: 4}, []string{"X-Tenant-Id: t", key1}, "123456", 413, `"k-1"`},
		{"425", stethttp.Config{EarlyData: true}, []string{"X-Tenant-Id: t", key1, "Early-Data: 1"}, "{}", 425, `"k-1"`},
		{"412", stethttp.Config{MaxRequestAge: time.Hour}, []string{"X-Tenant-Id: t", key1}, "{}", 412, `"k-1"`},
		{"503", stethttp.Config{}, []string{"X-Tenant-Id: t", key1}, "{}", 503, `"k-1"`},
		{"429", stethttp.Config{Limits: stethttp.NewLimits(stethttp.LimitsConfig{MaxBufferedBytes: 1})}, []string{"X-Tenant-Id: t", key1}, "{}", 429, `"k-1"`},
		{"opaque", stethttp.Config{Key: stet.KeyRule{Syntax: stet.Opaque}}, []string{key1}, "{}", 401, `"k-1"`},
		{"opaque, bare", stethttp.Config{Key: stet.KeyRule{Syntax: stet.Opaque}}, []string{"Idempotency-Key: k-1"}, "{}", 401, "k-1"},
	} {
		for _, header := range []string{"", named} {
			t.Run(c.name+" "+header, func(t *testing.T) {
				down.down.Store(true)
				conf := c.config
				conf.KeyHeader = header
				url := serve(t, stethttp.Middleware(engine, stethttp.HeaderScope("X-Tenant-Id"), conf)(http.HandlerFunc(created)))
				lines := slices.Clone(c.lines)
				for i := range lines {
					if header != "" {
						lines[i] = strings.Replace(lines[i], "Idempotency-Key", header, 1)
					}
				}
				a := ask(t, url, c.body, lines...).want(t, c.status, ask(t, url, c.body, lines...).problem.Code)
				a.has(t, "Idempotency-Key: "+c.echo, "Stet-Outcome: not-executed")
				if header != "" {
					a.has(t, header+": "+c.echo)
				}
			})
		}
	}
	down.down.Store(false)
	url := serve(t, stethttp.Middleware(engine, stethttp.SingleTenant, stethttp.Config{KeyHeader: named})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(named, "the handler's own")
		created(w, r)
	})))
	for _, replayed := range []string{"", "true"} { // and so do results
		ask(t, url, "{}", named+": k-1").want(t, 201, "").has(t, named+`: "k-1"`, `Idempotency-Key: "k-1"`, "Idempotent-Replayed: "+replayed)
	}
}

// C18: scripts of origins that are listed can read the layer's own answers, and of those alone.
func TestCORSOfTheLayersOwnAnswers(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://the.handlers.own")
		created(w, r)
	}
	for _, c := range []struct {
		allow         []string
		origin        string
		want, expose  string
		credentials   string
		wantVary, key string
	}{
		{nil, "https://shop.example", "", "", "", "", ""},
		{[]string{"https://shop.example"}, "https://shop.example", "https://shop.example", "Idempotency-Key", "true", "Origin", ""},
		{[]string{"https://shop.example"}, "https://evil.example", "", "", "", "Origin", ""},
		{[]string{"https://shop.example"}, "https://shop.example.evil.example", "", "", "", "Origin", ""},
		{[]string{"https://shop.example"}, "null", "", "", "", "Origin", ""},
		{[]string{"https://shop.example"}, "", "", "", "", "Origin", ""},
		{[]string{"*"}, "https://shop.example", "*", "Retry-After", "", "Origin", ""},
		{[]string{"https://shop.example"}, "https://shop.example", "https://shop.example", "X-Idem", "true", "Origin", "X-Idem"},
	} {
		r := newRig(t, stethttp.Config{AllowOrigins: c.allow, KeyHeader: c.key}, handler)
		url := serve(t, r.handler)
		lines := []string{}
		if c.origin != "" {
			lines = append(lines, "Origin: "+c.origin)
		}
		a := ask(t, url, "{}", lines...).want(t, 400, stethttp.MissingKey)
		a.has(t, "Access-Control-Allow-Origin: "+c.want, "Vary: "+c.wantVary, "Access-Control-Allow-Credentials: "+c.credentials)
		if got := a.Header.Get("Access-Control-Expose-Headers"); !strings.Contains(got, c.expose) || (c.expose == "") != (got == "") {
			t.Errorf("exposed: %q, want %q among them", got, c.expose)
		}
		name := c.key
		if name == "" {
			name = "Idempotency-Key"
		}
		for range 2 { // the handler's answer and its replay are as the handler wrote them
			a := ask(t, url, "{}", append(lines, name+": k-1")...).want(t, 201, "")
			a.has(t, "Access-Control-Allow-Origin: https://the.handlers.own", "Access-Control-Expose-Headers: ", "Vary: ")
		}
	}
}

func TestCORSPreflightsPass(t *testing.T) { // C18
	r := newRig(t, stethttp.Config{AllowOrigins: []string{"*"}, EnabledMethods: []string{"POST", "OPTIONS"}}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, serve(t, r.handler), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://shop.example")
	req.Header.Set("Access-Control-Request-Method", "POST")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent || resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

func TestCORSRefusesWhatNoBrowserSends(t *testing.T) { // C18
	for _, origins := range [][]string{{"shop.example"}, {"https://shop.example/"}, {"https://shop.example/a"}, {"https://shop.example?a"}, {"https://shop.example#a"},
		{"https://Shop.example"}, {"https://*.shop.example"}, {"https://u@shop.example"}, {"https://shop.example:443"}, {"http://shop.example:80"},
		{"https://shop.example:"}, {"null"}, {""}, {"*", "https://shop.example"}, {"https://shöp.example"}, {"https://a.example, https://b.example"}} {
		if err := (stethttp.Config{AllowOrigins: origins}).Validate(); err == nil {
			t.Errorf("%q was taken", origins)
		}
	}
	for _, origins := range [][]string{nil, {"*"}, {"https://shop.example", "http://localhost:5173", "https://[::1]:8443", "capacitor://localhost"}} {
		if err := (stethttp.Config{AllowOrigins: origins}).Validate(); err != nil {
			t.Errorf("%q: %v", origins, err)
		}
	}
}

// C18: the challenge names what is missing (RFC 9110 section 11.6.1); it is Bearer for tokens
// alone.
func TestChallengesNameWhatIsMissing(t *testing.T) {
	token := func(*http.Request) (stet.Scope, error) {
		return "", &stethttp.NoIdentity{Challenge: `Bearer realm="payments", error="invalid_token"`}
	}
	for _, c := range []struct {
		scope stethttp.ScopeFunc
		want  string
	}{
		{stethttp.HeaderScope("x-tenant-id"), `Header realm="idempotency keys", name="X-Tenant-Id"`},
		{stethttp.APIKeyScope("X-Api-Key"), `ApiKey realm="idempotency keys", name="X-Api-Key"`},
		{stethttp.ClientCertScope, `ClientCertificate realm="idempotency keys"`},
		{token, `Bearer realm="payments", error="invalid_token"`},
		{func(*http.Request) (stet.Scope, error) { return "", stethttp.ErrNoIdentity }, `Identity realm="idempotency keys"`},
		{func(*http.Request) (stet.Scope, error) { return "", nil }, `Identity realm="idempotency keys"`},
	} {
		url := serve(t, stethttp.Middleware(newEngine(), c.scope, stethttp.Config{})(http.HandlerFunc(created)))
		ask(t, url, "{}", key1).want(t, 401, stethttp.Unauthenticated).has(t, "WWW-Authenticate: "+c.want)
		if _, err := c.scope(httptest.NewRequest("POST", "/", nil)); err != nil && !errors.Is(err, stethttp.ErrNoIdentity) {
			t.Errorf("%v is no ErrNoIdentity", err)
		}
	}
}

// TestFirstSent: a date of the future would be young for as long as it lies ahead. A client's clock
// may be some minutes ahead.
func TestFirstSent(t *testing.T) { // U02
	for _, c := range []struct {
		ago  time.Duration
		runs bool
	}{
		{0, true}, {time.Hour, true}, {-5 * time.Minute, true},
		{time.Hour + time.Second, false}, {-5*time.Minute - time.Second, false}, {-73 * 365 * 24 * time.Hour, false},
	} {
		synctest.Test(t, func(t *testing.T) { // whole seconds, as HTTP dates have
			r := newRig(t, stethttp.Config{MaxRequestAge: time.Hour}, created)
			req := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
			req.Header.Set("Idempotency-Key", "k")
			req.Header.Set("Idempotency-First-Sent", time.Now().Add(-c.ago).UTC().Format(http.TimeFormat))
			w := httptest.NewRecorder()
			r.handler.ServeHTTP(w, req)
			if c.runs {
				r.want(w.Result(), 201, "")
			} else if r.want(w.Result(), 412, stethttp.RequestTooOld); r.state("k") != 0 {
				t.Error("it was stored")
			}
		})
	}
}

// C12: what is no word of Stet-Outcome might have been meant as any of them.
func TestStatedOutcomesAreStrictlyRead(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  stet.State
		bad   bool
	}{
		{nil, stet.Completed, false},
		{[]string{"not-executed"}, stet.Retryable, false},
		{[]string{"Not-Executed"}, stet.Retryable, false},
		{[]string{" \tNOT-EXECUTED "}, stet.Retryable, false},
		{[]string{"unknown"}, stet.Unknown, false},
		{[]string{"Unknown"}, stet.Unknown, false},
		{[]string{"COMPLETED"}, stet.Completed, false},
		{[]string{`"not-executed"`}, stet.Unknown, true},
		{[]string{"not_executed"}, stet.Unknown, true},
		{[]string{"unknow"}, stet.Unknown, true},
		{[]string{""}, stet.Unknown, true},
		{[]string{"not-executed, not-executed"}, stet.Unknown, true},
		{[]string{"not-executed", "not-executed"}, stet.Unknown, true},
		{[]string{"completed", "unknown"}, stet.Unknown, true},
	} {
		r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			if c.lines != nil {
				w.Header()["Stet-Outcome"] = c.lines
			}
			w.WriteHeader(200)
		})
		ask(t, serve(t, r.handler), "{}", "Idempotency-Key: k").want(t, 200, "").has(t, "Stet-Outcome: ")
		if got := r.state("k"); got != c.want {
			t.Errorf("%q: %v, want %v", c.lines, got, c.want)
		}
		if causes := strings.Join(r.miswired(), " "); (causes == "bad-outcome") != c.bad {
			t.Errorf("%q: reported as %q", c.lines, causes)
		}
	}
}

// C10: a layer in front is told what a refusal proves of the request.
func TestOwnAnswersStateTheirOutcome(t *testing.T) {
	unknown := func(w http.ResponseWriter, r *http.Request) { stet.ClaimFrom(r.Context()).Unknown("test") }
	r := newRig(t, stethttp.Config{}, unknown)
	url := serve(t, r.handler)
	ask(t, url, "{}").want(t, 400, stethttp.MissingKey).has(t, "Stet-Outcome: not-executed")
	ask(t, url, "{}", key1).want(t, 200, "").has(t, "Stet-Outcome: ") // the handler's own
	ask(t, url, "{}", key1).want(t, 409, stethttp.OutcomeUnknown).has(t, "Stet-Outcome: not-executed")

	slow := newRig(t, stethttp.Config{Policy: stet.Policy{Execution: 20 * time.Millisecond}}, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ask(t, serve(t, slow.handler), "{}", key1).want(t, 504, stethttp.ExecutionTimeout).has(t, "Stet-Outcome: unknown")

	large := newRig(t, stethttp.Config{MaxResponse: 1}, created)
	url = serve(t, large.handler)
	ask(t, url, "{}", key1)
	ask(t, url, "{}", key1).want(t, 409, stethttp.ResultNotRetained).has(t, "Stet-Outcome: ") // it is the result

	synctest.Test(t, func(t *testing.T) { // a store that is away is asked for seconds
		lost := newRig(t, stethttp.Config{Withhold: true}, created)
		lost.store.noComplete.Store(true)
		resp := lost.post("k-1", "{}")
		if lost.want(resp, 409, stethttp.OutcomeUnknown); resp.Header.Get("Stet-Outcome") != "unknown" {
			t.Errorf("Stet-Outcome: %s", resp.Header.Get("Stet-Outcome"))
		}
		lost.store.noComplete.Store(false)
		if err := lost.engine.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})

	for _, c := range []struct {
		state func(*stet.Claim)
		code  stethttp.Code
		want  string
	}{
		{func(c *stet.Claim) { c.NotExecuted("test") }, stethttp.UpstreamUnreachable, "not-executed"},
		{func(c *stet.Claim) { c.Unknown("test") }, stethttp.UpstreamFailed, "unknown"},
		{func(*stet.Claim) {}, stethttp.UpstreamFailed, "unknown"},
		{func(*stet.Claim) {}, stethttp.RateLimited, "not-executed"},
	} {
		g, err := stethttp.New(newEngine(), stethttp.SingleTenant, stethttp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		refusing := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
			c.state(stet.ClaimFrom(r.Context()))
			g.Refuse(w, r, stethttp.NewProblem(c.code, ""))
		})
		ask(t, serve(t, refusing.handler), "{}", key1).has(t, "Stet-Outcome: "+c.want, `Idempotency-Key: "k-1"`)
	}
}

// C10, C19: a request that meets its own record is recognised, waits for nothing, and burns no key.
func TestOneGuardPerRecord(t *testing.T) {
	for _, mode := range []struct {
		name  string
		inner stethttp.Config
		code  stethttp.Code
	}{
		{"at once", stethttp.Config{}, stethttp.InProgress},
		{"with waiting", stethttp.Config{Waiting: stethttp.Wait}, stethttp.InProgress},
		{"with another recipe", stethttp.Config{Fingerprint: stet.Recipe{Body: stet.BodyRaw}}, stethttp.InProgress},
	} {
		t.Run(mode.name, func(t *testing.T) {
			r := newRig(t, mode.inner, created)
			url := serve(t, stethttp.Middleware(r.engine, stethttp.SingleTenant, stethttp.Config{})(r.handler))
			for range 2 {
				a := ask(t, url, "{}", "Idempotency-Key: k").want(t, 409, mode.code)
				if !strings.Contains(a.problem.Detail, "two guards on one record") {
					t.Errorf("the cause is not named: %s", a.problem.Detail)
				}
			}
			r.wantRuns(0)
			if r.state("k") != stet.Retryable || !slices.Equal(r.miswired(), []string{"second-guard", "second-guard"}) {
				t.Errorf("the key is %v; reported: %q", r.state("k"), r.miswired())
			}
			r.want(r.post("k2", "{}"), 201, "") // the guard by itself
		})
	}
	t.Run("twice through one guard", func(t *testing.T) {
		r := newRig(t, stethttp.Config{}, created)
		elsewhere := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { // the path differs, too
			changed := req.Clone(req.Context())
			changed.URL.Path = "/another"
			r.handler.ServeHTTP(w, changed)
		})
		for key, c := range map[string]struct {
			inner  http.Handler
			status int
			code   stethttp.Code
		}{
			"cut":     {http.StripPrefix("/v1", r.handler), 409, stethttp.InProgress},
			"changed": {elsewhere, 422, stethttp.KeyReused},
		} {
			url := serve(t, stethttp.Middleware(r.engine, stethttp.SingleTenant, stethttp.Config{})(c.inner))
			a := ask(t, url+"/v1/x", "{}", "Idempotency-Key: "+key).want(t, c.status, c.code)
			if !strings.Contains(a.problem.Detail, "two guards on one record") || r.state(key) != stet.Retryable {
				t.Errorf("%s: %v: %s", key, r.state(key), a.problem.Detail)
			}
		}
	})
	t.Run("another scope", func(t *testing.T) { // as the docs advise
		r := newRig(t, stethttp.Config{}, created)
		own := func(*http.Request) (stet.Scope, error) { return "edge", nil }
		url := serve(t, stethttp.Middleware(r.engine, own, stethttp.Config{})(r.handler))
		ask(t, url, "{}", "Idempotency-Key: k").want(t, 201, "")
		ask(t, url, "{}", "Idempotency-Key: k").want(t, 201, "").has(t, "Idempotent-Replayed: true")
		r.wantRuns(1)
	})
}

// A header that tells of another run is no sign of a second guard.
func TestAForeignFenceMeansNothing(t *testing.T) { // C10
	b := newBlocked(t)
	r := newRig(t, stethttp.Config{}, b.ServeHTTP)
	url := serve(t, r.handler)
	b.first(t, url, "k")
	rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	fence := strconv.FormatInt(rec.Fence(), 10)
	for _, lines := range [][]string{{"Stet-Attempt: 1", "Stet-Fence: 1"}, {"Stet-Attempt: 2", "Stet-Fence: " + fence}, {"Stet-Fence: " + fence}, {"Stet-Attempt: 1"}} {
		ask(t, url, "{}", append(lines, "Idempotency-Key: k")...).want(t, 409, stethttp.InProgress)
	}
	if causes := r.miswired(); len(causes) > 0 {
		t.Errorf("reported: %q", causes)
	}
	ask(t, url, "{}", "Idempotency-Key: k", "Stet-Attempt: 1", "Stet-Fence: "+fence).want(t, 409, stethttp.InProgress)
	if causes := r.miswired(); len(causes) != 1 {
		t.Errorf("the run's own: %q", causes)
	}
}

// C21: a client says how long it waits (RFC 7240 section 4.3), within what the policy allows.
func TestPreferWait(t *testing.T) {
	for _, c := range []struct {
		name    string
		config  stethttp.Config
		prefer  []string
		after   time.Duration // the run takes 10 s, and the duplicate comes after 1 s
		status  int
		applied string
	}{
		{"none", stethttp.Config{}, nil, 0, 409, ""},
		{"long enough", stethttp.Config{}, []string{"wait=20"}, 9 * time.Second, 201, "wait=20"},
		{"too short", stethttp.Config{}, []string{"wait=5"}, 5 * time.Second, 409, "wait=5"},
		{"not at all, against the policy", stethttp.Config{Waiting: stethttp.Wait}, []string{"wait=0"}, 0, 409, "wait=0"},
		{"shorter than the policy's", stethttp.Config{Waiting: stethttp.Wait}, []string{"wait=3"}, 3 * time.Second, 409, "wait=3"},
		{"bounded", stethttp.Config{WaitTimeout: 4 * time.Second}, []string{"wait=600"}, 4 * time.Second, 409, "wait=4"},
		{"among others", stethttp.Config{}, []string{`respond-async, Wait = "20" ; x=y`, "wait=1"}, 9 * time.Second, 201, "wait=20"},
		{"on another line", stethttp.Config{}, []string{"return=minimal", "wait=20"}, 9 * time.Second, 201, "wait=20"},
		{"over 202", stethttp.Config{Waiting: stethttp.Accepted}, []string{"wait=20"}, 9 * time.Second, 201, "wait=20"},
		{"202 all the same", stethttp.Config{Waiting: stethttp.Accepted}, []string{"wait=2"}, 2 * time.Second, 202, "wait=2"},
		{"nonsense", stethttp.Config{}, []string{"wait=-1"}, 0, 409, ""},
		{"no number", stethttp.Config{}, []string{"wait"}, 0, 409, ""},
		{"nonsense and a policy", stethttp.Config{Waiting: stethttp.Wait}, []string{"wait=x"}, 9 * time.Second, 201, ""},
		{"absurd", stethttp.Config{WaitTimeout: 2 * time.Second}, []string{"wait=9223372036854775807"}, 2 * time.Second, 409, "wait=2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.config, func(w http.ResponseWriter, req *http.Request) {
					time.Sleep(10 * time.Second)
					created(w, req)
				})
				go r.post("k", "{}")
				time.Sleep(time.Second)
				began := time.Now()
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/charges", strings.NewReader("{}"))
				req.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}, "Prefer": c.prefer}
				w := httptest.NewRecorder()
				r.handler.ServeHTTP(w, req)
				if w.Code != c.status || time.Since(began) != c.after || w.Header().Get("Preference-Applied") != c.applied {
					t.Errorf("%d after %s, %q; want %d after %s, %q", w.Code, time.Since(began), w.Header().Get("Preference-Applied"), c.status, c.after, c.applied)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// What a client prefers is bounded by how many may wait, and what was not heeded is not said to be.
func TestPreferWaitIsBounded(t *testing.T) { // C21
	b := newBlocked(t)
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{MaxWaiters: 1})
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, stethttp.Middleware(engine, stethttp.SingleTenant, stethttp.Config{})(b))
	b.first(t, url, "k-1")
	answers := make(chan told, 2)
	for range 2 {
		go func() { answers <- ask(t, url, "{}", key1, "Prefer: wait=25") }()
	}
	(<-answers).want(t, 409, stethttp.InProgress).has(t, "Preference-Applied: ")
	b.release()
	(<-answers).want(t, 201, "").has(t, "Preference-Applied: wait=25", "Idempotent-Replayed: true")
}

// asText renders a refusal as a line of text.
func asText(w http.ResponseWriter, _ *http.Request, p *stethttp.Problem) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(p.Status)
	_, _ = io.WriteString(w, "refused: "+string(p.Code))
}

// C20: what does not depend on the form is there before Render is asked.
func TestRender(t *testing.T) {
	r := newRig(t, stethttp.Config{Render: asText, AllowOrigins: []string{"*"}}, created)
	url := serve(t, r.handler)
	a := ask(t, url, "{}")
	if a.StatusCode != 400 || a.body != "refused: missing-key" {
		t.Errorf("%d %q", a.StatusCode, a.body)
	}
	a.has(t, "Content-Type: text/plain", "Access-Control-Allow-Origin: *", "Stet-Outcome: not-executed", "Cache-Control: no-store")
	ask(t, url, "{}", key1)
	a = ask(t, url, "[]", key1)
	a.has(t, `Idempotency-Key: "k-1"`, "Content-Type: text/plain")
	if a.StatusCode != 422 || a.body != "refused: key-reused" {
		t.Errorf("%d %q", a.StatusCode, a.body)
	}
	ask(t, url, "{}", key1).want(t, 201, "").has(t, "Idempotent-Replayed: true")
	if causes := r.miswired(); causes != nil {
		t.Errorf("reported: %q", causes)
	}
}

// C20: a Render that fails leaves an answer all the same, also where it is asked while the handler
// runs.
func TestARenderThatFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		render func(http.ResponseWriter, *http.Request, *stethttp.Problem)
		body   string // "": the layer's own
	}{
		{"panics", func(http.ResponseWriter, *http.Request, *stethttp.Problem) { panic("boom") }, ""},
		{"aborts", func(http.ResponseWriter, *http.Request, *stethttp.Problem) { panic(http.ErrAbortHandler) }, ""},
		{"writes nothing", func(http.ResponseWriter, *http.Request, *stethttp.Problem) {}, ""},
		{"panics too late", func(w http.ResponseWriter, r *http.Request, p *stethttp.Problem) {
			w.Header().Set("X-Half", "done")
			asText(w, r, p)
			panic("boom")
		}, ""},
		{"answers with no status of HTTP", func(w http.ResponseWriter, _ *http.Request, _ *stethttp.Problem) { w.WriteHeader(7) }, ""},
		{"does not fail", asText, "refused: execution-timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			back := make(chan struct{})
			r := newRig(t, stethttp.Config{Render: c.render, Policy: stet.Policy{Execution: 20 * time.Millisecond}}, func(http.ResponseWriter, *http.Request) { <-back })
			url := serve(t, r.handler)
			defer close(back)
			// The handler has not returned: the answer comes from a goroutine of the layer, where a
			// panic would end the process.
			a := ask(t, url, "{}", key1)
			if a.StatusCode != 504 || c.body != "" && a.body != c.body || c.body == "" && a.problem.Code != stethttp.ExecutionTimeout {
				t.Errorf("%d %q", a.StatusCode, a.body)
			}
			a.has(t, "X-Half: ", `Idempotency-Key: "k-1"`, "Stet-Outcome: unknown")
			if failed := slices.Equal(r.miswired(), []string{"bad-render"}); failed != (c.body == "") {
				t.Errorf("reported: %q", r.miswired())
			}
		})
	}
}

// An answer that is taken back takes with it that its end is not known.
func TestUnframedIsTakenBack(t *testing.T) { // R06
	for _, back := range []bool{true, false} {
		r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half an ans")
			if whole, cut := w.(interface{ Unframed() (whole, cut bool) }).Unframed(); whole || cut {
				t.Error("it can be told of a text")
			}
			if back {
				w.(interface{ Discard() bool }).Discard()
				_, _ = io.WriteString(w, "another")
			}
		})
		srv := httptest.NewServer(r.handler)
		for range 2 {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", srv.URL, strings.NewReader("x"))
			req.Header.Set("Idempotency-Key", "k")
			res, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if known := res.ContentLength >= 0; known != back {
				t.Errorf("taken back: %t, length %d", back, res.ContentLength)
			}
		}
		srv.Close()
	}
}
