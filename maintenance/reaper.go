package maintenance

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stet-dev/stet"
)

// Defaults of [Reaper].
const (
	defaultReapEvery = time.Minute
	defaultReapBatch = 500 // requests wait no longer than one batch takes
)

// Reaper ends records whose retention is over. It never touches running and unknown ones (I10): see
// [stet.Operator.Reap].
type Reaper struct {
	Engine *stet.Engine  // whose store is reaped; required
	Every  time.Duration // from one round to the next; 0 means a minute
	Batch  int           // records at a time, at most 10,000; 0 means 500
}

// Run reaps until ctx ends, and then returns nil. Any other error is that of a setting that cannot
// be used: errors of the store end a round, never the loop.
func (r Reaper) Run(ctx context.Context) error { return Run(ctx, r) }

// Rounds implements [Loop].
func (r Reaper) Rounds() (Rounds, error) {
	if r.Engine == nil {
		return Rounds{}, errors.New("maintenance: a Reaper needs an Engine")
	}
	return Rounds{cmp.Or(r.Every, defaultReapEvery), cmp.Or(r.Batch, defaultReapBatch), 10 * stet.MaxLimit, r.Engine.Operator().Reap}, nil
}
