package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stet-dev/stet"
)

// Defaults of [Sweeper] and [Reaper].
const (
	DefaultSweepEvery = 10 * time.Second
	DefaultReapEvery  = time.Minute
	DefaultBatch      = stet.DefaultLimit
	DefaultReapBatch  = 500 // requests wait no longer than that takes
)

// breath is the least pause between two batches while there is more to do. A batch that took longer is followed by a pause as
// long: a backlog of a million records must not take the store away from requests.
const breath = 2 * time.Millisecond

// loop walks what is due, one batch after the other to the end, then rests.
type loop struct {
	every      time.Duration
	batch, max int
	do         func(ctx context.Context, after string, limit int) (n int, next string, err error)
}

// valid says what of the settings cannot be used.
func (l loop) valid() error {
	switch {
	case l.every < 0:
		return fmt.Errorf("keeper: Every is %s; it cannot be negative", l.every)
	case l.batch < 1 || l.batch > l.max:
		return fmt.Errorf("keeper: Batch is %d; it is 1 to %d records", l.batch, l.max)
	}
	return nil
}

// run returns nil when ctx ends.
func run(ctx context.Context, l Loop) error {
	var r Runner
	if err := r.Set(l); err != nil {
		return err
	}
	return r.Run(ctx)
}

// spread varies a pause by a tenth either way, so that processes that were started together do not stay in step.
func spread(d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - d/10 + rand.N(d/5)
}
