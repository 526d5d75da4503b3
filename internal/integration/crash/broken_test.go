package crash

import (
	"context"
	"crypto/rand"
	"net/http"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/reconcile"
)

// broken are programs with a mistake that only a crash shows.
var broken = []Program{
	{Name: "the row is committed before the answer", Check: onePayment, Serve: func(w *World) (Service, error) {
		e, err := w.Engine(stet.LapseUnknown)
		return guarded(w, e, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			receipt := rand.Text()
			t, err := w.Begin(r.Context())
			if err == nil {
				err = w.Pay(r.Context(), t.Tx(), order(r), "sale", receipt)
			}
			if err == nil {
				err = t.Commit(r.Context())
			}
			if err != nil {
				later(rw, err)
				return
			}
			created(rw, receipt)
		}), func(context.Context, stet.Head) (reconcile.Finding, error) {
			return reconcile.Finding{Effect: reconcile.Voided, Evidence: "no answer was committed"}, nil
		}), err
	}},
	{Name: "nobody asks the provider", Check: oneCharge, Serve: guardWith(func(context.Context, *World, stet.Head) (reconcile.Finding, error) {
		return reconcile.Finding{Effect: reconcile.Voided}, nil
	})},
	{Name: "a new key for each attempt", Settled: delivered, Check: oneDelivery,
		Serve: promise(func(*outbox.Delivery) string { return rand.Text() })},
}

// The harness finds what it is there to find.
func TestMistakesAreFound(t *testing.T) {
	h := New(t)
	for _, p := range broken {
		t.Run(p.Name, func(t *testing.T) {
			r := h.EveryPoint(t, p, SQLite, false)
			if len(r.Wrong) == 0 {
				t.Errorf("%d lives ended, and all was well", len(r.Points))
			}
			for _, err := range r.Wrong {
				t.Log(err)
			}
		})
	}
}
