// Package checklists holds the checklists of the sources, line by line, against the middleware on a
// real database. Each test is named by its line, and says where a line needs more than the
// defaults.
package checklists

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/sqlstore"
	"github.com/stet-dev/stet/store/storetest"
)

// house is an API on several nodes that share a database.
type house struct {
	t       *testing.T
	db      *sql.DB
	store   *gate
	clock   *storetest.Clock
	engines []*stet.Engine
	nodes   []*httptest.Server
	effects atomic.Int64
	events  events
}

type events struct {
	mu  sync.Mutex
	all []stet.Event
}

func (e *events) add(ev stet.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) count(f func(stet.Event) bool) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		if f(ev) {
			n++
		}
	}
	return n
}

// gate is a store that can be taken away.
type gate struct {
	stet.Store
	down atomic.Bool
}

var errDown = errors.New("connection refused")

func (g *gate) Unwrap() stet.Store { return g.Store }

func (g *gate) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	if g.down.Load() {
		return stet.Record{}, errDown
	}
	return g.Store.Create(ctx, r)
}

func open(t *testing.T, c stethttp.Config, handler func(h *house, w http.ResponseWriter, r *http.Request)) *house {
	t.Helper()
	h := &house{t: t, clock: &storetest.Clock{}}
	var err error
	if h.db, err = sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(t.TempDir(), "stet.db"))); err != nil {
		t.Fatal(err)
	}
	if err := sqlstore.Migrate(t.Context(), h.db, sqlstore.SQLite); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.Open(t.Context(), h.db, sqlstore.Config{Dialect: sqlstore.SQLite, Clock: h.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), h.db.Close()); err != nil {
			t.Error(err)
		}
	})
	h.store = &gate{Store: s}
	for range 2 {
		e, err := stet.New(h.store, stet.Config{Observe: h.events.add, StoreTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		node := httptest.NewServer(stethttp.Middleware(e, stethttp.HeaderScope("X-Tenant"), c)(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(h, w, r) })))
		t.Cleanup(node.Close)
		h.engines, h.nodes = append(h.engines, e), append(h.nodes, node)
	}
	return h
}

