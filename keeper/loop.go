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

// run returns nil when ctx ends. It outlives every error of the store, which the engine's observer has seen: that of a record is
// nothing to the others, and where the walk itself fails the next round begins it anew.
func (l loop) run(ctx context.Context) error {
	switch {
	case l.every < 0:
		return fmt.Errorf("keeper: Every is %s; it cannot be negative", l.every)
	case l.batch < 1 || l.batch > l.max:
		return fmt.Errorf("keeper: Batch is %d; it is 1 to %d records", l.batch, l.max)
	}
	for rest(ctx, spread(l.every)) {
		for after := ""; ; {
			began := time.Now()
			_, next, _ := l.do(ctx, after, l.batch)
			if after = next; next == "" || !rest(ctx, max(breath, time.Since(began))) {
				break
			}
		}
	}
	return nil
}

// spread varies a pause by a tenth either way, so that processes that were started together do not stay in step.
func spread(d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - d/10 + rand.N(d/5)
}

// rest reports false when ctx ends first.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
