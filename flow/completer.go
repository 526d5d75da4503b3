package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
)

// Resumer is any [Flow], whatever its state.
type Resumer interface {
	Resume(ctx context.Context, id stet.ID) (stet.Response, error)
}

// Completer finishes what clients have abandoned: runs that crashed or were suspended go on at their recovery points without a
// retry. Any number of them may run on one store: each record is taken by one, by compare-and-set.
type Completer struct {
	Engine  *stet.Engine
	Flows   []Resumer
	Every   time.Duration // between two rounds; default [DefaultEvery]
	Batch   int           // records per store call, at most [stet.MaxLimit]; default [stet.DefaultLimit]
	Workers int           // flows that run at a time; default [DefaultWorkers]
}

// Defaults of [Completer].
const (
	DefaultEvery   = 5 * time.Second
	DefaultWorkers = 4
)

// Run completes until ctx ends, and then returns nil, once the flows that run have stopped at a recovery point; any other return
// is a setting that cannot be used. Errors of the store end a round, never the loop.
func (c Completer) Run(ctx context.Context) error {
	switch {
	case c.Engine == nil || len(c.Flows) == 0:
		return errors.New("flow: a Completer needs an Engine and Flows")
	case c.Every < 0 || c.Workers < 0:
		return errors.New("flow: Every and Workers cannot be negative")
	case c.Batch < 0 || c.Batch > stet.MaxLimit:
		return fmt.Errorf("flow: Batch is %d; at most %d records are listed at a time", c.Batch, stet.MaxLimit)
	}
	every := cmp.Or(c.Every, DefaultEvery)
	for rest(ctx, every-every/10+rand.N(every/5+1)) {
		_, _ = c.Round(ctx) // the engine's observer has seen its errors
	}
	return nil
}

// Round goes on with what is abandoned now, and returns how many records got an answer. Flows that end otherwise have left that
// in their records.
func (c Completer) Round(ctx context.Context) (int, error) {
	var answered atomic.Int64
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, cmp.Or(c.Workers, DefaultWorkers))
	for after := ""; ; {
		heads, next, err := c.Engine.Operator().Abandoned(ctx, after, c.Batch)
		for i := range heads {
			if free <- struct{}{}; ctx.Err() != nil {
				break
			}
			running.Go(func() {
				defer func() { <-free }()
				if c.resume(ctx, heads[i].ID) == nil {
					answered.Add(1)
				}
			})
		}
		if after = next; next == "" || ctx.Err() != nil {
			running.Wait()
			return int(answered.Load()), cmp.Or(err, ctx.Err())
		}
	}
}

// resume lets the flow that the record belongs to go on with it.
func (c Completer) resume(ctx context.Context, id stet.ID) (err error) {
	defer func() {
		if p := recover(); p != nil { // the flow has stated what it means; one bad record must not end all the others
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
