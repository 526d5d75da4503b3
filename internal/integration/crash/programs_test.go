package crash

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/sqlstore"
)

func order(r *http.Request) string { return r.Header.Get("Idempotency-Key") }

func created(w http.ResponseWriter, body string) {
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, body)
}

func later(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// guarded puts the handler behind the middleware, with those who look after what it leaves behind;
// without a resolver there is no reconciler.
func guarded(w *World, e *stet.Engine, h http.Handler, resolve reconcile.Resolver) Service {
	loops := []func(context.Context) error{maintenance.Sweeper{Engine: e, Every: w.Every}.Run}
	if resolve != nil {
		loops = append(loops, reconcile.Reconciler{Engine: e, Resolver: resolve, Every: w.Every, Settle: longLease}.Run)
	}
	return Service{stethttp.Middleware(e, stethttp.SingleTenant, stethttp.Config{})(h), loops}
}

// onePayment: one row, of which the client was told.
func onePayment(ctx context.Context, o Outcome) error {
	paid, err := o.Paid(ctx)
	return errors.Join(err, Once(paid, map[string]string{"sale": o.Answer}))
}

// atomic reserves first, and then has one transaction for row, record and answer. A run that died
// needs no evidence: that its record could be taken over proves that it was not committed (A06).
var atomic = Program{Name: "atomic", Check: onePayment, Serve: func(w *World) (Service, error) {
	e, err := w.Engine(stet.LapseUnknown)
	return guarded(w, e, w.Atomic(func(rw http.ResponseWriter, r *http.Request, tx any) {
		receipt := rand.Text()
		if err := w.Pay(r.Context(), tx, order(r), "sale", receipt); err != nil {
			later(rw, err)
			return
		}
		created(rw, receipt)
	}), nil), err
}}

// allInOne reserves within the transaction, too.
var allInOne = Program{Name: "all-in-one", Check: onePayment, Serve: func(w *World) (Service, error) {
	e, err := w.Engine(stet.LapseUnknown)
	return Service{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		t, err := w.Begin(r.Context())
		if err != nil {
			later(rw, err)
			return
		}
		defer func() { _ = t.Rollback(context.WithoutCancel(r.Context())) }() // nothing after a commit
		id := stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(order(r))}
		d, err := e.BeginIn(r.Context(), t.Tx(), stet.Request{ID: id, Subject: stet.Subject{Body: []byte("1999")}})
		switch {
		case err != nil:
			later(rw, err)
			return
		case d.Verdict == stet.Replay:
			rw.Header().Set("Idempotent-Replayed", "true")
			created(rw, string(d.Record.Response.Body))
			return
		case d.Verdict != stet.Execute:
			later(rw, errors.New(d.Verdict.String()))
			return
		}
		receipt := rand.Text()
		err = w.Pay(r.Context(), t.Tx(), order(r), "sale", receipt)
		if err == nil {
			err = d.Claim.Settle(r.Context(), stet.Outcome{Response: stet.Response{Status: http.StatusCreated, Body: []byte(receipt)}})
		}
		if err == nil {
			err = t.Commit(r.Context())
		}
		if err = d.Claim.Confirm(r.Context(), err); err != nil {
			later(rw, err)
			return
		}
		created(rw, receipt)
	})}, err
}}

// guard has one foreign effect, with a key for each attempt, so that an attempt can be voided.
var guard = Program{Name: "guard", Serve: guardWith(func(ctx context.Context, w *World, h stet.Head) (reconcile.Finding, error) {
	id, found, err := w.Provider.Find(ctx, "charge", h.DownstreamKey, true)
	if err != nil || !found {
		return reconcile.Finding{Effect: reconcile.Voided}, err
	}
	return reconcile.Finding{Effect: reconcile.Happened, Response: &stet.Response{Status: http.StatusCreated, Body: []byte(id)}}, nil
}), Check: oneCharge}

func oneCharge(_ context.Context, o Outcome) error {
	return Once(o.Made(), map[string]string{"charge": o.Answer})
}

