package outbox

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/foreign"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/rest"
)

const (
	minPoll    = 10 * time.Millisecond
	relisten   = time.Second
	sweepEvery = 4                     // parts of a lease
	sortEvery  = 20 * time.Millisecond // at the latest, while there is more to deliver than a worker takes
)

// Run delivers messages until ctx ends. Then it waits up to Drain for running handlers, and returns
// nil, or [ErrDrain] if some still run. Errors of the database go to Observe, and the work is tried
// again. Any other error says which field cannot be used.
func (w Worker) Run(ctx context.Context) error {
	w, err := w.complete()
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r := &run{Worker: w, box: New(w.Dialect), work: work,
		ended: make(chan struct{}, w.Concurrency), heard: make(chan struct{}, 1)}
	r.endings = groupcommit.New(groupcommit.Config[*ending]{Many: r.doneMany, Groups: 1, MaxGroup: maxGroup})
	var beside sync.WaitGroup
	defer beside.Wait()
	if w.Listen != nil {
		beside.Go(func() { r.listen(ctx) })
	}
	if w.Retention != stet.Never {
		beside.Go(func() { r.reap(ctx) })
	}
	r.loop(ctx)
	return r.drain(stop)
}

// run is one call of Run. Only its own goroutine uses busy and the fields after it.
type run struct {
	Worker
	box     *Box
	work    context.Context // of the handlers: it outlives ctx by Drain
	ended   chan struct{}   // a value for each delivery that ended
	heard   chan struct{}   // a value if Listen has reported something since the last pause
	calls   foreign.Calls   // of the handler
	endings *groupcommit.Queue[*ending]
	busy    int
	swept   time.Time
	mended  int64 // where the next mend goes on
	sorted  time.Time
	short   bool    // the last claim got fewer messages than it asked for
	doubts  []doubt // claims without an answer
}

func (r *run) loop(ctx context.Context) {
	idle := minPoll
	for ctx.Err() == nil {
		for r.busy == r.Concurrency {
			select {
			case <-r.ended:
				r.busy--
			case <-ctx.Done():
				return
			}
		}
		for len(r.ended) > 0 {
			<-r.ended
			r.busy--
		}
		got, moved := r.round(ctx)
		for _, d := range got {
			r.busy++
			go r.deliver(d)
		}
		if len(got) > 0 || moved {
			idle = minPoll
			continue
		}
		if r.rest(ctx, idle/2+rand.N(idle/2+1)) {
			idle = minPoll // Listen may report one message of several
		} else {
			idle = min(2*idle, max(r.Poll, minPoll))
		}
	}
}

// round claims as many messages as there are free places, and reports whether it sorted some, which
// can then be claimed next. An error of one step goes to Observe, and does not stop the others.
func (r *run) round(ctx context.Context) (got []*claimed, moved bool) {
	certain := r.step(ctx, r.recover)
	if time.Since(r.swept) >= r.Lease/sweepEvery {
		r.step(ctx, r.sweep)
	}
	if r.short || time.Since(r.sorted) >= sortEvery {
		r.step(ctx, func(call context.Context) error {
			n, err := r.box.sort(call, r.DB)
			moved, r.sorted = n > 0, time.Now()
			return err
		})
	}
	if certain { // else doubts would pile up while the database does not answer
		r.step(ctx, func(call context.Context) (err error) {
			got, err = r.claim(call)
			return err
		})
	}
	return got, moved
}

// step runs a step with a time limit, and reports whether it succeeded. The end of ctx does not cut
// it off, because its write could land all the same.
func (r *run) step(ctx context.Context, do func(call context.Context) error) bool {
	if ctx.Err() != nil {
		return false
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Lease/3)
	defer cancel()
	err := do(call)
	if err != nil && ctx.Err() == nil {
		r.Observe(Event{Result: "error", Err: err})
	}
	return err == nil
}

// claim takes as many messages as there are free places.
func (r *run) claim(ctx context.Context) ([]*claimed, error) {
	began, version, n := time.Now(), newVersion(), min(r.Concurrency-r.busy, r.calls.Room(handler))
	if n == 0 { // else messages would be claimed that cannot be delivered
		return nil, nil
	}
	all, err := r.box.claim(ctx, r.DB, version, r.Lease, n)
	if err != nil {
		r.doubts = append(r.doubts, doubt{version, time.Now().Add(r.Lease)})
	}
	r.short = len(all) < n
	got := make([]*claimed, len(all))
	for i, m := range all {
		m.Version = version
		got[i] = &claimed{Stored: m, box: r.box, db: r.DB, began: began}
	}
	return got, err
}

// recover gives back the messages that claims without an answer have taken. The server may still be
// working on such a claim, so recover looks again until its lease would have ended.
func (r *run) recover(ctx context.Context) error {
	if len(r.doubts) == 0 {
		return nil
	}
	looked := time.Now()
	err := r.box.takeBack(ctx, r.DB, r.doubts)
	if err == nil {
		r.doubts = slices.DeleteFunc(r.doubts, func(d doubt) bool { return looked.After(d.until) })
	}
	return err
}

// sweep handles leases that have ended, and lines that are broken.
func (r *run) sweep(ctx context.Context) (err error) {
	if err := r.box.lapse(ctx, r.DB, r.MaxAttempts); err != nil {
		return err
	}
	r.swept = time.Now()
	r.mended, err = r.box.mend(ctx, r.DB, r.mended)
	return err
}

// rest pauses for d, and reports whether it was woken because there is something to do. The end of
// a delivery ends the pause as well, because it may free an order key.
func (r *run) rest(ctx context.Context, d time.Duration) (woken bool) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-r.Wake:
		return true
	case <-r.heard:
		return true
	case <-r.ended:
		r.busy--
	}
	return false
}

// listen calls Listen again and again until ctx ends.
func (r *run) listen(ctx context.Context) {
	for {
		wake := func() {
			select {
			case r.heard <- struct{}{}:
			default:
			}
		}
		_, err := foreign.Do(ctx, &r.calls, foreign.About{Kind: "listener"},
			func(ctx context.Context) (struct{}, error) { return struct{}{}, r.Listen(ctx, wake) })
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.Observe(Event{Result: "error", Err: failed("listen", err)})
		}
		rest.For(ctx, relisten)
	}
}

// drain waits for running handlers, and cancels them when Drain is over.
func (r *run) drain(stop context.CancelFunc) error {
	r.step(r.work, r.recover)
	limit := time.NewTimer(r.Drain)
	defer limit.Stop()
	late := false
	for r.busy > 0 {
		select {
		case <-r.ended:
			r.busy--
		case <-limit.C:
			if late {
				return cmp.Or(r.drained(), ErrDrain)
			}
			late = true
			stop()
			limit.Reset(2 * foreign.Grace) // for handlers that heed their context, and for what became of the others
		}
	}
	if len(r.doubts) > 0 { // claims that have landed since
		r.step(r.work, r.recover)
	}
	return r.drained()
}

// drained is the error of handlers that still run, which says how many and for how long.
func (r *run) drained() error {
	if hanging := r.calls.Hanging(); hanging != nil {
		return fmt.Errorf("%w: %w", ErrDrain, hanging)
	}
	return nil
}
