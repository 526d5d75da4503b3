package bulk_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

// A probe that hangs costs a job one record, and holds up neither the others, nor later jobs, nor
// the end of Run.
func TestAProbeThatHangsHoldsUpNoJob(t *testing.T) { // K07
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.New(memstore.Config{}))
		release := make(chan struct{})
		defer close(release)
		var hung atomic.Int64
		d.jobs.AskWith(&reconcile.Reconciler{Engine: d.engine, Resolver: func(_ context.Context, h stet.Head) (reconcile.Finding, error) {
			if h.ID == d.id(3) {
				hung.Add(1)
				<-release
			}
			return reconcile.Finding{Effect: reconcile.Happened, Response: &stet.Response{Status: 201}}, nil
		}})
		d.unknown(0, 40)
		probes := d.start(bulk.Order{Action: bulk.Probe, Query: unknowns, Expect: 40})
		ctx, end := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = d.jobs.Run(ctx) })
		time.Sleep(time.Minute)
		done := d.is(probes.ID, bulk.Completed, 39, 1, 0)
		if len(done.Errors) != 1 || done.Errors[0].Cause != "probe-failed" {
			t.Errorf("%+v", done.Errors)
		}
		later := d.start(bulk.Order{Action: bulk.Hand, Query: unknowns, Expect: 1, To: "bob"})
		time.Sleep(time.Minute)
		d.is(later.ID, bulk.Completed, 1, 0, 0)
		again := d.start(bulk.Order{Action: bulk.Probe, Query: unknowns, Expect: 1})
		time.Sleep(time.Minute)
		d.is(again.ID, bulk.Completed, 0, 1, 0)
		if n := hung.Load(); n != 1 {
			t.Errorf("the probe that hangs was made %d times", n)
		}
		end()
		loop.Wait()
	})
}

// A job that is stopped is stopped within seconds, whatever its probes do.
func TestAJobWhoseProbeHangsStops(t *testing.T) { // K07
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.New(memstore.Config{}))
		release := make(chan struct{})
		defer close(release)
		d.jobs.AskWith(&reconcile.Reconciler{Engine: d.engine, Timeout: time.Hour, Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) {
			<-release
			return reconcile.Finding{}, nil
		}})
		d.unknown(0, 3)
		job := d.start(bulk.Order{Action: bulk.Probe, Query: unknowns, Expect: 3})
		ended := make(chan error, 1)
		go func() { ended <- d.jobs.Work(t.Context(), job.ID) }()
		time.Sleep(time.Minute)
		if _, err := d.jobs.Stop(t.Context(), job.ID, why); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		select {
		case err := <-ended:
			if d.get(job.ID).State != bulk.Stopped {
				t.Errorf("%v, and it is %+v", err, d.get(job.ID))
			}
		default:
			t.Error("its worker still waits for the probe")
		}
	})
}
