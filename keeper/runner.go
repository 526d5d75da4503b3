package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/stet-dev/stet/internal/rest"
)

// Loop is a [Sweeper], a [Reaper] or a [Reconciler].
type Loop interface {
	Run(ctx context.Context) error
	loop() (loop, error)
}

// Runner runs a loop whose settings may change while it runs. The zero value has none yet, and rests. Safe for concurrent use; Run
// may be called once.
type Runner struct {
	mu      sync.Mutex
	current *loop         // nil: none
	changed chan struct{} // closed when current is another; nil: nobody waits
}

// Set puts l in force from the next batch on, and nil ends the loop for now. Nothing that runs is interrupted, and the time since the
// last round counts: however often the settings change, the loop comes round. The loops that one Runner gets are of one type. The
// error names the setting that cannot be used; nothing changes then.
func (r *Runner) Set(l Loop) error {
	var next *loop
	if l != nil {
		made, err := l.loop()
		if err != nil {
			return err
		}
		next = &made
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = next
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
	return nil
}

func (r *Runner) now() (l *loop, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.current, r.changed
}

// Run runs the loop until ctx ends, and then returns nil. It outlives every error of the store, which the engine's observer has seen:
// that of a record is nothing to the others, and where the walk itself fails the next round begins it anew.
func (r *Runner) Run(ctx context.Context) error {
	for r.rest(ctx, time.Now()) {
		r.round(ctx)
	}
	return nil
}

// rest waits until the next round is due, and reports false when ctx ends first.
func (r *Runner) rest(ctx context.Context, since time.Time) bool {
	for {
		l, changed := r.now()
		var due <-chan time.Time
		if l != nil {
			due = time.After(spread(l.every) - time.Since(since))
		}
		select {
		case <-due:
			return ctx.Err() == nil
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// round walks what is due, one batch after the other to the end.
func (r *Runner) round(ctx context.Context) {
	for after := ""; ; {
		l, _ := r.now()
		if l == nil {
			return
		}
		began := time.Now()
		_, next, _ := l.do(ctx, after, l.batch)
		if after = next; next == "" || !rest.For(ctx, max(breath, time.Since(began))) {
			return
		}
	}
}
