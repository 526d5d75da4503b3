package maintenance

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stet-dev/stet"
)

// defaultSweepEvery is the default of [Sweeper].
const defaultSweepEvery = 10 * time.Second

// Sweeper moves records whose lease has lapsed to unknown even if no request asks for them again,
// so that operators see them: see [stet.Operator.Sweep].
type Sweeper struct {
	Engine *stet.Engine  // whose store is swept; required
	Every  time.Duration // from one round to the next; 0 means 10 seconds
	Batch  int           // records at a time, at most [stet.MaxLimit]; 0 means [stet.DefaultLimit]
}

// Run sweeps until ctx ends, and then returns nil. Any other error is that of a setting that cannot
// be used: errors of the store end a round, never the loop.
func (s Sweeper) Run(ctx context.Context) error { return Run(ctx, s) }

// Rounds implements [Loop].
func (s Sweeper) Rounds() (Rounds, error) {
	if s.Engine == nil {
		return Rounds{}, errors.New("maintenance: a Sweeper needs an Engine")
	}
	return Rounds{cmp.Or(s.Every, defaultSweepEvery), cmp.Or(s.Batch, stet.DefaultLimit), stet.MaxLimit, s.Engine.Operator().Sweep}, nil
}
