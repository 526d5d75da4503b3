package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// front makes what serves clients from the text of a configuration, as a gateway on the store
// does.
func front(t *testing.T, s stet.Store, upstream, text string) http.Handler {
	t.Helper()
	t.Chdir(t.TempDir())
	configured(t, text)
	conf, err := config.Load(config.Options{File: "stet.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	conf.Upstream = upstream
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := handler(e, conf, stethttp.NewLimits(conf.LimitsConfig()), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.CloseIdle)
	return g
}

// call sends a request with a key, "" for none, through h.
func call(h http.Handler, method, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/x", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// counting is an upstream that counts what it did.
func counting(t *testing.T) (url string, effects *atomic.Int64) {
	t.Helper()
	effects = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := effects.Add(1)
		w.Header().Set("X-Effect", fmt.Sprint(n))
		w.Header().Set("X-Secret", "of the first caller")
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(s.Close)
	return s.URL, effects
}

// F: gateway-compat guards POST, PATCH and PUT, requires no key, marks no replay, and says
// what is wrong as {"error": …}.
func TestGatewayCompat(t *testing.T) {
	upstream, effects := counting(t)
	h := front(t, memstore.New(memstore.Config{}), upstream, "policy: { profile: gateway-compat }\n")
	for _, c := range []struct {
		method  string
		guarded bool
	}{{"POST", true}, {"PATCH", true}, {"PUT", true}, {"DELETE", false}, {"GET", false}} {
		before := effects.Load()
		first, second := call(h, c.method, "k-"+c.method, "{}"), call(h, c.method, "k-"+c.method, "{}")
		if got := effects.Load()-before == 1; got != c.guarded || first.Code != 201 || second.Code != 201 {
			t.Errorf("%s: guarded: %v, want %v (%d, %d)", c.method, got, c.guarded, first.Code, second.Code)
		}
		for name := range second.Header() {
			if strings.HasPrefix(name, "Idempotent-") {
				t.Errorf("%s: a replay is marked with %s", c.method, name)
			}
		}
		if w := call(h, c.method, "", "{}"); w.Code != 201 {
			t.Errorf("%s without a key: %d %s", c.method, w.Code, w.Body)
		}
	}
	w := call(h, "POST", "k-POST", `{"other":"body"}`)
	var doc map[string]any
	err, is := json.Unmarshal(w.Body.Bytes(), &doc), w.Header().Get("Content-Type")
	if err != nil || w.Code != 422 || is != "application/json" {
		t.Fatalf("%d %s %s, %v", w.Code, is, w.Body, err)
	}
	if text, ok := doc["error"].(string); !ok || text == "" || len(doc) != 1 {
		t.Errorf("the error is %s, want one text", w.Body)
	}
}

// F: what a run means whose gateway is gone depends on the profile: two run it again, the others
// know that they do not know.
func TestLapsedRunsByProfile(t *testing.T) { // CR-05
	for profile, again := range map[string]bool{"seed-strict": true, "gateway-compat": true,
		"default": false, "ietf": false, "stripe": false, "stripe-v2": false} { // a gateway leaves no recovery point
		t.Run(profile, func(t *testing.T) {
			var ahead atomic.Int64
			s := memstore.New(memstore.Config{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
			arrived, leave := make(chan struct{}, 2), make(chan struct{})
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				arrived <- struct{}{}
				<-leave
				w.WriteHeader(http.StatusCreated)
			}))
			defer upstream.Close()
			text := "store: { dsn: 'memory:' }\npolicy: { profile: " + profile + " }\n"
			first, second := front(t, s, upstream.URL, text), front(t, s, upstream.URL, text)
			ended := make(chan struct{}, 2)
			go func() { call(first, "POST", `"k1"`, "{}"); ended <- struct{}{} }()
			select {
			case <-arrived:
			case <-ended:
				t.Fatal("the first request did not run")
			}
			ahead.Store(int64(time.Hour)) // no word from the first for as long as its lease, and longer
			answered := make(chan int, 1)
			go func() { answered <- call(second, "POST", `"k1"`, "{}").Code; ended <- struct{}{} }()
			ran, status := false, 0
			select {
			case <-arrived:
				ran = true
			case status = <-answered:
			}
			close(leave)
			<-ended
			<-ended
			if ran != again || !again && status != http.StatusConflict {
				t.Errorf("it ran again: %v, want %v (%d)", ran, again, status)
			}
		})
	}
}

// F: a header that is not to be replayed goes to the first caller, and to no other.
func TestDroppedHeaders(t *testing.T) {
	upstream, _ := counting(t)
	h := front(t, memstore.New(memstore.Config{}), upstream, "policy: { replay: { drop_headers: [x-secret] } }\n")
	first, second := call(h, "POST", "k1", "{}"), call(h, "POST", "k1", "{}")
	if first.Header().Get("X-Secret") == "" || first.Header().Get("X-Effect") != "1" {
		t.Errorf("the first answer has %v", first.Header())
	}
	if _, there := second.Header()["X-Secret"]; there || second.Header().Get("X-Effect") != "1" {
		t.Errorf("the replay has %v", second.Header())
	}
}

// F: a credential that scopes keys is stored, listed, logged and counted nowhere; its hash is the
// scope.
func TestAPIKeyIsStoredNowhere(t *testing.T) {
	upstream, effects := counting(t)
	t.Chdir(t.TempDir())
	gate := serve(t, "--upstream", upstream, "--store", "file:records",
		configured(t, "log_level: debug\nscope: { api_key: { header: X-Api-Key } }\n"))
	const one, other = "sk_live_4711-of-a-customer", "sk_live_4712-of-another"
	send := func(credential string) {
		r, err := http.NewRequest(http.MethodPost, "http://"+gate.Listen+"/x", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k1")
		r.Header.Set("X-Api-Key", credential)
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Body.Close()
	}
	send(one)
	send(one)
	send(other)
	if n := effects.Load(); n != 2 {
		t.Errorf("%d effects, want one for each credential", n)
	}
	seen := map[string]string{"the list": get(t, gate.Admin, "/api/v1/keys"),
		"the metrics": get(t, gate.Admin, "/metrics")}
	var scopes []string
	var page struct{ Keys []struct{ Scope string } }
	if err := json.Unmarshal([]byte(seen["the list"]), &page); err != nil {
		t.Fatal(err)
	}
	for _, k := range page.Keys {
		scopes = append(scopes, k.Scope)
	}
	sum := sha256.Sum256([]byte(one))
	if want := "ak_" + base64.RawURLEncoding.EncodeToString(sum[:]); len(scopes) != 2 || !slices.Contains(scopes, want) {
		t.Errorf("the scopes are %v, want %s among two", scopes, want)
	}
	gate.stop()
	<-gate.ended
	seen["the log"] = gate.stderr.text()
	err := filepath.WalkDir("records", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(path)
			seen[path] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range seen {
		if strings.Contains(text+where, "sk_live_") ||
			strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(one))) {
			t.Errorf("%s has the credential", where)
		}
	}
}

// get fetches a document.
func get(t *testing.T, host, path string) string {
	t.Helper()
	res, err := http.Get("http://" + host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", path, res.StatusCode, err)
	}
	return string(text)
}
