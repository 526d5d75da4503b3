package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/freeport"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/sqlstore"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// The page shows the program that is tested here, whole.
func TestThePageShowsTheProgram(t *testing.T) { // N06
	page, err := os.ReadFile("../../../docs/service.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "```go\n")
	shown, _, _ = strings.Cut(shown, "```\n")
	_, want, _ := strings.Cut(string(program), "package main\n")
	if shown != "package main\n"+want {
		t.Errorf("docs/service.md shows\n%s\nand main.go is\n%s", shown, want)
	}
}

// ledger is a bank with one effect for each key. It loses its answer to the first request for a
// path, after the effect.
type ledger struct {
	mu    sync.Mutex
	asked []string        // path and key
	did   map[string]bool // by these
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what := r.URL.Path + " " + r.Header.Get("Idempotency-Key")
	l.asked = append(l.asked, what)
	first := !l.did[what]
	l.did[what] = true
	if first && r.URL.Path == "/charges" {
		w.WriteHeader(http.StatusGatewayTimeout)
		return
	}
	w.Header().Set("Location", fmt.Sprint(r.URL.Path, "/", len(l.did)))
	w.WriteHeader(http.StatusCreated)
}

// of returns how often a path was asked for, and how many effects that had.
func (l *ledger) of(path string) (asked, effects int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, what := range l.asked {
		if strings.HasPrefix(what, path+" ") {
			asked++
		}
	}
	for what := range l.did {
		if strings.HasPrefix(what, path+" ") {
			effects++
		}
	}
	return asked, effects
}

// What the page promises: an order happens once, and its receipt is delivered; a payment whose call
// lost its answer is finished, and a run whose process died is swept, while no client asks; the
// console is there; and at the end nothing is left running.
func TestService(t *testing.T) { // N06
	postgres := testserver.Postgres(t)
	dsn := postgres.PostgresDSN("service")
	control := open(t, postgres.PostgresDSN("postgres"))
	if _, err := control.ExecContext(t.Context(), "CREATE DATABASE service"); err != nil {
		t.Fatal(err)
	}
	db := open(t, dsn)
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.Postgres); err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.Postgres})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	dead, err := stet.New(store, stet.Config{Policy: stet.Policy{Lease: time.Second, Execution: 500 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	lost := stet.ID{Scope: "acme", Key: "of-a-process-that-died"}
	if d, err := dead.Begin(t.Context(), stet.Request{ID: lost}); err != nil || d.Verdict != stet.Execute {
		t.Fatalf("%v: %v", d.Verdict, err)
	}

	provider := &ledger{did: map[string]bool{}}
	bank := httptest.NewServer(provider)
	defer bank.Close()
	before := goleak.IgnoreCurrent()
	ports := freeport.Of(t, 2)
	api, operators := fmt.Sprint("127.0.0.1:", ports[0]), fmt.Sprint("127.0.0.1:", ports[1])
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, dsn, bank.URL, api, operators) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	eventually(t, "it serves", func() bool {
		select {
		case err := <-ended:
			t.Fatal("it has ended: ", err)
		default:
		}
		_, status, _ := send(client, http.MethodGet, "http://"+operators+"/", "")
		return status == http.StatusOK // the console
	})

	var answers [2]string
	for i := range answers {
		body, status, header := send(client, http.MethodPost, "http://"+api+"/orders", "order-7-5571e01b")
		if answers[i] = body; status != http.StatusCreated || (header.Get("Idempotent-Replayed") != "") != (i == 1) {
			t.Errorf("order %d: %d %s %v", i, status, body, header)
		}
	}
	if answers[0] != answers[1] || answers[0] != `{"order":1}` {
		t.Errorf("two answers: %q", answers)
	}
	if _, status, _ := send(client, http.MethodPost, "http://"+api+"/payments", "pay-7-5571e01b"); status < 400 {
		t.Errorf("a payment whose call lost its answer: %d", status)
	}

	eventually(t, "the receipt is delivered", func() bool { _, effects := provider.of("/receipts"); return effects == 1 })
	eventually(t, "the payment goes on", func() bool {
		rec, err := dead.Get(t.Context(), stet.ID{Scope: "acme", Key: "pay-7-5571e01b"})
		return err == nil && rec.State == stet.Completed
	})
	if body, status, header := send(client, http.MethodPost, "http://"+api+"/payments", "pay-7-5571e01b"); status != http.StatusCreated ||
		header.Get("Idempotent-Replayed") == "" || !strings.Contains(body, `"charge":"/charges/`) {
		t.Errorf("the payment's retry: %d %s %v", status, body, header)
	}
	eventually(t, "the lost run is swept", func() bool {
		rec, err := dead.Get(t.Context(), lost)
		return err == nil && rec.State == stet.Unknown
	})
	var rows int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows of two requests with one key, %v", rows, err)
	}
	if metrics, status, _ := send(client, http.MethodGet, "http://"+operators+"/metrics", ""); status != http.StatusOK ||
		!strings.Contains(metrics, `"idem_requests_total"`) {
		t.Errorf("metrics: %d %s", status, metrics)
	}

	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("at the end: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if asked, effects := provider.of("/charges"); asked != 2 || effects != 1 {
		t.Errorf("the bank was asked for %d charges and made %d", asked, effects)
	}
	if asked, _ := provider.of("/receipts"); asked != 1 {
		t.Errorf("the receipt was delivered %d times", asked)
	}
	bank.Close()
	http.DefaultClient.CloseIdleConnections() // which the program uses
	goleak.VerifyNone(t, before)
}

const patience = time.Minute

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// send makes a request of the tenant acme. A status of 0 means that there was no answer.
func send(c *http.Client, method, url, key string) (body string, status int, header http.Header) {
	r, err := http.NewRequest(method, url, strings.NewReader(`{"amount":1099}`))
	if err != nil {
		return err.Error(), 0, nil
	}
	r.Header.Set("X-Tenant-Id", "acme")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.Do(r)
	if err != nil {
		return err.Error(), 0, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return string(text), resp.StatusCode, resp.Header
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
