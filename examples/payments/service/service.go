// Package service is a payments API, and shows the three ways to make a request safe to retry:
//
//	POST /v1/refunds    guard: one call of the provider. After a crash the outcome is unknown
//	                    until a Reconciler has asked (refunds.go)
//	POST /v1/payouts    atomic: rows of its own database, one of them a message that promises the
//	                    payout (payouts.go)
//	POST /v1/payments   flow: a row, a charge, a row. It continues where it was (payments.go)
//
// Each takes {"reference":"order-7","amount":1999,"card":"ok"} and an Idempotency-Key.
package service

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/examples/payments/provider"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/sqlstore"
)

// Config is what the service stands on.
type Config struct {
	DB       *sql.DB // opened with [DSN], prepared by [Migrate]
	Provider provider.Client
	// HonoursKeys: the provider has one effect per key, and says so in its documentation. Otherwise
	// it is asked what it has done.
	HonoursKeys bool

	Lease  time.Duration // how soon what a crash left behind is taken up; default 30 s
	Every  time.Duration // how often the loops look; default 1 s
	Retain time.Duration // how long answers are kept for retries; default 24 h
}

// Service is the API.
type Service struct {
	Config
	store    *sqlstore.Store
	engine   *stet.Engine
	box      *outbox.Box
	payments *flow.Flow[payment]
}

// New returns a Service; close it before its database.
func New(ctx context.Context, c Config) (*Service, error) {
	c.Lease, c.Every, c.Retain = cmp.Or(c.Lease, 30*time.Second), cmp.Or(c.Every, time.Second), cmp.Or(c.Retain, 24*time.Hour)
	store, err := sqlstore.Open(ctx, c.DB, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		return nil, err
	}
	s := &Service{Config: c, store: store, box: outbox.New(sqlstore.SQLite)}
	s.engine, err = stet.New(store, stet.Config{Policy: stet.Policy{Lease: c.Lease, Rules: stet.Rules{Retain: c.Retain}}})
	if err == nil {
		s.payments, err = s.newPayments()
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return s, nil
}

// Close waits for what runs, and closes the records.
func (s *Service) Close(ctx context.Context) error {
	return errors.Join(s.engine.Drain(ctx), s.store.Close())
}

// Handler serves the API. Each route has a guard of its own, since they differ in what a crash
// means.
func (s *Service) Handler() http.Handler {
	guard := func(route string, onLapse stet.LapseRule, knows func(*stet.Record) bool) func(http.Handler) http.Handler {
		policy := s.engine.Policy()
		policy.OnLapse = onLapse
		return stethttp.Middleware(s.engine, stethttp.SingleTenant, stethttp.Config{Route: route, Policy: policy, Continue: knows})
	}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/refunds", guard(refunds, stet.LapseUnknown, nil)(http.HandlerFunc(s.refund)))
	mux.Handle("POST /v1/payouts", guard(payouts, stet.LapseUnknown, nil)(stethttp.Atomic(s.DB, s.payout)))
	mux.Handle("POST /v1/payments", guard(payments, stet.LapseResume, s.payments.Knows)(http.HandlerFunc(s.pay)))
	return mux
}

// Names of routes, as they stand in records.
const refunds, payouts, payments = "refunds", "payouts", "payments"

// Run does what no request waits for, until ctx ends. Any number of processes may run it on one
// database.
func (s *Service) Run(ctx context.Context) error {
	return maintenance.Background{Loops: []func(context.Context) error{
		s.Completer().Run, // payments without a client
		maintenance.Sweeper{Engine: s.engine, Every: s.Every}.Run,                                        // dead runs become unknown
		reconcile.Reconciler{Engine: s.engine, Every: s.Every, Resolver: reconcile.Resolver(s.find)}.Run, // and are found out about
		maintenance.Reaper{Engine: s.engine, Every: s.Every}.Run,                                         // answers that are no longer kept
		s.Worker(nil).Run, // promised payouts
	}}.Run(ctx)
}

// order is what clients send.
type order struct {
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
	Card      string `json:"card"`
}

// read reports false when it has answered the request itself.
func (in *order) read(w http.ResponseWriter, r *http.Request) bool {
	if err := json.NewDecoder(r.Body).Decode(in); err != nil || in.Amount <= 0 {
		reply(w, http.StatusBadRequest, result{Error: "send a reference and an amount over 0"})
		return false
	}
	return true
}

// result is what clients are told.
type result struct {
	Reference string `json:"reference,omitempty"`
	State     string `json:"state,omitempty"`
	Provider  string `json:"provider_id,omitempty"`
	Error     string `json:"error,omitempty"`
}

func (r result) response(status int) stet.Response {
	body, err := json.Marshal(r)
	if err != nil {
		panic(err) // four strings
	}
	return stet.Response{Status: status, Header: []stet.Field{{Name: "Content-Type", Value: "application/json"}}, Body: append(body, '\n')}
}

func reply(w http.ResponseWriter, status int, body result) { write(w, body.response(status)) }

func write(w http.ResponseWriter, r stet.Response) {
	for _, f := range r.Header {
		w.Header().Add(f.Name, f.Value)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // the client may be gone
}
