package linear

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// slow is a store that may be too busy to answer in time.
type slow struct {
	stet.Store
	gets, replaces atomic.Bool // are not answered
}

func (s *slow) Get(ctx context.Context, id stet.ID) (none stet.Record, err error) {
	if s.gets.Load() {
		<-ctx.Done()
		return none, ctx.Err()
	}
	return s.Store.Get(ctx, id)
}

func (s *slow) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (none stet.Head, err error) {
	if s.replaces.Load() {
		<-ctx.Done()
		return none, ctx.Err()
	}
	return s.Store.Replace(ctx, prev, h, b)
}

// A holder's own engine has written its doubt, and is in the way of its result. Where the store has
// then no time to say what the record is now, the result is fenced, and stored later (W5): no
// message was lost, and yet the model must not take it for one that is lost.
func TestAFencedResultIsStoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, h, s := t.Context(), newHistory(t, 0), &slow{Store: memstore.New(memstore.Config{})}
		all := h.clients(s, 0, 50*time.Millisecond)
		c := all[0]
		c.begin(ctx, 0)
		s.replaces.Store(true)
		c.settle(ctx, 0, ending{as: unknown})
		s.replaces.Store(false)
		for n, _ := c.e.Unstored(); n > 0; n, _ = c.e.Unstored() {
			time.Sleep(time.Millisecond)
		}
		s.gets.Store(true)
		c.settle(ctx, 0, ending{as: done})
		s.gets.Store(false)
		ops := h.end(all)
		if r, err := c.e.Get(ctx, h.id(0)); err != nil || r.State != stet.Completed {
			t.Errorf("it is %s: %v", r.State, err)
		}
		if result := porcupine.CheckOperationsTimeout(model, ops, 0); result != porcupine.Ok {
			t.Errorf("the history is %s\n%s", result, told(ops, 0))
		}
	})
}
