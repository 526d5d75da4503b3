package maintenance

import (
	"context"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/bounds"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	e := engine(t, &due{})
	bounds.Refuses(t, sweeperBounds, func() Sweeper { return Sweeper{Engine: e} }, func(s Sweeper) error { return new(Runner).Set(s) })
	bounds.Refuses(t, reaperBounds, func() Reaper { return Reaper{Engine: e} }, func(r Reaper) error { return new(Runner).Set(r) })
	bounds.Refuses(t, trimmerBounds, func() Trimmer { return Trimmer{Engine: e, Age: time.Hour} }, func(r Trimmer) error { return new(Runner).Set(r) })
	valid := func() Rounds { return Rounds{Every: bounds.Short, Batch: 1, MaxBatch: 1} }
	bounds.Refuses(t, roundsBounds, valid, func(r Rounds) error { return new(Runner).Set(rounds(r)) })
}

type rounds Rounds

func (r rounds) Rounds() (Rounds, error)   { return Rounds(r), nil }
func (r rounds) Run(context.Context) error { return nil }
