package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
)

// An operator who asks now is answered by the rules of the loop, without waiting for it, and also
// about a dead letter.
func TestAskNow(t *testing.T) { // D06, surface §6: POST …/probe
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		found := Finding{Effect: Missing, Evidence: "the probe was answered 404"}
		var fails error
		r := Reconciler{Engine: w.Engine, MaxProbes: 3, Settle: stet.Never, Resolver: Resolver(func(context.Context, stet.Head) (Finding, error) {
			return found, fails
		})}
		w.keep(1, r, 5*time.Minute)
		dead := w.state(0)
		if !dead.Escalated {
			t.Fatalf("it is no dead letter: %+v", dead)
		}
		ask := func() (Asked, error) {
			rec := w.state(0)
			return r.Ask(t.Context(), &rec.Head, stet.Note{Who: "kim", Why: "the customer calls"})
		}
		if a, err := ask(); err != nil || a.Ended || a.Finding != found || a.Head.Basis() != dead.Basis() {
			t.Errorf("nothing was found out: %+v, %v", a, err)
		}
		fails = errors.New("refused")
		if _, err := ask(); !errors.Is(err, ErrNoAnswer) || !errors.Is(err, fails) || len(w.errors) == 0 {
			t.Errorf("nobody could tell: %v, %v", err, w.errors)
		}
		if now := w.state(0); now.Basis() != dead.Basis() || now.Probes != dead.Probes || !now.Escalated {
			t.Errorf("a question changed the record: %+v", now)
		}
		fails, r.Settle = nil, time.Second // settled long since
		a, err := ask()
		if err != nil || !a.Ended || a.Head.State != stet.Retryable || a.Head.Escalated {
			t.Errorf("%+v, %v", a, err)
		}
		if n := w.state(0).Note; n.Who != "kim" || n.Why != "no trace of it 5m0s after the attempt ended; asked now: the customer calls" || n.Evidence != found.Evidence {
			t.Errorf("%+v", n)
		}
		if _, err := ask(); !errors.Is(err, stet.ErrState) {
			t.Errorf("it is not unknown any more: %v", err)
		}
		if _, err := (Reconciler{Engine: w.Engine}).Ask(t.Context(), &dead.Head, stet.Note{Who: "kim"}); err == nil {
			t.Error("asked nobody")
		}
	})
}

// What changed while the question was under way is not changed by its answer.
func TestAskAboutWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		r := Reconciler{Engine: w.Engine, Resolver: happened}
		seen := w.state(0)
		if _, err := w.Operator().Resolve(t.Context(), id(0), execution.Of(t.Context(), w.Engine, id(0)), stet.Resolution{}, stet.Note{Who: "w", Why: "y"}); err != nil {
			t.Fatal(err)
		}
		a, err := r.Ask(t.Context(), &seen.Head, stet.Note{Who: "kim"})
		if !errors.Is(err, stet.ErrStale) || a.Ended || w.state(0).State != stet.Retryable {
			t.Errorf("%+v, %v", a, err)
		}
	})
}
