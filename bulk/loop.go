package bulk

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stet-dev/stet"
)

// Every is how often [Jobs.Run] looks for jobs that nobody works on.
const Every = 5 * time.Second

// Run works on jobs, one at a time, until ctx ends, and then returns nil: on those that were started with j, and on those whose
// process has died or was stopped. It leaves the job it works on at a recovery point. Errors of the store never end it.
func (j *Jobs) Run(ctx context.Context) error {
	for {
		j.round(ctx)
		t := time.NewTimer(Every - Every/10 + rand.N(Every/5))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-j.wake:
			t.Stop()
		case <-t.C:
		}
	}
}

// round works on what is abandoned now. The engine's observer has seen its errors.
func (j *Jobs) round(ctx context.Context) {
	for after := ""; ctx.Err() == nil; {
		heads, next, err := j.engine.Operator().Abandoned(ctx, after, stet.MaxLimit)
		if err != nil {
			return
		}
		for i := range heads {
			if heads[i].Scope == stet.OwnScope && ctx.Err() == nil {
				_ = j.Work(ctx, string(heads[i].Key)) // somebody else may have been faster
			}
		}
		if after = next; next == "" {
			return
		}
	}
}
