package stethttp_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

func newEngine() *stet.Engine {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	return engine
}

// post sends a request with a key, as a client would.
func post(h http.Handler, key, body string) string {
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Tenant", "acme")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	b, _ := io.ReadAll(w.Body)
	if w.Header().Get("Idempotent-Replayed") != "" {
		return fmt.Sprintf("%d %q, replayed", w.Code, b)
	}
	return fmt.Sprintf("%d %q", w.Code, b)
}

// One route made safe to retry: the second answer is the first one.
func ExampleMiddleware() {
	charges := 0
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d", charges)
	})
	idempotent := stethttp.Middleware(newEngine(), stethttp.HeaderScope("X-Tenant"), stethttp.Config{})
	h := idempotent(handler)
	fmt.Println(post(h, "order-7-5f1c2ab0", `{"amount":1099}`))
	fmt.Println(post(h, "order-7-5f1c2ab0", `{"amount":1099}`))
	// Output:
	// 201 "charge 1"
	// 201 "charge 1", replayed
}

// A handler that knows that nothing happened says so, and a retry runs.
func ExampleMiddleware_notExecuted() {
	attempts := 0
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claim := stet.ClaimFrom(r.Context())
		if attempts++; attempts == 1 { // the provider's circuit is open: nothing was sent
			claim.NotExecuted("circuit-open")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "attempt %d", claim.Attempt())
	})
	h := stethttp.Middleware(newEngine(), stethttp.SingleTenant, stethttp.Config{})(handler)
	for range 3 {
		fmt.Println(post(h, "k-9d2e77aa10c4", `{}`))
	}
	// Output:
	// 503 ""
	// 200 "attempt 2"
	// 200 "attempt 2", replayed
}

// connectCodes are the codes of the Connect protocol for those of the layer; all others are
// "aborted", which asks for a retry.
var connectCodes = map[stethttp.Code]string{
	stethttp.MissingKey: "invalid_argument", stethttp.InvalidKey: "invalid_argument", stethttp.Unauthenticated: "unauthenticated",
	stethttp.KeyReused: "failed_precondition", stethttp.ResultNotRetained: "already_exists", stethttp.ExpiredKey: "failed_precondition",
	stethttp.PayloadTooLarge: "resource_exhausted", stethttp.RateLimited: "resource_exhausted", stethttp.KeyQuotaExceeded: "resource_exhausted",
	stethttp.StoreUnavailable: "unavailable", stethttp.ExecutionTimeout: "deadline_exceeded", stethttp.OutcomeUnknown: "unknown",
}

// Clients of the Connect protocol read their own form of errors. The layer's code goes with it as
// the reason, in a header of its own.
func ExampleConfig_render() {
	asConnect := func(w http.ResponseWriter, _ *http.Request, p *stethttp.Problem) {
		code := cmp.Or(connectCodes[p.Code], "aborted")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Stet-Code", string(p.Code))
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(map[string]string{"code": code, "message": p.Title})
	}
	h := stethttp.Middleware(newEngine(), stethttp.SingleTenant, stethttp.Config{Render: asConnect})(http.NotFoundHandler())
	post(h, "k", `{"amount":1}`)
	fmt.Println(post(h, "k", `{"amount":2}`))
	// Output: 422 "{\"code\":\"failed_precondition\",\"message\":\"Idempotency-Key was used for another request\"}\n"
}

// A server that sees where requests end, as docs/http.md has it.
func ExampleStrictFraming() {
	idempotent := stethttp.Middleware(newEngine(), stethttp.SingleTenant, stethttp.Config{})
	serve := func(api http.Handler) error {
		srv := &http.Server{Handler: idempotent(api), ReadHeaderTimeout: 10 * time.Second}
		l, err := net.Listen("tcp", ":8080")
		if err != nil {
			return err
		}
		return srv.Serve(stethttp.StrictFraming(srv, l)) // where srv.TLSConfig is set, this is TLS, with HTTP/2
	}
	_ = serve
}

// A profile is a Config to start from.
func ExampleProfile() {
	c, err := stethttp.Profile("stripe")
	if err != nil {
		panic(err)
	}
	c.Policy.Retain = 48 * time.Hour
	h := stethttp.Middleware(newEngine(), stethttp.SingleTenant, c)(http.NotFoundHandler())
	post(h, "k", `{"amount":1}`)
	fmt.Println(post(h, "k", `{"amount":2}`)[:3])
	// Output: 400
}

// Limits of new keys, for each tenant: what is known is answered all the same.
func ExampleLimits() {
	limits := stethttp.NewLimits(stethttp.LimitsConfig{NewKeysPerSecond: 0.5, Burst: 1, MaxKeysPerScope: 1_000_000})
	idempotent := stethttp.Middleware(newEngine(), stethttp.HeaderScope("X-Tenant"), stethttp.Config{Limits: limits})
	h := idempotent(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	for _, key := range []string{"a", "b", "a"} {
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("X-Tenant", "acme")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Printf("%s: %d [%s]\n", key, w.Code, w.Header().Get("RateLimit"))
	}
	limits.Set(stethttp.LimitsConfig{NewKeysPerSecond: 50}) // from now on
	// Output:
	// a: 201 []
	// b: 429 ["new-keys";r=0;t=2]
	// a: 201 []
}
