package maintenance

import (
	"context"
	"fmt"
	"time"
)

// minPause is the least pause between two batches while there is more to do. A batch that took longer is followed by a pause as
// long: a backlog of a million records must not take the store away from requests.
const minPause = 2 * time.Millisecond

// Loop is work that comes round again and again: a [Sweeper], a [Reaper], or the Reconciler of package reconcile.
type Loop interface {
	// Rounds returns what the loop does and how often. The error names a setting that cannot be used.
	Rounds() (Rounds, error)
}

// Rounds are what a [Loop] does. A round walks all that is due, one batch after the other, with a pause after each that is as long
// as the batch took.
type Rounds struct {
	Every           time.Duration // from one round to the next, give or take a tenth, so that processes do not stay in step
	Batch, MaxBatch int           // records of a batch, from 1 to MaxBatch

	// Do works on one batch of at most limit records, and returns how many it changed, and where the next batch begins: after is
	// empty at the beginning of a round, and next at its end. It has its errors reported by itself: they end the round if next
	// is empty, and never the loop.
	Do func(ctx context.Context, after string, limit int) (n int, next string, err error)
}

func (r *Rounds) validate() error {
	switch {
	case r.Every < 0:
		return fmt.Errorf("maintenance: Every is %s; it cannot be negative", r.Every)
	case r.Batch < 1 || r.Batch > r.MaxBatch:
		return fmt.Errorf("maintenance: Batch is %d; it has to be from 1 to %d records", r.Batch, r.MaxBatch)
	}
	return nil
}

// Run runs l until ctx ends, and then returns nil. Any other error is that of a setting that cannot be used.
func Run(ctx context.Context, l Loop) error {
	var r Runner
	if err := r.Set(l); err != nil {
		return err
	}
	return r.Run(ctx)
}