// charge is the side effect.
func charge(h *house, w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"id":"ch_%d"}`, h.effects.Add(1))
}

type answer struct {
	status int
	body   string
	header http.Header
}

func (h *house) post(node int, tenant, key, body string) answer {
	h.t.Helper()
	return h.do(http.MethodPost, node, tenant, key, body)
}

func (h *house) do(method string, node int, tenant, key, body string) answer {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.nodes[node].URL+"/charges", strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Tenant", tenant)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Error(err)
		return answer{}
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Error(err)
	}
	return answer{res.StatusCode, string(text), res.Header}
}

func (h *house) wantEffects(n int64) {
	h.t.Helper()
	if got := h.effects.Load(); got != n {
		h.t.Errorf("%d effects, want %d", got, n)
	}
}

// Verification checklist.

func TestTwoIdenticalRequestsAtOnce(t *testing.T) { // "only one creates the resource, both return the same response": wait_policy wait
	h := open(t, stethttp.Config{Waiting: stethttp.Wait}, charge)
	var answers [2]answer
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = h.post(i, "t", "k", "1") })
	}
	wg.Wait()
	if answers[0].status != 201 || answers[0].body != answers[1].body || answers[1].status != 201 {
		t.Errorf("%+v", answers)
	}
	h.wantEffects(1)
}

func TestSameKeyWithAnotherBody(t *testing.T) { // 422
	h := open(t, stethttp.Config{}, charge)
	h.post(0, "t", "k", "1")
	if a := h.post(1, "t", "k", "2"); a.status != 422 {
		t.Errorf("%+v", a)
	}
	h.wantEffects(1)
}

func TestTwoTenantsOneKey(t *testing.T) { // "no cached-response bleed"; also "Cached response for tenant A is not accessible by tenant B"
	h := open(t, stethttp.Config{}, charge)
	a, b := h.post(0, "a", "k", "1"), h.post(0, "b", "k", "1")
	if a.body == b.body || a.status != 201 || b.status != 201 {
		t.Errorf("%+v %+v", a, b)
	}
	h.wantEffects(2)
	if none := h.post(0, "", "k", "1"); none.status != 401 { // "lookup is scoped correctly"
		t.Errorf("without a scope: %+v", none)
	}
}

func TestTenantAndKeyAreTheUniqueConstraint(t *testing.T) { // also the quality gate "Unique index exists; verified by EXPLAIN"
	h := open(t, stethttp.Config{}, charge)
	h.post(0, "t", "k", "1")
	rows, err := h.db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN SELECT state FROM stet_records WHERE scope = 't' AND key = 'k'")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var plan strings.Builder
	for rows.Next() {
		var a, b, c int
		var text string
		if err := rows.Scan(&a, &b, &c, &text); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(text)
	}
	if err := rows.Err(); err != nil || !strings.Contains(plan.String(), "INDEX") || !strings.Contains(plan.String(), "scope=? AND key=?") {
		t.Errorf("%s, %v", &plan, err)
	}
	if _, err := h.db.ExecContext(t.Context(), "INSERT INTO stet_records SELECT id + 1000, "+columnsAfterID(t, h.db)+" FROM stet_records"); err == nil || !strings.Contains(err.Error(), "UNIQUE") {
		t.Errorf("a second row with the same tenant and key: %v", err)
	}
}

func columnsAfterID(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT name FROM pragma_table_info('stet_records') WHERE name <> 'id' ORDER BY cid")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, ", ")
}

func TestRacersOnSeveralNodes(t *testing.T) { // "only one path performs side effects"; "409 Conflict response includes Retry-After"
	release := make(chan struct{})
	h := open(t, stethttp.Config{}, func(h *house, w http.ResponseWriter, r *http.Request) {
		<-release
		charge(h, w, r)
	})
	var wg sync.WaitGroup
	var created, conflicts atomic.Int64
	for i := range 20 {
		wg.Go(func() {
			switch a := h.post(i%2, "t", "k", "1"); {
			case a.status == 201:
				created.Add(1)
			case a.status == 409 && a.header.Get("Retry-After") != "":
				if conflicts.Add(1) == 19 { // all others were told while the first was running
					close(release)
				}
			default:
				t.Errorf("%+v", a)
			}
		})
	}
	wg.Wait()
	if created.Load() != 1 {
		t.Errorf("%d were created", created.Load())
	}
	h.wantEffects(1)
}

func TestPostWithoutAKey(t *testing.T) { // 400
	h := open(t, stethttp.Config{}, charge)
	if a := h.post(0, "t", "", "1"); a.status != 400 {
		t.Errorf("%+v", a)
	}
	h.wantEffects(0)
}

func TestCrashAfterTheEffectBeforeCompletion(t *testing.T) { // "retry and reconciliation do not create a duplicate side effect"
	h := open(t, stethttp.Config{}, func(h *house, _ http.ResponseWriter, _ *http.Request) {
		h.effects.Add(1)
		panic(http.ErrAbortHandler) // the worker dies
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.nodes[0].URL+"/charges", strings.NewReader("1"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Tenant", "t")
	r.Header.Set("Idempotency-Key", "k")
	if res, err := http.DefaultClient.Do(r); err == nil {
		_ = res.Body.Close()
		t.Fatalf("the crash was answered: %d", res.StatusCode)
	}
	if a := h.post(1, "t", "k", "1"); a.status != 409 {
		t.Errorf("the retry: %+v", a)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = reconcile.Reconciler{Engine: h.engines[1], Every: time.Millisecond, Resolver: reconcile.Resolver(func(context.Context, stet.Head) (reconcile.Finding, error) {
			defer stop()
			return reconcile.Finding{Effect: reconcile.Happened, Response: &stet.Response{Status: 201, Body: []byte("found")}, Evidence: "ledger"}, nil
		})}.Run(ctx)
	}()
	<-done
	if a := h.post(1, "t", "k", "1"); a.status != 201 || a.body != "found" {
		t.Errorf("after reconciliation: %+v", a)
	}
	h.wantEffects(1)
}

func TestKeyStoreDown(t *testing.T) { // "endpoint fails closed before any business mutation or external call"
	h := open(t, stethttp.Config{}, charge)
	h.store.down.Store(true)
	if a := h.post(0, "t", "k", "1"); a.status != 503 {
		t.Errorf("%+v", a)
	}
	h.wantEffects(0)
}

func TestFirstRequestReturns500(t *testing.T) { // "retry re-attempts processing": on_5xx release, since the default is to replay
	fail := true
	h := open(t, stethttp.Config{On5xx: stethttp.ReleaseFailure}, func(h *house, w http.ResponseWriter, r *http.Request) {
		if fail {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		charge(h, w, r)
	})
	if a := h.post(0, "t", "k", "1"); a.status != 500 {
		t.Errorf("%+v", a)
	}
	fail = false
	if a := h.post(1, "t", "k", "1"); a.status != 201 {
		t.Errorf("the retry: %+v", a)
	}
}

func TestEveryStateChangingEndpointEnforcesAKey(t *testing.T) { // required_methods with all of them
	h := open(t, stethttp.Config{RequiredMethods: []string{"POST", "PATCH", "PUT", "DELETE"}}, charge)
	for _, method := range []string{"POST", "PATCH", "PUT", "DELETE"} {
		if a := h.do(method, 0, "t", "", "1"); a.status != 400 {
			t.Errorf("%s: %+v", method, a)
		}
	}
	h.wantEffects(0)
}

func TestRetryAfterTTL(t *testing.T) { // "creates a new request": a new life, and on_expired reject where that must not be silent
	for _, keep := range []time.Duration{0, 24 * time.Hour} {
		h := open(t, stethttp.Config{Policy: stet.Policy{Rules: stet.Rules{Retain: time.Hour, KeepExpired: keep}}}, charge)
		h.post(0, "t", "k", "1")
		h.clock.Advance(time.Hour)
		a := h.post(0, "t", "k", "1")
		if keep == 0 && (a.status != 201 || h.effects.Load() != 2 || a.header.Get("Idempotent-Replayed") != "") {
			t.Errorf("%+v", a)
		}
		if keep > 0 && (a.status != 422 || h.effects.Load() != 1) {
			t.Errorf("%+v", a)
		}
	}
}

func TestReaperDeletesWithoutLockingTheTable(t *testing.T) { // also the quality gate "Reaper job actually runs and respects retention window"
	h := open(t, stethttp.Config{Policy: stet.Policy{Rules: stet.Rules{Retain: time.Hour}}}, charge)
	for i := range 300 {
		h.post(0, "t", fmt.Sprint("old", i), "1")
	}
	h.clock.Advance(30 * time.Minute)
	h.post(0, "t", "young", "1")
	h.clock.Advance(30 * time.Minute)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if n, _, err := h.engines[1].Operator().Reap(t.Context(), "", 50); n == 0 || err != nil {
				return
			}
		}
	})
	for i := range 50 { // traffic goes on
		if a := h.post(0, "t", fmt.Sprint("new", i), "1"); a.status != 201 {
			t.Errorf("%+v", a)
		}
	}
	wg.Wait()
	var left int
	if err := h.db.QueryRowContext(t.Context(), "SELECT count(*) FROM stet_records").Scan(&left); err != nil || left != 51 {
		t.Errorf("%d records are left, %v", left, err)
	}
}

func TestDuplicatesAreCountedPerTenant(t *testing.T) { // events carry the scope; a label of it is for operators who know how many there are
	h := open(t, stethttp.Config{}, charge)
	for range 3 {
		h.post(0, "t", "k", "1")
	}
	h.post(0, "u", "k", "1")
	replays := h.events.count(func(e stet.Event) bool { return e.Kind == stet.Answer && e.Result == "replay" && e.ID.Scope == "t" })
	if replays != 2 {
		t.Errorf("%d replays of t", replays)
	}
}

func TestSweeperResolvesStuckKeys(t *testing.T) { // "within the lock timeout window"; unknown, not failed
	h := open(t, stethttp.Config{}, charge)
	id := stet.ID{Scope: "t", Key: "k"}
	if _, err := h.engines[0].Begin(t.Context(), stet.Request{ID: id, Subject: stet.Subject{Body: []byte("1")}}); err != nil {
		t.Fatal(err) // ... and the process dies
	}
	h.clock.Advance(time.Minute)
	if n, _, err := h.engines[1].Operator().Sweep(t.Context(), "", 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if r, err := h.engines[1].Get(t.Context(), id); err != nil || r.State != stet.Unknown {
		t.Errorf("%v, %v", r.State, err)
	}
}

// Quality gates.

func TestSameKeySameBodyTwice(t *testing.T) { // "both responses identical"
	h := open(t, stethttp.Config{}, charge)
	a, b := h.post(0, "t", "k", `{"a":1,"b":2}`), h.post(1, "t", "k", `{"b": 2, "a": 1}`)
	if a.status != b.status || a.body != b.body || a.header.Get("Content-Type") != b.header.Get("Content-Type") || b.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%+v, then %+v", a, b)
	}
	h.wantEffects(1)
}

func TestWorkerKilledMidPhase(t *testing.T) { // "resumes from the correct recovery point": on_lease_expiry resume
	policy := stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}
	var charged, booked int
	crash := true
	h := open(t, stethttp.Config{}, charge)
	work := func(ctx context.Context, c *stet.Claim, from string) error {
		if from == "" {
			charged++
			if err := c.Step(ctx, stet.Step{Point: "charged", Progress: []byte("ch_1")}); err != nil {
				return err
			}
		}
		if crash {
			return nil // killed: the claim is not settled
		}
		booked++
		return c.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201}})
	}
	q := stet.Request{ID: stet.ID{Scope: "t", Key: "k"}, Subject: stet.Subject{Body: []byte("1")}, Policy: &policy}
	for range 2 {
		d, err := h.engines[0].Begin(t.Context(), q)
		if err != nil || d.Verdict != stet.Execute {
			t.Fatal(d.Verdict, err)
		}
		if err := work(t.Context(), d.Claim, d.Record.Point); err != nil {
			t.Fatal(err)
		}
		crash = false
		h.clock.Advance(time.Minute)
	}
	if charged != 1 || booked != 1 {
		t.Errorf("charged %d times, booked %d times", charged, booked)
	}
}

func TestIdempotentMethodsNeedNoHeader(t *testing.T) { // GET, PUT, DELETE
	h := open(t, stethttp.Config{}, func(_ *house, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if a := h.do(method, 0, "t", "", ""); a.status != 204 {
			t.Errorf("%s: %+v", method, a)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) { // docs/http.md has statuses and retention; each error names its page
	h := open(t, stethttp.Config{}, charge)
	a := h.post(0, "t", "", "1")
	var p struct{ Type, Title, Detail string }
	if err := json.NewDecoder(bytes.NewBufferString(a.body)).Decode(&p); err != nil || p.Type == "" || p.Detail == "" || !strings.Contains(a.header.Get("Link"), "describedby") {
		t.Errorf("%+v, %v", a, err)
	}
}
