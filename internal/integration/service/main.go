// Service is an API over Postgres with Stet as a library: docs/service.md shows it and says what is
// to be decided.
//
//	DATABASE_URL=postgres://localhost/shop BANK_URL=http://localhost:4000 go run .
//	curl -i localhost:3000/orders -H 'Idempotency-Key: "a-key-of-yours"' -d '{"amount": 1099}'
package main

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/console"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/operate/fleet"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/sqlstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("DATABASE_URL"), os.Getenv("BANK_URL"), "localhost:3000", "localhost:3001"); err != nil {
		log.Fatal(err)
	}
}

type service struct {
	db   *sql.DB
	box  *outbox.Box
	bank string // the URL of another system, which has one effect for each key
	pay  *flow.Flow[payment]
}

func run(ctx context.Context, dsn, bank, listen, listenAdmin string) (err error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := sqlstore.Migrate(ctx, db, sqlstore.Postgres); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (id BIGSERIAL PRIMARY KEY, amount BIGINT NOT NULL)"); err != nil {
		return err
	}
	store, err := sqlstore.Open(ctx, db, sqlstore.Config{Dialect: sqlstore.Postgres})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	board := fleet.New(fleet.Config{}) // counts for the console
	engine, err := stet.New(store, stet.Config{Observe: func(e stet.Event) { board.Observe(e); observe(e) }})
	if err != nil {
		return err
	}
	s := &service{db: db, box: outbox.New(sqlstore.Postgres), bank: bank}
	s.pay, err = flow.New(flow.Config[payment]{Name: "payment", Engine: engine,
		Answer: func(p *payment) stet.Response { return answer(http.StatusCreated, p) },
	}, flow.Foreign("charge", s.charge).HonoursKey())
	if err != nil {
		return err
	}

	// 1. The loops.
	jobs := operate.NewJobs()
	background := maintenance.Background{Engine: engine, Loops: []func(context.Context) error{
		flow.Completer{Engine: engine, Flows: []flow.Resumer{s.pay}}.Run,
		outbox.Worker{DB: db, Dialect: sqlstore.Postgres, Handler: s.deliver, Observe: observeDelivery}.Run,
		maintenance.Trimmer{Engine: engine, Age: 365 * 24 * time.Hour}.Run, // of the history
		jobs.Run, // bulk actions of operators
		func(ctx context.Context) error { return board.Run(ctx, engine) },
	}}
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	ended := make(chan error, 1)
	go func() { ended <- background.Run(loops) }()

	// 2. The API, and what operators see.
	operators := admin.New(engine, admin.Config{Metrics: expvar.Handler(), Config: operate.Config{
		Jobs: jobs, Outbox: &outbox.Desk{Box: s.box, DB: db, Engine: engine}, Figures: board.Figures, Asking: board.Asking, Log: slog.Default()}})
	servers := []*http.Server{
		{Addr: listen, Handler: s.routes(engine), ReadHeaderTimeout: 10 * time.Second},
		{Addr: listenAdmin, Handler: console.New(operators, console.Config{Log: slog.Default()}), ReadHeaderTimeout: 10 * time.Second},
	}
	failed := make(chan error, len(servers))
	for _, server := range servers {
		go func() { failed <- server.ListenAndServe() }()
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
	}

	// 3. The end: first the requests, then the loops, then what the engine still writes.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, server := range servers {
		err = errors.Join(err, server.Shutdown(last))
	}
	stopLoops()
	err = errors.Join(err, <-ended)
	engine.Abandon(last) // what runs all the same is unknown from now on, and not only when its lease ends
	return errors.Join(err, engine.Drain(last))
}

// routes are what clients call. Each has a guard of its own, because they differ in what a crash
// means.
func (s *service) routes(engine *stet.Engine) http.Handler {
	tenant := stethttp.HeaderScope("X-Tenant-Id") // which a proxy sets
	resuming := engine.Policy()
	resuming.OnLapse = stet.LapseResume
	mux := http.NewServeMux()
	mux.Handle("POST /orders", stethttp.Middleware(engine, tenant, stethttp.Config{Route: "orders"})(stethttp.Atomic(s.db, s.order)))
	mux.Handle("POST /payments", stethttp.Middleware(engine, tenant,
		stethttp.Config{Route: "payments", Policy: resuming, Continue: s.pay.Knows})(http.HandlerFunc(s.payment)))
	return mux
}

