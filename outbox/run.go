package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
)

const (
	minPoll    = 10 * time.Millisecond
	relisten   = time.Second
	sweepEvery = 4                     // parts of a lease
	sortEvery  = 20 * time.Millisecond // at least, while there is more to deliver than a worker takes
)

// Run delivers until ctx ends, waits up to Drain for the handlers that run, and returns nil, or
// [ErrDrain]. Trouble with the database is told to Observe, and tried again. Other errors are of
// the fields.
func (w Worker) Run(ctx context.Context) error {
	w, err := w.complete()
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r := &run{Worker: w, box: New(w.Dialect), work: work,
		ended: make(chan struct{}, w.Concurrency), heard: make(chan struct{}, 1)}
	r.group = newGroup(work, r.box, r.DB, r.Lease/3)
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

// run is one call of Run. Only its own goroutine touches what stands below busy.
type run struct {
	Worker
	box    *Box
	group  *group
	work   context.Context // of the handlers: it outlives ctx by Drain
	ended  chan struct{}   // a value for each delivery that ended
	heard  chan struct{}   // a value if Listen has told of something since the last pause
	astray atomic.Int64    // handlers that were left to themselves
	busy   int
	swept  time.Time
	mended int64 // where mend goes on
	sorted time.Time
	short  bool    // the last claim got less than it asked for
	doubts []doubt // claims without an answer
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
		r.collect()
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
			idle = minPoll // who was told of one message is not told of those right behind it
		} else {
			idle = min(2*idle, max(r.Poll, minPoll))
		}
	}
}

// collect counts what has ended by now.
func (r *run) collect() {
	for {
		select {
		case <-r.ended:
			r.busy--
		default:
			return
		}
	}
}

// round claims what there is room for, and reports whether it has moved others so that they can be
// claimed next. Trouble with one of its steps is told to Observe, and does not keep the others from
// being taken.
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
	if certain { // or doubts would pile up for as long as the database is away
		r.step(ctx, func(call context.Context) (err error) {
			got, err = r.claim(call)
			return err
		})
	}
	return got, moved
}

// step gives a step its time, and reports whether it went well. One that was cut off by ctx might
// land nevertheless: it gets the time to say so.
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

// claim takes what there is room for.
func (r *run) claim(ctx context.Context) ([]*claimed, error) {
	began, version, n := time.Now(), newVersion(), r.Concurrency-r.busy
	all, err := r.box.claim(ctx, r.DB, version, r.Lease, n)
	if err != nil {
		r.doubts = append(r.doubts, doubt{version, time.Now().Add(r.Lease)})
	}
	r.short = len(all) < n
	got := make([]*claimed, len(all))
	for i, m := range all {
		m.version = version
		got[i] = &claimed{Stored: m, box: r.box, db: r.DB, began: began}
	}
	return got, err
}

// recover gives back what claims without an answer have got. A server may still be at such a claim
// for a while, so that it looks for as long as the lease would last.
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

// sweep looks after lapsed leases, and after lines that were disturbed.
func (r *run) sweep(ctx context.Context) (err error) {
	to := Unknown
	if r.KeyHonoured {
		to = Pending
	}
	if err := r.box.lapse(ctx, r.DB, to, r.MaxAttempts); err != nil {
		return err
	}
	r.swept = time.Now()
	r.mended, err = r.box.mend(ctx, r.DB, r.mended)
	return err
}

// rest pauses, and reports whether it was woken because there is something to do. The end of a
// delivery may free an order key, and so ends the pause too.
func (r *run) rest(ctx context.Context, d time.Duration) (woken bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-r.Wake:
		return true
	case <-r.heard:
		return true
	case <-r.ended:
		r.busy--
	}
	return false
}

// listen has itself told, and again when that has ended, until ctx ends.
func (r *run) listen(ctx context.Context) {
	for {
		err := r.Listen(ctx, func() {
			select {
			case r.heard <- struct{}{}:
			default:
			}
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.Observe(Event{Result: "error", Err: fmt.Errorf("outbox: listen: %w", err)})
		}
		rest.For(ctx, relisten)
	}
}

// drain waits for what runs, and cancels it when the time is over.
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
				return ErrDrain
			}
			late = true
			stop()
			limit.Reset(time.Second) // for handlers that heed their context
		}
	}
	if len(r.doubts) > 0 { // what has landed since
		r.step(r.work, r.recover)
	}
	if r.astray.Load() > 0 {
		return ErrDrain
	}
	return nil
}
