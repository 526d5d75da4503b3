package stet

import (
	"context"
	"sync"
	"time"
)

// detached carries the values of a context, but neither its end nor its deadline: what has been promised to a store is not
// taken back because a client hung up (I8, W12). It has a deadline of its own. The timer behind it is made only when
// somebody asks for Done, so that a store in memory pays for none.
type detached struct {
	parent   context.Context // for its values
	began    time.Time       // before the first call: a lease granted by one lasts at least from here
	deadline time.Time

	mu    sync.Mutex
	done  chan struct{}
	timer *time.Timer
	err   error
}

func detach(ctx context.Context, within time.Duration) *detached {
	d := new(detached)
	d.begin(ctx, within)
	return d
}

func (d *detached) begin(ctx context.Context, within time.Duration) {
	d.parent, d.began = ctx, time.Now()
	d.deadline = d.began.Add(within)
}

// Value answers as the parent would without its cancellation, which package context looks for by a key of its own.
func (d *detached) Value(key any) any { return context.WithoutCancel(d.parent).Value(key) }

func (d *detached) Deadline() (time.Time, bool) { return d.deadline, true }

func (d *detached) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		d.done = make(chan struct{})
		if d.err != nil {
			close(d.done)
		} else {
			d.timer = time.AfterFunc(time.Until(d.deadline), func() { d.end(context.DeadlineExceeded) })
		}
	}
	return d.done
}

func (d *detached) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil && d.done == nil && !time.Now().Before(d.deadline) {
		d.err = context.DeadlineExceeded
	}
	return d.err
}

// end stops the timer; the first error stands.
func (d *detached) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return
	}
	d.err = err
	if d.done != nil {
		close(d.done)
	}
	if d.timer != nil {
		d.timer.Stop()
	}
}

// release ends the context after a call: nothing of it stays behind.
func (d *detached) release() { d.end(context.Canceled) }
