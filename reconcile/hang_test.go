package reconcile

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

// One resolver of 300 that ignores its context costs its own record alone, and is not asked again
// while it hangs. A reload of the settings does not forget it, and Drain says that it still runs.
func TestOneResolverThatHangsStopsNothing(t *testing.T) { // K07
	synctest.Test(t, func(t *testing.T) {
		const records = 300
		w := newWard(t, records)
		release := make(chan struct{})
		var hung atomic.Int64
		r := Reconciler{AtOnce: 2, Batch: 50, Resolver: func(_ context.Context, h stet.Head) (Finding, error) {
			if h.ID == id(7) {
				hung.Add(1)
				<-release
			}
			return Finding{Effect: Happened, Response: &stet.Response{Status: 201}}, nil
		}}
		began := time.Now()
		for range 2 { // the second has the settings of a reload
			w.keep(1, r, 5*time.Minute)
		}
		if took := time.Since(began); took > 10*time.Minute+20*time.Second {
			t.Errorf("Run ended %s late", took-10*time.Minute)
		}
		if n := w.told["resolved"].Load(); n != records-1 {
			t.Errorf("%d of %d were resolved", n, records-1)
		}
		if n := hung.Load(); n != 1 {
			t.Errorf("the resolver that hangs was called %d times", n)
		}
		have := w.state(7)
		if have.State != stet.Unknown || have.Probes < 2 {
			t.Errorf("its record is %v after %d probes", have.State, have.Probes)
		}
		_, err := Reconciler{Engine: w.Engine, Resolver: r.Resolver}.Ask(t.Context(), &have.Head, stet.Note{Who: "ann", Why: "now"})
		if !errors.Is(err, ErrNoAnswer) || !errors.Is(err, stet.ErrHangs) {
			t.Errorf("a person who asks is told %v", err)
		}
		err = w.Drain(t.Context())
		if !errors.Is(err, stet.ErrHangs) || !strings.Contains(err.Error(), "1 resolver, for 9m") {
			t.Errorf("Drain says %v", err)
		}
		close(release)
		synctest.Wait()
		if err := w.Drain(t.Context()); err != nil {
			t.Errorf("Drain says %v of a call that has returned", err)
		}
	})
}

// Where every call hangs there is a bound, and records are left as they are: no probe is counted
// that was never made.
func TestCallsThatHangAreBounded(t *testing.T) { // K07
	synctest.Test(t, func(t *testing.T) {
		const records = 150
		w := newWard(t, records)
		release := make(chan struct{})
		defer close(release)
		var hung atomic.Int64
		w.keep(1, Reconciler{AtOnce: 50, Resolver: func(context.Context, stet.Head) (Finding, error) {
			hung.Add(1)
			<-release
			return Finding{}, nil
		}}, 10*time.Minute)
		if n := hung.Load(); n != 100 {
			t.Errorf("%d calls hang; want 100", n)
		}
		untouched := 0
		for i := range records {
			if w.state(i).Probes == 0 {
				untouched++
			}
		}
		if untouched != records-100 {
			t.Errorf("%d records were left as they are; want %d", untouched, records-100)
		}
	})
}
