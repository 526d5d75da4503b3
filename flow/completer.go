package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/walk"
)

// Resumer is a [Flow] of any type of state.
type Resumer interface {
	Resume(ctx context.Context, id stet.ID) (stet.Response, error)
}

// Completer finishes what clients have abandoned: runs that crashed or were suspended go on at
// their recovery points, although no client retries. Any number of completers may run on one store:
// each record is taken by one, by compare-and-set.
type Completer struct {
	Engine  *stet.Engine  // the engine of the flows; required
	Flows   []Resumer     // all flows whose runs are to be finished; at least one
	Every   time.Duration // from one round to the next; 0 means 5 s
	Batch   int           // records per store call, at most [stet.MaxLimit]; 0 means [stet.DefaultLimit]
	Workers int           // flows that run at a time; 0 means 4
}

const defaultEvery = 5 * time.Second

// Run completes runs until ctx ends. Then it waits until the flows that run have stopped at a
// recovery point, and returns nil. Any other error is that of a setting that cannot be used: errors
// of the store end a round, never the loop.
func (c Completer) Run(ctx context.Context) error {
	switch {
	case c.Engine == nil || len(c.Flows) == 0:
		return errors.New("flow: a Completer needs an Engine and Flows")
	case c.Every < 0 || c.Workers < 0:
		return errors.New("flow: Every and Workers cannot be negative")
	case c.Batch < 0 || c.Batch > stet.MaxLimit:
		return fmt.Errorf("flow: Batch is %d; at most %d records are listed at a time", c.Batch, stet.MaxLimit)
	}
	every := cmp.Or(c.Every, defaultEvery)
	for rest.For(ctx, rest.Spread(every)) {
		_, _ = c.Round(ctx) // the engine's observer has seen its errors
	}
	return nil
}

// Round goes on with what is abandoned now, and returns how many records got an answer. What became
// of the others is in their records.
func (c Completer) Round(ctx context.Context) (int, error) {
	var answered atomic.Int64
	workers := walk.NewWorkers(cmp.Or(c.Workers, 4))
	abandoned := func(after string) ([]stet.Head, string, error) {
		return c.Engine.Operator().Abandoned(ctx, after, c.Batch)
	}
	var failed error
	for heads, err := range walk.Pages(abandoned) {
		failed = err
		for i := range heads {
			workers.Go(ctx, func() {
				if c.resume(ctx, heads[i].ID) == nil {
					answered.Add(1)
				}
			})
		}
		if ctx.Err() != nil {
			break
		}
	}
	workers.Wait()
	return int(answered.Load()), cmp.Or(failed, ctx.Err())
}

// resume lets the flow that the record belongs to go on with it.
func (c Completer) resume(ctx context.Context, id stet.ID) (err error) {
	defer func() {
		if p := recover(); p != nil { // the flow has recorded the outcome; one bad record must not end the loop
			err = errors.New("flow: a phase panicked")
		}
	}()
	for _, f := range c.Flows {
		if _, err = f.Resume(ctx, id); !errors.Is(err, ErrOtherFlow) {
			return err
		}
	}
	return err
}
