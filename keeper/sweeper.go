package keeper

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stet-dev/stet"
)

// Sweeper moves records whose lease has lapsed to unknown, also when no request comes for them again, so that operators see
// them: see [stet.Operator.Sweep].
type Sweeper struct {
	Engine *stet.Engine
	Every  time.Duration // between two rounds; default [DefaultSweepEvery]
	Batch  int           // records per store call, at most [stet.MaxLimit]; default [DefaultBatch]
}

// Run sweeps until ctx ends, and then returns nil; any other return is a setting that cannot be used. A round walks
// all that is due, with pauses as long as each batch took. Errors of the store never end the loop.
func (s Sweeper) Run(ctx context.Context) error {
	return run(ctx, s)
}

func (s Sweeper) loop() (loop, error) {
	if s.Engine == nil {
		return loop{}, errors.New("keeper: a Sweeper needs an Engine")
	}
	l := loop{cmp.Or(s.Every, DefaultSweepEvery), cmp.Or(s.Batch, DefaultBatch), stet.MaxLimit, s.Engine.Operator().Sweep}
	return l, l.valid()
}
