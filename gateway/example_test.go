package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// An API that knows nothing of idempotency is made safe to retry: its second answer is the first
// one, and it has run once.
func ExampleNew() {
	charges := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d", charges)
	}))
	defer api.Close()
	upstream, err := url.Parse(api.URL)
	if err != nil {
		panic(err)
	}
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	g, err := gateway.New(engine, gateway.Config{
		Upstream: upstream,
		Scope:    stethttp.HeaderScope("X-Tenant"),
		Routes: []gateway.Route{
			{Match: "POST /charges", Config: stethttp.Config{Mode: stethttp.ModeRequired}},
			{Match: "POST /search", Config: stethttp.Config{Mode: stethttp.ModeOff}},
		},
	})
	if err != nil {
		panic(err)
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(`{"amount":1099}`))
		r.Header.Set("Idempotency-Key", `"order-7-5f1c2ab0"`)
		r.Header.Set("X-Tenant", "acme")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body, "replayed:", w.Header().Get("Idempotent-Replayed") == "true")
	}
	// Output:
	// 201 charge 1 replayed: false
	// 201 charge 1 replayed: true
}

// A Server finishes the requests that run before Run returns.
func ExampleServer() {
	s, err := gateway.NewServer(gateway.ServerConfig{
		Listen: "127.0.0.1:0",
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "hello")
		}),
	})
	if err != nil {
		panic(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	res, err := http.Get("http://" + s.Addr())
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	fmt.Printf("%s %v\n", body, err)
	end()
	fmt.Println(<-done, s.Draining())
	// Output:
	// hello <nil>
	// <nil> true
}