// order writes a row, and promises a receipt. Both are committed with the answer, or neither is.
func (s *service) order(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
	var in payment
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var id int64
	err := tx.QueryRowContext(r.Context(), "INSERT INTO orders (amount) VALUES ($1) RETURNING id", in.Amount).Scan(&id)
	if err == nil {
		err = s.box.Add(r.Context(), tx, outbox.Message{Topic: "receipt", Record: outbox.RecordOf(stet.ClaimFrom(r.Context())),
			Payload: fmt.Appendf(nil, `{"order":%d}`, id), KeyHonoured: true})
	}
	if err != nil {
		http.Error(w, "try again", http.StatusServiceUnavailable) // a 5xx rolls back, and frees the key
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"order":%d}`, id)
}

// deliver delivers a receipt. No request waits for it.
func (s *service) deliver(ctx context.Context, d *outbox.Delivery) outbox.Result {
	switch _, status, err := s.call(ctx, "/receipts", d.DownstreamKey, d.Payload); {
	case err != nil || status >= 500:
		return outbox.Maybe(cmp.Or(err, fmt.Errorf("status %d", status)))
	case status >= 400:
		return outbox.Decline(fmt.Sprintf("status %d", status))
	}
	return outbox.Delivered()
}

// payment is the state of the flow. A crash loses nothing of it.
type payment struct {
	Amount int64  `json:"amount"`
	Charge string `json:"charge"` // what the bank calls it
}

// payment begins the flow. If this process dies, or the bank does not answer, the Completer goes on.
func (s *service) payment(w http.ResponseWriter, r *http.Request) {
	var p payment
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	done, err := s.pay.Run(r.Context(), stet.ClaimFrom(r.Context()), p)
	if err != nil {
		http.Error(w, "not finished", http.StatusServiceUnavailable) // the guard tells the client what is known
		return
	}
	w.WriteHeader(done.Status)
	_, _ = w.Write(done.Body)
}

// charge is the flow's one phase: one call, whose key stays the same however often it is made.
func (s *service) charge(ctx context.Context, call *flow.Call, p *payment) error {
	return call.Do(ctx, func(ctx context.Context, key string) error {
		id, status, err := s.call(ctx, "/charges", key, fmt.Appendf(nil, `{"amount":%d}`, p.Amount))
		switch {
		case err != nil || status >= 500:
			return flow.Maybe(cmp.Or(err, fmt.Errorf("status %d", status)))
		case status >= 400:
			return flow.Decline(answer(http.StatusPaymentRequired, p))
		}
		p.Charge = id
		call.Learned(id)
		return nil
	})
}

// call asks the bank, and returns where it has put what it did.
func (s *service) call(ctx context.Context, path, key string, body []byte) (id string, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.bank+path, bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	r.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", 0, err
	}
	return resp.Header.Get("Location"), resp.StatusCode, resp.Body.Close()
}

func answer(status int, p *payment) stet.Response {
	body, _ := json.Marshal(p) // a number and a string
	return stet.Response{Status: status, Body: body}
}

// What GET /metrics of the admin address shows, by one word each.
var (
	answers     = expvar.NewMap("idem_requests_total")
	storeErrors = expvar.NewMap("idem_store_errors_total")
	deliveries  = expvar.NewMap("idem_outbox_deliveries_total")
)

// observe counts, and logs what people have to know. It is called from many goroutines.
func observe(e stet.Event) {
	switch e.Kind {
	case stet.Answer:
		answers.Add(e.Result, 1)
	case stet.StoreCall:
		if e.Err != nil {
			storeErrors.Add(e.Op, 1)
		}
	case stet.Transition:
		if e.To == stet.Unknown {
			slog.Warn("an outcome is unknown", "route", e.Route, "trace_id", e.TraceID, "cause", e.Cause)
		}
	case stet.DoubleEffect, stet.Unplaced, stet.PersistFailed, stet.Overfull, stet.Hangs, stet.Miswired, stet.Neglected:
		slog.Error("look at this", "event", e.Kind.String(), "route", e.Route, "trace_id", e.TraceID, "cause", e.Cause, "error", e.Err)
	}
}

func observeDelivery(e outbox.Event) {
	deliveries.Add(e.Result, 1)
	if e.Err != nil {
		slog.Warn("outbox", "result", e.Result, "message", e.ID, "error", e.Err)
	}
}
