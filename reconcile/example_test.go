package reconcile_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

// The provider is asked about each payment whose outcome is unknown; what it says ends the record.
func Example() {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	d, err := engine.Begin(ctx, stet.Request{ID: stet.ID{Scope: "shop", Key: "order-7"}})
	if err != nil {
		panic(err)
	}
	d.Claim.Unknown("timeout") // the provider did not answer
	if err := d.Claim.Settle(ctx, stet.Outcome{}); err != nil {
		panic(err)
	}

	provider := func(context.Context, stet.Head) (reconcile.Finding, error) {
		return reconcile.Finding{Effect: reconcile.Happened, Evidence: "ch_1",
			Response: &stet.Response{Status: http.StatusCreated, Body: []byte(`{"id":"ch_1"}`)}}, nil
	}
	r := reconcile.Reconciler{Engine: engine, Resolver: reconcile.Resolver(provider)}
	// A service runs r.Run(ctx). An operator may ask at once:
	have, err := engine.Get(ctx, d.Claim.ID())
	if err != nil {
		panic(err)
	}
	asked, err := r.Ask(ctx, &have.Head, stet.Note{Who: "kim", Why: "the customer calls"})
	fmt.Println(asked.Finding.Effect, asked.Head.State, asked.Head.Status, err)
	// Output: happened completed 201 <nil>
}

// The upstream says by key whether it has a payment: 200 with the payment, or 404.
func ExampleProbe() {
	probe := reconcile.Probe{URL: "http://127.0.0.1:3000/payments?key={key}&tenant={scope}",
		Header: http.Header{"Authorization": {"Bearer token"}}, Status: http.StatusCreated}
	fmt.Println(probe.Validate())
	fmt.Println(reconcile.Probe{URL: "http://127.0.0.1:3000/payments"}.Validate())
	// Output:
	// <nil>
	// the probe's URL names no request: it needs {key} or {downstream_key}
}

// A resolver that looks into the service's own tables.
func ExampleResolver() {
	find := func(db *sql.DB) reconcile.Resolver {
		return func(ctx context.Context, h stet.Head) (reconcile.Finding, error) {
			var id string
			err := db.QueryRowContext(ctx, "SELECT id FROM payments WHERE key = $1", string(h.Key)).Scan(&id)
			switch {
			case errors.Is(err, sql.ErrNoRows):
				return reconcile.Finding{Effect: reconcile.Missing}, nil
			case err != nil:
				return reconcile.Finding{}, err
			}
			return reconcile.Finding{Effect: reconcile.Happened, Evidence: id,
				Response: &stet.Response{Status: http.StatusCreated, Body: []byte(id)}}, nil
		}
	}
	run := func(ctx context.Context, e *stet.Engine, db *sql.DB) error {
		return reconcile.Reconciler{Engine: e, Resolver: find(db), Settle: time.Minute}.Run(ctx)
	}
	_ = run
}

// A provider tells what became of a payment by itself.
func ExampleWebhook() {
	serve := func(e *stet.Engine, secret string) {
		hook := reconcile.Webhook{Engine: e, Secrets: []string{secret}}
		if err := hook.Validate(); err != nil {
			log.Fatal(err)
		}
		http.Handle("POST /hooks/reconcile", hook)
	}
	_ = serve
}
