package flow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/foreign"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/walk"
)

// Resumer is a [Flow] of any type of state.
type Resumer interface {
	Resume(ctx context.Context, id stet.ID) (stet.Response, error)
}

// Completer finishes what clients have abandoned: runs that crashed or were suspended go on at
// their recovery points, although no client retries. Any number of completers may run on one store:
// each record is taken by one, by compare-and-set. A run that does not return within a second after
// its execution time is left alone: see [stet.ErrHangs].
type Completer struct {
	Engine  *stet.Engine  // the engine of the flows; required
	Flows   []Resumer     // all flows whose runs are to be finished; at least one
	Every   time.Duration // from one round to the next; 0 means 5 s
	Batch   int           // records per store call, at most [stet.MaxLimit]; 0 means [stet.DefaultLimit]
	Workers int           // flows that run at a time; 0 means 4
}

var completerBounds = bounds.For[Completer](
	bounds.Duration("Every", bounds.Short, bounds.Long).OrDefault(),
	bounds.Number("Batch", 1, stet.MaxLimit).OrDefault(),
	bounds.Number("Workers", 1, bounds.Many).OrDefault(),
)

const defaultEvery = 5 * time.Second

// Run completes runs until ctx ends. Then it waits until the flows that run have stopped at a
// recovery point, and returns nil. Any other error is that of a setting that cannot be used: errors
// of the store end a round, never the loop.
func (c Completer) Run(ctx context.Context) error {
	if c.Engine == nil || len(c.Flows) == 0 {
		return errors.New("flow: a Completer needs an Engine and Flows")
	}
	if err := completerBounds.Check(&c); err != nil {
		return err
	}
	every, others := cmp.Or(c.Every, defaultEvery), others{}
	for rest.For(ctx, rest.Spread(every)) {
		_, _ = c.round(ctx, &others) // the engine's observer has seen its errors
	}
	return nil
}

// Round goes on with what is abandoned now, and returns how many records got an answer. What became
// of the others is in their records. Of records that belong to no flow of the Completer it reads
// the head alone, as far as that tells.
func (c Completer) Round(ctx context.Context) (int, error) { return c.round(ctx, &others{}) }

func (c Completer) round(ctx context.Context, others *others) (int, error) {
	defer others.turn()
	var answered atomic.Int64
	workers := walk.NewWorkers(cmp.Or(c.Workers, 4))
	abandoned := func(after string) ([]stet.Head, string, error) {
		return c.Engine.Operator().Abandoned(ctx, stet.Query{After: after, Limit: c.Batch})
	}
	var failed error
	for heads, err := range walk.Pages(abandoned) {
		failed = err
		for i := range heads {
			h := &heads[i]
			if !c.mayKnow(h) || others.have(h) {
				continue
			}
			workers.Go(ctx, func() {
				switch err := c.resume(ctx, h.ID); {
				case err == nil:
					answered.Add(1)
				case errors.Is(err, ErrOtherFlow), errors.Is(err, ErrRelease):
					others.add(h)
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

// pointed is what knows its recovery points: each [Flow].
type pointed interface {
	at(point string) (int, error)
}

var _ pointed = (*Flow[struct{}])(nil)

// mayKnow reports whether one of the flows may be the record's, as far as its head tells: a Resumer
// that is no [Flow] may know every point.
func (c Completer) mayKnow(h *stet.Head) bool {
	return h.Scope != stet.OwnScope && slices.ContainsFunc(c.Flows, func(r Resumer) bool {
		f, ok := r.(pointed)
		if !ok {
			return true
		}
		_, err := f.at(h.Point)
		return err == nil
	})
}

// others are records that none of a Completer's flows can go on with, at the version at which that
// was found out: only a whole record names its flow, and thousands of another flow's, which wait
// for another program, are not read in each round. What a round does not meet is forgotten.
type others struct {
	mu       sync.Mutex
	was, now map[stet.ID]stet.Version
}

// maxOthers bounds how many are remembered. The records beyond are read again.
const maxOthers = 100_000

// have reports whether h is one of them.
func (o *others) have(h *stet.Head) bool {
	if o.was[h.ID] != h.Version {
		return false
	}
	o.add(h)
	return true
}

func (o *others) add(h *stet.Head) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now == nil {
		o.now = map[stet.ID]stet.Version{}
	}
	if len(o.now) < maxOthers {
		o.now[h.ID] = h.Version
	}
}

// turn ends a round.
func (o *others) turn() { o.was, o.now = o.now, nil }

// longestRun is how long a Completer waits for a run whose execution time has no limit. The run
// goes on after that.
const longestRun = time.Hour

// resume lets the flow that the record belongs to go on with it, and waits for as long as an
// execution may take. After a panic the flow has recorded the outcome.
func (c Completer) resume(ctx context.Context, id stet.ID) error {
	within := longestRun
	if limit := c.Engine.Policy().Execution; limit != stet.Never {
		within = limit + foreign.Grace // what heeds its context has ended by then
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), within) // what runs is not cut off when ctx ends
	defer cancel()
	_, err := foreign.Do(wait, c.Engine.Foreign(), foreign.About{Kind: "flow", Of: id},
		func(context.Context) (struct{}, error) { return struct{}{}, c.goOn(ctx, id) })
	return err
}

func (c Completer) goOn(ctx context.Context, id stet.ID) (err error) {
	for _, f := range c.Flows {
		if _, err = f.Resume(ctx, id); !errors.Is(err, ErrOtherFlow) {
			return err
		}
	}
	return err
}
