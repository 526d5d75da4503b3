package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// patience bounds every wait; a machine that is busy takes seconds.
const patience = 30 * time.Second

// The tokens of users.
const (
	viewer   = "token-of-a-viewer-vera"
	operator = "token-of-an-operator-otto"
	another  = "token-of-another-operator-ben"
	admin    = "token-of-an-admin-ada"
)

// world is an API behind gateways, whose answers are lost while it is broken.
type world struct {
	testing.TB
	setup
	gates   []*process // the first is the one that clients and browsers use
	api     string     // the address of the API
	console string     // of the first gateway
	broken  atomic.Bool
	ran     atomic.Int64
	found   sync.Map // what the API says of a key when it is asked: an answer; nothing: 404
	opened  func() (*sql.DB, *stet.Engine)
}

// answer is a status and a body.
type answer struct {
	status int
	body   string
}

// setup is what differs between the gateways of tests. The zero value never takes the absence of a
// trace for a proof, and asks about nothing by itself.
type setup struct {
	settle float64 // seconds after which the absence of a trace is proof
	lease  float64 // seconds; 0: 60
	gates  int     // 0: 1
	store  string  // its DSN; "": SQLite, in a directory of the test's own
	dir    string  // of the gateways' files; "": one of the test's own
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	w := &world{TB: t, setup: s}
	if w.dir == "" {
		w.dir = t.TempDir()
	}
	w.opened = sync.OnceValues(w.share)
	w.api = w.serve(http.HandlerFunc(w.upstream)).URL
	users := map[string]any{}
	for secret, role := range map[string]string{viewer: "viewer", operator: "operator", another: "operator", admin: "admin"} {
		users[secret[strings.LastIndexByte(secret, '-')+1:]] = map[string]any{"sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(secret))), "role": role}
	}
	tokens, err := json.Marshal(users)
	if err != nil {
		t.Fatal(err)
	}
	w.write("tokens.json", string(tokens))
	w.write("stet.yaml", fmt.Sprintf(`
admin: { title: production eu-1, tokens_file: tokens.json }
scope: { header: X-Tenant }
policy: { lease_s: %g }
keeper: { sweep_interval_s: 0.05 }
reconcile:
  interval_s: 3600
  probe: { url: "%s/v1/charges?key={key}", settle_s: %g, respond: { status: 201 } }
routes:
- match: POST /v1/charges
- match: POST /
`, cmp.Or(s.lease, 60), w.api, s.settle))
	for range max(s.gates, 1) {
		w.gates = append(w.gates, w.another())
	}
	w.console = "http://" + w.gates[0].admin
	return w
}

// another starts one more gateway on the same records.
func (w *world) another() *process {
	w.Helper()
	store := w.store
	if store == "" {
		store = "sqlite:" + filepath.Join(w.dir, "stet.db")
	}
	return start(w, w.dir, "--upstream", w.api, "--store", store, "--config", "stet.yaml")
}

func (w *world) write(name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

func (w *world) serve(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	w.Cleanup(s.Close)
	return s
}

// upstream is the API: it charges, and says what became of a charge. While it is broken, it dies
// after it may have charged.
func (w *world) upstream(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		a, ok := w.found.Load(r.URL.Query().Get("key"))
		if !ok {
			a = answer{http.StatusNotFound, "no such charge"}
		}
		rw.WriteHeader(a.(answer).status)
		_, _ = io.WriteString(rw, a.(answer).body)
		return
	}
	n := w.ran.Add(1)
	if w.broken.Load() {
		panic(http.ErrAbortHandler)
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(rw, `{"id":"ch_%d"}`, n)
}

// client sends a charge with a key, and returns what it hears.
func (w *world) client(key string) answer { w.Helper(); return w.send("/v1/charges", "acme", key) }

func (w *world) send(path, tenant, key string) answer {
	w.Helper()
	return w.post(path, tenant, key, `{"amount":1999}`)
}

func (w *world) post(path, tenant, key, body string) answer {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "http://"+w.gates[0].listen+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Tenant", tenant)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(text)}
}

// incident is n charges whose answers are lost, and which their clients ask about.
func (w *world) incident(n int) {
	w.Helper()
	w.broken.Store(true)
	for i := range n {
		w.client(fmt.Sprintf("order-%04d", i))
	}
	w.broken.Store(false)
	for i := range n {
		if a := w.client(fmt.Sprintf("order-%04d", i)); a.status != http.StatusConflict || !strings.Contains(a.body, "outcome-unknown") {
			w.Fatalf("the charge is not unknown: %v", a)
		}
	}
}

// read fetches a document of the admin API for the administrator.
func (w *world) read(at string, into any) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.console+at, nil)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+admin)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil || res.StatusCode != http.StatusOK {
		w.Fatalf("%s: %d %v", at, res.StatusCode, err)
	}
}

// id is what the console calls a key.
func (w *world) id(key string) string {
	w.Helper()
	var doc struct{ Keys []struct{ ID string } }
	if w.read("/api/v1/keys?q="+url.QueryEscape(key), &doc); len(doc.Keys) != 1 {
		w.Fatalf("%d records of %s", len(doc.Keys), key)
	}
	return doc.Keys[0].ID
}

// engine is an engine of the test's process on the gateways' records, as of a service that shares
// their database.
func (w *world) engine() (*sql.DB, *stet.Engine) { w.Helper(); return w.opened() }

func (w *world) share() (*sql.DB, *stet.Engine) {
	w.Helper()
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(w.dir, "stet.db")))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.Open(context.Background(), db, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = s.Close() })
	e, err := stet.New(s, stet.Config{Holder: "shop-1:1", Policy: stet.Policy{Lease: time.Second}})
	if err != nil {
		w.Fatal(err)
	}
	return db, e
}

// until waits until something is so.
func (w *world) until(what string, is func() bool) {
	w.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(end) {
			w.Fatal("it is never so: ", what)
		}
	}
}
