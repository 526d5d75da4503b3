package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
)

// minPause is the least pause between two batches while there is more to do. A batch that took
// longer is followed by a pause as long: a backlog of a million records must not take the store
// away from requests.
const minPause = 2 * time.Millisecond

// Loop is work that comes round again and again: a [Sweeper], a [Reaper], or the Reconciler of
// package reconcile.
type Loop interface {
	// Rounds returns what the loop does and how often. The error names a setting that cannot be
	// used.
	Rounds() (Rounds, error)
}

// Rounds are what a [Loop] does. A round walks all that is due, one batch after the other, with a
// pause after each that is as long as the batch took.
type Rounds struct {
	Every           time.Duration // from one round to the next, give or take a tenth, so that processes do not stay in step
	Batch, MaxBatch int           // records of a batch, from 1 to MaxBatch

	// Do works on one batch of at most limit records, and returns how many it changed, and where
	// the next batch begins: after is empty at the beginning of a round, and next at its end. It
	// has its errors reported by itself: they end the round if next is empty, and never the loop.
	Do func(ctx context.Context, after string, limit int) (n int, next string, err error)
}

var roundsBounds = bounds.For[Rounds](
	bounds.Duration("Every", bounds.Short, bounds.Long),
	bounds.Number("Batch", 1, bounds.Many),
	bounds.Number("MaxBatch", 1, bounds.Many),
)

func (r *Rounds) validate() error {
	if err := roundsBounds.Check(r); err != nil {
		return err
	}
	if r.Batch > r.MaxBatch {
		return fmt.Errorf("maintenance: Batch is %d; it has to be from 1 to %d records", r.Batch, r.MaxBatch)
	}
	return nil
}

// Run runs l until ctx ends, and then returns nil. Any other error is that of a setting that cannot
// be used.
func Run(ctx context.Context, l Loop) error {
	var r Runner
	if err := r.Set(l); err != nil {
		return err
	}
	return r.Run(ctx)
}

// Sweeper moves records whose lease has lapsed to unknown even if no request asks for them again,
// so that operators see them: see [stet.Operator.Sweep].
type Sweeper struct {
	Engine *stet.Engine  // whose store is swept; required
	Every  time.Duration // from one round to the next; 0 means 10 seconds
	Batch  int           // records at a time, at most [stet.MaxLimit]; 0 means [stet.DefaultLimit]
}

var sweeperBounds = bounds.For[Sweeper](
	bounds.Duration("Every", bounds.Short, bounds.Long).OrDefault(),
	bounds.Number("Batch", 1, stet.MaxLimit).OrDefault(),
)

// Run sweeps until ctx ends, and then returns nil. Any other error is that of a setting that cannot
// be used: errors of the store end a round, never the loop.
func (s Sweeper) Run(ctx context.Context) error { return Run(ctx, s) }

// Rounds implements [Loop].
func (s Sweeper) Rounds() (Rounds, error) {
	if s.Engine == nil {
		return Rounds{}, errors.New("maintenance: a Sweeper needs an Engine")
	}
	if err := sweeperBounds.Check(&s); err != nil {
		return Rounds{}, err
	}
	return Rounds{cmp.Or(s.Every, 10*time.Second), cmp.Or(s.Batch, stet.DefaultLimit), stet.MaxLimit, s.Engine.Operator().Sweep}, nil
}

const defaultReapBatch = 500 // requests wait no longer than one batch takes

// Reaper ends records whose retention is over. It never touches running and unknown ones (I10): see
// [stet.Operator.Reap].
type Reaper struct {
	Engine *stet.Engine  // whose store is reaped; required
	Every  time.Duration // from one round to the next; 0 means a minute
	Batch  int           // records at a time, at most 10,000; 0 means 500
}

const maxReapBatch = 10 * stet.MaxLimit

var reaperBounds = bounds.For[Reaper](
	bounds.Duration("Every", bounds.Short, bounds.Long).OrDefault(),
	bounds.Number("Batch", 1, maxReapBatch).OrDefault(),
)

// Run reaps until ctx ends, and then returns nil. Any other error is that of a setting that cannot
// be used: errors of the store end a round, never the loop.
func (r Reaper) Run(ctx context.Context) error { return Run(ctx, r) }

// Rounds implements [Loop].
func (r Reaper) Rounds() (Rounds, error) {
	if r.Engine == nil {
		return Rounds{}, errors.New("maintenance: a Reaper needs an Engine")
	}
	if err := reaperBounds.Check(&r); err != nil {
		return Rounds{}, err
	}
	return Rounds{cmp.Or(r.Every, time.Minute), cmp.Or(r.Batch, defaultReapBatch), maxReapBatch, r.Engine.Operator().Reap}, nil
}

const defaultTrimBatch = 1000

// Trimmer removes entries of the history that are too old: see [stet.Operator.Trim].
type Trimmer struct {
	Engine *stet.Engine  // whose store has the history; required
	Age    time.Duration // of the entries that are removed, at least; required
	Every  time.Duration // from one round to the next; 0 means an hour
	Batch  int           // entries at a time, at most 10,000; 0 means 1,000
}

const maxTrimBatch = 10 * stet.MaxLimit

var trimmerBounds = bounds.For[Trimmer](
	bounds.Duration("Age", bounds.Short, bounds.Long),
	bounds.Duration("Every", bounds.Short, bounds.Long).OrDefault(),
	bounds.Number("Batch", 1, maxTrimBatch).OrDefault(),
)

// Run trims until ctx ends, and then returns nil. Any other error is that of a setting that cannot
// be used: errors of the store end a round, never the loop.
func (r Trimmer) Run(ctx context.Context) error { return Run(ctx, r) }

// Rounds implements [Loop].
func (r Trimmer) Rounds() (Rounds, error) {
	if r.Engine == nil {
		return Rounds{}, errors.New("maintenance: a Trimmer needs an Engine")
	}
	if err := trimmerBounds.Check(&r); err != nil {
		return Rounds{}, err
	}
	trim := func(ctx context.Context, _ string, limit int) (n int, next string, err error) {
		if n, err = r.Engine.Operator().Trim(ctx, r.Age, limit); n == limit {
			next = "the oldest that are left"
		}
		return n, next, err
	}
	return Rounds{cmp.Or(r.Every, time.Hour), cmp.Or(r.Batch, defaultTrimBatch), maxTrimBatch, trim}, nil
}
