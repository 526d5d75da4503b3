package keeper

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stet-dev/stet"
)

// Reaper ends records whose retention is over. It never touches running and unknown ones (I10): see [stet.Operator.Reap].
type Reaper struct {
	Engine *stet.Engine
	Every  time.Duration // between two rounds; default [DefaultReapEvery]
	Batch  int           // records at a time, at most 10,000; default [DefaultReapBatch]
}

// Run reaps until ctx ends, and then returns nil; any other return is a setting that cannot be used. A round walks
// all that is due, with pauses as long as each batch took. Errors of the store never end the loop.
func (r Reaper) Run(ctx context.Context) error {
	return run(ctx, r)
}

func (r Reaper) loop() (loop, error) {
	if r.Engine == nil {
		return loop{}, errors.New("keeper: a Reaper needs an Engine")
	}
	l := loop{cmp.Or(r.Every, DefaultReapEvery), cmp.Or(r.Batch, DefaultReapBatch), 10 * stet.MaxLimit, r.Engine.Operator().Reap}
	return l, l.valid()
}