func guardWith(resolve func(ctx context.Context, w *World, h stet.Head) (reconcile.Finding, error)) func(w *World) (Service, error) {
	return func(w *World) (Service, error) {
		e, err := w.Engine(stet.LapseUnknown)
		return guarded(w, e, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			claim, key := stet.ClaimFrom(r.Context()), rand.Text()
			err := claim.Downstream(r.Context(), key, "")
			if err != nil {
				claim.NotExecuted("not-sent")
				later(rw, err)
				return
			}
			id, err := w.Provider.Effect(r.Context(), "charge", order(r), key, false)
			if err != nil {
				claim.Unknown("no-answer")
				later(rw, err)
				return
			}
			created(rw, id)
		}), func(ctx context.Context, h stet.Head) (reconcile.Finding, error) { return resolve(ctx, w, h) }), err
	}
}

// sale is the state of the flow.
type sale struct{ Order, Charge, Label string }

// shop is the flow: rows before and after calls of two providers, of which one honours keys and one
// can be asked.
func shop(w *World, e *stet.Engine) (*flow.Flow[sale], error) {
	c := flow.Config[sale]{Name: "shop", Engine: e, DB: w.DB, Backoff: time.Millisecond, Answer: func(s *sale) stet.Response {
		return stet.Response{Status: http.StatusCreated, Body: []byte(s.Charge + " " + s.Label)}
	}}
	row := func(what string, receipt func(*sale) string) flow.Phase[sale] {
		return flow.Local(what, func(ctx context.Context, tx *sql.Tx, s *sale) error { return w.Pay(ctx, tx, s.Order, what, receipt(s)) })
	}
	if w.Pool != nil {
		c.DB, c.Begin = nil, w.Begin
		row = func(what string, receipt func(*sale) string) flow.Phase[sale] {
			return flow.Local(what, func(ctx context.Context, tx pgx.Tx, s *sale) error { return w.Pay(ctx, tx, s.Order, what, receipt(s)) })
		}
	}
	call := func(kind string, into func(*sale) *string, honour bool) flow.Phase[sale] {
		return flow.Foreign(kind, func(ctx context.Context, call *flow.Call, s *sale) error {
			return call.Do(ctx, func(ctx context.Context, key string) (err error) {
				*into(s), err = w.Provider.Effect(ctx, kind, s.Order, key, honour)
				call.Learned(*into(s))
				return err
			})
		})
	}
	label := func(s *sale) *string { return &s.Label }
	return flow.New(c,
		row("stock", func(*sale) string { return "reserved" }),
		call("charge", func(s *sale) *string { return &s.Charge }, true).HonoursKey(),
		row("book", func(s *sale) string { return s.Charge }),
		call("label", label, false).Lookup(func(ctx context.Context, key string, s *sale) (found bool, err error) {
			*label(s), found, err = w.Provider.Find(ctx, "label", key, false)
			return found, err
		}).Settle(shortLease)) // what a killed process has sent has arrived by then
}

func sold(ctx context.Context, o Outcome) error {
	paid, err := o.Paid(ctx)
	made := o.Made()
	if err == nil {
		err = Once(made, map[string]string{"charge": first(made["charge"]), "label": first(made["label"])})
	}
	if err == nil {
		err = Once(paid, map[string]string{"stock": "reserved", "book": made["charge"][0]})
	}
	if err == nil {
		err = Once(map[string][]string{"answer": {o.Answer}}, map[string]string{"answer": made["charge"][0] + " " + made["label"][0]})
	}
	return err
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// flowRun is the flow behind the middleware, gone on with by the client's retries.
var flowRun = Program{Name: "flow", Check: sold, Serve: func(w *World) (Service, error) {
	e, err := w.Engine(stet.LapseResume)
	if err != nil {
		return Service{}, err
	}
	f, err := shop(w, e)
	return guarded(w, e, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		answer, err := f.Run(r.Context(), stet.ClaimFrom(r.Context()), sale{Order: order(r)})
		if err != nil {
			later(rw, err)
			return
		}
		created(rw, string(answer.Body))
	}), func(ctx context.Context, h stet.Head) (reconcile.Finding, error) { return stalled(ctx, w, h) }), err
}}

