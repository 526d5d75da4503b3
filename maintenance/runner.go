package maintenance

import (
	"context"
	"sync"
	"time"

	"github.com/stet-dev/stet/internal/rest"
)

// Runner runs a [Loop] whose settings may change while it runs. The zero value has no loop yet, and rests. It is safe for
// concurrent use; Run may be called once.
type Runner struct {
	mu      sync.Mutex
	current *Rounds       // nil: none
	changed chan struct{} // closed when current changes; nil while nothing waits for that
}

// Set puts l in force from the next batch on; nil stops the loop until the next call. A batch that runs is not interrupted, and the
// time since the last round counts, so that the loop comes round however often its settings change. All loops that one Runner gets
// are of one type. The error names a setting that cannot be used; then nothing changes.
func (r *Runner) Set(l Loop) error {
	var next *Rounds
	if l != nil {
		rounds, err := l.Rounds()
		if err == nil {
			err = rounds.validate()
		}
		if err != nil {
			return err
		}
		next = &rounds
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

func (r *Runner) now() (l *Rounds, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.current, r.changed
}

// Run runs the loop until ctx ends, and then returns nil. It outlives every error of the store, which the engine's observer has
// seen: the error of one record does not stop the others, and if a walk fails the next round begins it anew.
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
			due = time.After(rest.Spread(l.Every) - time.Since(since))
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

func (r *Runner) round(ctx context.Context) {
	for after := ""; ; {
		l, _ := r.now()
		if l == nil {
			return
		}
		began := time.Now()
		_, next, _ := l.Do(ctx, after, l.Batch)
		if after = next; next == "" || !rest.For(ctx, max(minPause, time.Since(began))) {
			return
		}
	}
}
