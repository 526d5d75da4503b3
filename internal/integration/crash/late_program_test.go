package crash

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/stethttp"
)

// lateLease is the lease of runs whose answers come late: it has to end in each trial.
const lateLease = 1500 * time.Millisecond

// lateAnswers are programs whose handler works on, whatever has become of its time. They differ in
// how much it has.
var lateAnswers = []Program{{Name: "late", Serve: lateWithin(stet.Never)}, {Name: "late, timed out", Serve: lateWithin(lateLease / 3)}}

func lateWithin(execution time.Duration) func(w *World) (Service, error) {
	return func(w *World) (Service, error) {
		e, err := stet.New(w.Store, stet.Config{StoreTimeout: lateLease / 2, Observe: sayUnplaced,
			Policy: stet.Policy{Lease: lateLease, Execution: execution}})
		if err != nil {
			return Service{}, err
		}
		var working sync.WaitGroup
		guard := stethttp.Middleware(e, stethttp.SingleTenant, stethttp.Config{})
		h := guard(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			id, err := w.Provider.Effect(context.WithoutCancel(r.Context()), "charge", order(r), rand.Text(), false)
			if err != nil {
				stet.ClaimFrom(r.Context()).Unknown("no-answer")
				later(rw, err)
				return
			}
			created(rw, id)
		}))
		counted := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			working.Add(1)
			defer working.Done()
			h.ServeHTTP(rw, r)
		})
		end := func(ctx context.Context) error {
			<-ctx.Done()
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), patience/2)
			defer stop()
			e.Abandon(ctx)
			working.Wait()
			return e.Drain(ctx)
		}
		return Service{counted, []func(context.Context) error{maintenance.Sweeper{Engine: e, Every: lateLease / 8}.Run, end}}, nil
	}
}

// toldNotKept is said of a result that no record takes: see Process.Points.
const toldNotKept = "told, not kept"

func sayUnplaced(ev stet.Event) {
	if ev.Kind == stet.Unplaced || ev.Kind == stet.DoubleEffect {
		fmt.Println("point " + toldNotKept)
	}
}
