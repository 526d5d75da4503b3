package reconcile

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

func TestProbe(t *testing.T) {
	odd := stet.Head{ID: stet.ID{Scope: "a/b", Key: `k ?&#"ü+`}, Path: "/v1/p%2Fq", DownstreamKey: "d/1"}
	for name, c := range map[string]struct {
		probe  Probe
		status int
		want   Effect
		answer int
		kept   stet.Kept
	}{
		"found":             {Probe{}, 200, Happened, 200, stet.KeptWhole},
		"found as":          {Probe{Status: 201}, 200, Happened, 201, stet.KeptWhole},
		"found, otherwise":  {Probe{Found: []int{302}}, 302, Happened, 302, stet.KeptWhole},
		"found, too large":  {Probe{MaxBody: 3}, 200, Happened, 200, stet.KeptStatus},
		"missing":           {Probe{}, 404, Missing, 0, 0},
		"missing otherwise": {Probe{Missing: []int{410}}, 404, Pending, 0, 0},
		"broken":            {Probe{}, 500, Pending, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var asked url.Values
			var path string
			var header http.Header
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked, path, header = r.URL.Query(), r.URL.EscapedPath(), r.Header
				w.Header().Set("Content-Type", "text/x")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte("body"))
			}))
			defer s.Close()
			c.probe.URL = s.URL + "/of/{downstream_key}?key={key}&scope={scope}&path={path}&fence={fence}&life={life_key}"
			if err := c.probe.Validate(); err != nil {
				t.Fatal(err)
			}
			f, err := c.probe.Resolve(t.Context(), odd)
			if err != nil || f.Effect != c.want || f.Kept != c.kept {
				t.Fatalf("%+v, %v", f, err)
			}
			if asked.Get("key") != string(odd.Key) || asked.Get("scope") != "a/b" || asked.Get("path") != odd.Path || path != "/of/d%2F1" {
				t.Errorf("asked for %v at %s", asked, path)
			}
			fence := fmt.Sprint(odd.Fence()) // K01
			if asked.Get("fence") != fence || asked.Get("life") != odd.LifeKey() || header.Get("Stet-Fence") != fence || header.Get("Stet-Attempt") != fmt.Sprint(odd.Attempt) {
				t.Errorf("asked about %v with %v", asked, header)
			}
			if c.want == Happened && (f.Response.Status != c.answer || c.kept == stet.KeptWhole && string(f.Response.Body) != "body" || f.Response.Header[0].Value != "text/x") {
				t.Errorf("%+v", f.Response)
			}
		})
	}
}

func TestProbeErrorsNameNoKey(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Probe{URL: "http://127.0.0.1:1/{key}"}.Resolve(ctx, stet.Head{ID: stet.ID{Scope: "s", Key: "secret"}})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// A key that is dots would be a path, and the answer would be that of another URL: of all payments,
// or of the service itself.
func TestProbeAsksNoOtherURL(t *testing.T) { // A20
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked++; w.WriteHeader(404) }))
	defer s.Close()
	head := func(scope, key, downstream string) stet.Head {
		return stet.Head{ID: stet.ID{Scope: stet.Scope(scope), Key: stet.Key(key)}, DownstreamKey: downstream, Path: ".."}
	}
	for _, c := range []struct {
		template string
		head     stet.Head
		refused  bool
	}{
		{"/payments/{key}", head("s", ".", ""), true},
		{"/payments/{key}", head("s", "..", ""), true},
		{"/payments/{key}/status", head("s", "...", ""), true},
		{"/payments/.{key}", head("s", ".", ""), true},
		{"/payments/%2E{key}", head("s", ".", ""), true},
		{"/{scope}/{key}", head("..", "k", ""), true},
		{"/payments/{downstream_key}", head("s", "k", ".."), true},
		{"/payments/{downstream_key}", head("s", "..", ""), true},
		{"/payments/{path}/{key}", head("s", "k", ""), true},
		{"/payments/{key}", head("s", "a..", ""), false},
		{"/payments/{key}", head("s", "../x", ""), false}, // one segment: ..%2Fx
		{"/payments/{key}", head("s", "%2e%2e", ""), false},
		{"/payments?key={key}&scope={scope}", head("..", "..", ""), false},
		{"/payments/key-{key}", head("s", "..", ""), false},
	} {
		asked = 0
		f, err := Probe{URL: s.URL + c.template}.Resolve(t.Context(), c.head)
		if c.refused && (err == nil || !strings.Contains(err.Error(), "another URL") || asked != 0) || !c.refused && (err != nil || asked != 1 || f.Effect != Missing) {
			t.Errorf("%s of %q, %q: %+v, %v, asked %d times", c.template, string(c.head.Scope), string(c.head.Key), f, err, asked)
		}
	}
}

func TestProbeURLsThatCannotBeUsed(t *testing.T) {
	for _, u := range []string{"", "ftp://x/{key}", "http://x/{id}", "http://x/{key", "http://x/", "/{key}", "http://x/../{key}", "http://x/%2e/{key}"} {
		if err := (Probe{URL: u}).Validate(); err == nil {
			t.Errorf("%q was taken", u)
		}
	}
}

var secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234567"))

// notice is one about the execution that the record of the i-th key is about.
func (w *ward) notice(i int, rest string) string {
	w.t.Helper()
	r := w.state(i)
	return fmt.Sprintf(`{"scope":"s","key":"k%d","fence":%d,%s}`, i, r.Fence(), rest)
}

// voided is one that nothing happened.
func (w *ward) voided(i int) string {
	w.t.Helper()
	return w.notice(i, `"outcome":"not-executed"`)
}

// notify sends a notice with an id of its own, as a provider would.
func notify(h http.Handler, body, secret string, at time.Time) *httptest.ResponseRecorder {
	return redeliver(h, "msg_"+rand.Text(), body, secret, at)
}

