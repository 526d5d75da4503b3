//go:build !race

package ability_test

import (
	"context"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

// nothing is a store that allocates nothing.
type nothing struct{ stet.Store }

func (nothing) Get(context.Context, stet.ID) (stet.Record, error) {
	return stet.Record{}, stet.ErrNotFound
}
func (nothing) Create(_ context.Context, r stet.Record) (stet.Record, error) {
	return r, nil
}
func (nothing) Replace(_ context.Context, _ stet.Version, h stet.Head, _ *stet.Body) (stet.Head, error) {
	return h, nil
}

// Wrapping costs no allocation where requests wait for it. The calls are pooled; the race detector
// makes pools forget at random.
func TestAroundAllocatesNothing(t *testing.T) {
	wrapped := ability.Wrap(nothing{}, func(ctx context.Context, c *ability.Call) error { return c.Do(ctx) }, false)
	ctx, r, b := t.Context(), running(), &stet.Body{}
	if n := testing.AllocsPerRun(1000, func() {
		_, _ = wrapped.Create(ctx, r)
		_, _ = wrapped.Get(ctx, id)
		_, _ = wrapped.Replace(ctx, 1, r.Head, b)
	}); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
