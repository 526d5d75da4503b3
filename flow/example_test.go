package flow_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// A payment in two calls of other systems. The process may die anywhere between them.
func Example() {
	type Payment struct{ Charge, Receipt string }
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}})
	if err != nil {
		panic(err)
	}
	pay, err := flow.New(flow.Config[Payment]{
		Name:   "pay",
		Engine: engine,
		Answer: func(p *Payment) stet.Response {
			return stet.Response{Status: 201, Body: []byte(p.Charge + " " + p.Receipt)}
		},
	},
		flow.Foreign("charge", func(ctx context.Context, call *flow.Call, p *Payment) error {
			return call.Do(ctx, func(ctx context.Context, key string) error {
				p.Charge = "ch_1" // a request to the provider, with key as its Idempotency-Key
				call.Learned(p.Charge)
				return nil
			})
		}).HonoursKey(),
		flow.Foreign("receipt", func(ctx context.Context, call *flow.Call, p *Payment) error {
			return call.Do(ctx, func(ctx context.Context, key string) error {
				p.Receipt = "for " + p.Charge
				return nil
			})
		}),
	)
	if err != nil {
		panic(err)
	}
	for range 2 { // a retry gets the same answer
		answer, err := pay.Do(context.Background(), stet.Request{ID: stet.ID{Scope: "shop-1", Key: "order-7"}}, Payment{})
		fmt.Println(answer.Status, string(answer.Body), err)
	}
	// Output:
	// 201 ch_1 for ch_1 <nil>
	// 201 ch_1 for ch_1 <nil>
}

// Behind the middleware, the claim is the request's.
func ExampleFlow_Run() {
	type Payment struct{ Amount, Charge string }
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}})
	if err != nil {
		panic(err)
	}
	pay, err := flow.New(flow.Config[Payment]{
		Name:   "pay",
		Engine: engine,
		Answer: func(p *Payment) stet.Response { return stet.Response{Status: 201, Body: []byte(p.Charge)} },
	}, flow.Foreign("charge", func(ctx context.Context, call *flow.Call, p *Payment) error {
		return call.Do(ctx, func(context.Context, string) error { p.Charge = "ch_1 of " + p.Amount; return nil })
	}).HonoursKey())
	if err != nil {
		panic(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := pay.Run(r.Context(), stet.ClaimFrom(r.Context()), Payment{Amount: r.FormValue("amount")})
		if err != nil {
			http.Error(w, "not finished", http.StatusServiceUnavailable) // the client is told what the record says
			return
		}
		w.WriteHeader(answer.Status)
		_, _ = w.Write(answer.Body)
	})
	h := stethttp.Middleware(engine, stethttp.SingleTenant, stethttp.Config{Policy: engine.Policy()})(handler)
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/payments?amount=10.99", strings.NewReader(""))
		r.Header.Set("Idempotency-Key", "order-7-5f1c2ab0")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body, w.Header().Get("Idempotent-Replayed") != "")
	}
	// Output:
	// 201 ch_1 of 10.99 false
	// 201 ch_1 of 10.99 true
}