// stalled is the verdict on a flow that is unknown: it had not begun, or its process stood still
// for longer than its lease. Local phases are fenced, and the provider of charge honours keys: they
// may go on. That of label has to be asked.
func stalled(ctx context.Context, w *World, h stet.Head) (reconcile.Finding, error) {
	if h.Point != "label" {
		return reconcile.Finding{Effect: reconcile.Voided, Evidence: "nothing that could happen twice"}, nil
	}
	id, found, err := w.Provider.Find(ctx, "label", h.DownstreamKey, false)
	if err != nil || !found {
		return reconcile.Finding{Effect: reconcile.Missing}, err
	}
	return reconcile.Finding{Effect: reconcile.Happened,
		Response: &stet.Response{Status: http.StatusCreated, Body: []byte(h.DownstreamID + " " + id)}}, nil
}

// flowDo is the flow by itself. What a crash leaves is completed without its client.
var flowDo = Program{Name: "completer", Patient: true, Check: sold, Serve: func(w *World) (Service, error) {
	e, err := w.Engine(stet.LapseResume)
	if err != nil {
		return Service{}, err
	}
	f, err := shop(w, e)
	return Service{http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		id := stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(order(r))}
		if have, err := e.Get(r.Context(), id); err == nil && have.State == stet.Completed {
			rw.Header().Set("Idempotent-Replayed", "true")
		}
		answer, err := f.Do(r.Context(), stet.Request{ID: id}, sale{Order: order(r)})
		if err != nil {
			later(rw, err)
			return
		}
		created(rw, string(answer.Body))
	}), []func(context.Context) error{flow.Completer{Engine: e, Flows: []flow.Resumer{f}, Every: w.Every}.Run}}, err
}}

// promised is atomic, with an effect that the transaction promises and a worker delivers.
var promised = Program{Name: "outbox", Settled: delivered, Check: oneDelivery,
	Serve: promise(func(d *outbox.Delivery) string { return d.DownstreamKey })}

func promise(key func(d *outbox.Delivery) string) func(w *World) (Service, error) {
	return func(w *World) (Service, error) {
		e, err := w.Engine(stet.LapseUnknown)
		box := outbox.New(w.Dialect)
		s := guarded(w, e, w.Atomic(func(rw http.ResponseWriter, r *http.Request, tx any) {
			receipt := rand.Text()
			err := w.Pay(r.Context(), tx, order(r), "sale", receipt)
			if err == nil {
				err = box.Add(r.Context(), Execer(tx), outbox.Message{Topic: "charge", KeyHonoured: true, Record: outbox.RecordOf(stet.ClaimFrom(r.Context())),
					Payload: []byte(order(r))})
			}
			if err != nil {
				later(rw, err)
				return
			}
			created(rw, receipt)
		}), nil)
		s.Loops = append(s.Loops, outbox.Worker{DB: w.DB, Dialect: w.Dialect, MaxAttempts: 1000, Lease: w.Lease,
			Poll: shortLease / 10, Backoff: time.Millisecond, MaxBackoff: time.Millisecond,
			Handler: func(ctx context.Context, d *outbox.Delivery) outbox.Result {
				id, err := w.Provider.Effect(ctx, "charge", string(d.Payload), key(d), true)
				if err == nil {
					err = d.Downstream(ctx, id)
				}
				if err != nil {
					return outbox.Maybe(err)
				}
				return outbox.Delivered()
			}}.Run)
		return s, err
	}
}

func delivered(ctx context.Context, db *sql.DB, d sqlstore.Dialect) (bool, error) {
	left, err := (&outbox.Desk{Box: outbox.New(d), DB: db}).Counts(ctx)
	return err == nil && left[outbox.Pending]+left[outbox.Running] == 0, err
}

func oneDelivery(ctx context.Context, o Outcome) error {
	all, err := (&outbox.Desk{Box: outbox.New(o.Dialect), DB: o.DB}).List(ctx, outbox.Query{Limit: 10_000})
	messages := map[string][]string{}
	for _, m := range all {
		if string(m.Payload) == o.Order {
			messages[string(m.State)] = append(messages[string(m.State)], m.DownstreamID)
		}
	}
	made := o.Made()
	return errors.Join(err, onePayment(ctx, o), Once(made, map[string]string{"charge": first(made["charge"])}),
		Once(messages, map[string]string{string(outbox.Done): first(made["charge"])}))
}
