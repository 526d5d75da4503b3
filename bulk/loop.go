package bulk

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/walk"
)

// every is the time between two searches for jobs that no process works on.
const every = 5 * time.Second

// Run works on jobs, one at a time, until ctx ends, and then returns nil: on those that were
// started with j, and on those whose process has died or was stopped. It leaves the job it works on
// at a recovery point. Errors of the store never end it.
func (j *Jobs) Run(ctx context.Context) error {
	for {
		j.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-j.wake:
		case <-time.After(rest.Spread(every)):
		}
	}
}

// round works on the jobs that no process works on. The engine's observer is told of errors.
func (j *Jobs) round(ctx context.Context) {
	abandoned := func(after string) ([]stet.Head, string, error) {
		return j.engine.Operator().Abandoned(ctx, after, stet.MaxLimit)
	}
	for heads := range walk.Pages(abandoned) {
		for i := range heads {
			if heads[i].Scope == stet.OwnScope && ctx.Err() == nil {
				_ = j.Work(ctx, string(heads[i].Key)) // another process may be working on it
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}