// redeliver sends a notice under an id that may have been used before, signed at another time.
func redeliver(h http.Handler, id, body, secret string, at time.Time) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, signedNotice(id, body, secret, at))
	return w
}

func signedNotice(id, body, secret string, at time.Time) *http.Request {
	key, _ := standardSecret(secret)
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%d.%s", id, at.Unix(), body)
	other := base64.StdEncoding.EncodeToString(make([]byte, sha256.Size))
	r := httptest.NewRequest(http.MethodPost, "/hooks/reconcile", strings.NewReader(body))
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	r.Header.Set("webhook-signature", "v1,b3RoZXI= v1,"+other+" v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return r
}

func TestNoticeEndsTheUnknown(t *testing.T) { // S2-48
	w := newWard(t, 2)
	h := Webhook{Engine: w.Engine, Secrets: []string{secret}}
	done := w.notice(0, `"outcome":"completed","status":201,"headers":{"content-type":["text/x"]},"body_b64":"Y2hfMQ==","evidence":"evt_1"`)
	for i := range 2 { // twice: nothing changes
		if a := notify(h, done, secret, time.Now()); a.Code != 200 {
			t.Fatalf("notice %d: %d %s", i, a.Code, a.Body)
		}
	}
	if r := w.state(0); r.State != stet.Completed || string(r.Response.Body) != "ch_1" || r.Response.Header[0].Name != "Content-Type" || r.Note.Evidence != "evt_1" {
		t.Errorf("%+v", r)
	}
	if a := notify(h, w.voided(1), secret, time.Now()); a.Code != 200 {
		t.Fatal(a.Code, a.Body)
	}
	w.begin(1, stet.Execute)
	if a := notify(h, done, secret, time.Now()); a.Code != 200 {
		t.Error("what was known before", a.Code)
	}
}

func TestNoticesThatChangeNothing(t *testing.T) {
	w := newWard(t, 1)
	running := w.begin(1, stet.Execute)
	h := Webhook{Engine: w.Engine, Secrets: []string{"whsec_bm9uZQ==", secret}}
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte("another-key-of-24-bytes!"))
	ok := w.voided(0)
	for name, c := range map[string]struct {
		body, secret string
		at           time.Time
		want         int
	}{
		"another secret":     {ok, other, time.Now(), 401},
		"an old timestamp":   {ok, secret, time.Now().Add(-6 * time.Minute), 401},
		"one of the future":  {ok, secret, time.Now().Add(6 * time.Minute), 401},
		"no JSON":            {"{", secret, time.Now(), 400},
		"no outcome":         {`{"scope":"s","key":"k0"}`, secret, time.Now(), 400},
		"no name":            {`{"scope":"s","outcome":"not-executed","fence":1}`, secret, time.Now(), 400},
		"no status":          {`{"scope":"s","key":"k0","outcome":"completed"}`, secret, time.Now(), 400},
		"a header injection": {`{"scope":"s","key":"k0","outcome":"completed","fence":1,"status":200,"headers":{"X":["a\r\nY: b"]}}`, secret, time.Now(), 400},
		"an absent record":   {`{"scope":"s","key":"kX","outcome":"not-executed","fence":1}`, secret, time.Now(), 404},
		"the default scope":  {`{"key":"k0","outcome":"not-executed","fence":1}`, secret, time.Now(), 404},
		"a running one":      {w.voided(1), secret, time.Now(), 409}, // CR-09
	} {
		if a := notify(h, c.body, c.secret, c.at); a.Code != c.want {
			t.Errorf("%s: %d %s, want %d", name, a.Code, a.Body, c.want)
		}
	}
	plain := httptest.NewRecorder()
	h.ServeHTTP(plain, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(ok)))
	if plain.Code != 401 {
		t.Errorf("unsigned: %d", plain.Code)
	}
	w.begin(0, stet.Unresolved)
	if err := running.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 200}}); err != nil {
		t.Error(err)
	}
}

// A refusal has the webhook's problem base, and for a code of the layer the layer's status and title.
// No cache keeps it.
func TestRefusalsOfTheWebhook(t *testing.T) { // X01
	w := newWard(t, 1)
	const base = "https://errors.example/"
	h := Webhook{Engine: w.Engine, Secrets: []string{secret}, ProblemBase: base}
	a := httptest.NewRecorder()
	h.ServeHTTP(a, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(w.voided(0))))
	p := stethttp.NewProblem(stethttp.Unauthenticated, base)
	want := fmt.Sprintf(`{"type":%q,"title":%q,"status":401,"detail":%q,"code":"unauthenticated"}`+"\n", p.Type, p.Title, notSigned)
	if got := a.Header(); a.Code != p.Status || a.Body.String() != want || got.Get("Cache-Control") != "no-store" || got.Get("Content-Type") != "application/problem+json" ||
		got.Get("Content-Length") != fmt.Sprint(len(want)) {
		t.Errorf("%d %v %s, want %s", a.Code, got, a.Body, want)
	}
	h.ProblemBase = ""
	a = httptest.NewRecorder()
	h.ServeHTTP(a, httptest.NewRequest(http.MethodGet, "/", nil))
	want = fmt.Sprintf(`{"type":%q,"title":"A notice is sent by POST","status":405,`, stethttp.DefaultProblemBase+"method-not-allowed")
	if a.Code != 405 || !strings.HasPrefix(a.Body.String(), want) {
		t.Errorf("%d %s, want %s", a.Code, a.Body, want)
	}
}

func TestSecretsThatAreNone(t *testing.T) {
	for _, s := range []string{"", "whsec_", "whsec_?", "whsec_YQ==", strings.TrimPrefix(secret, "whsec_")} {
		if _, err := standardSecret(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}
