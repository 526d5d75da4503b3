package linear

import (
	"context"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// between is a store on which something happens between the first time that a record is read and
// what its reader does next.
type between struct {
	stet.Store
	then func() // once
}

func (b *between) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	r, err := b.Store.Get(ctx, id)
	if then := b.then; then != nil {
		b.then = nil
		then()
	}
	return r, err
}

// A person reads a record, and what they say of its execution is heard when the next has begun. It
// changes nothing of the next. That the earlier one had its effect is told once the record has no
// holder: a key that is free by then becomes unknown. The model has an order for each of these.
func TestAStatementIsOvertakenByABegin(t *testing.T) { // K01
	ctx := t.Context()
	freed := func(c *client) { // as its handler says that nothing happened
		c.begin(ctx, 0)
		c.settle(ctx, 0, ending{as: open})
	}
	for name, test := range map[string]struct {
		says  input
		first func(c *client) // what is read
		then  func(c *client) // before it is said
		after func(c *client) // with the run of the next execution
		ends  stet.State      // of the record, and
		cause string
	}{
		"it happened, and the next did not": {
			says: input{as: done}, first: freed,
			then:  func(c *client) { c.begin(ctx, 0) },
			after: func(c *client) { c.settle(ctx, 0, ending{as: unknown}); c.settle(ctx, 0, ending{as: open}) },
			ends:  stet.Unknown, cause: stet.CauseDoubleEffect,
		},
		"it happened, and the next as well": {
			says: input{as: done}, first: freed,
			then:  func(c *client) { c.begin(ctx, 0) },
			after: func(c *client) { c.settle(ctx, 0, ending{as: done}) },
			ends:  stet.Completed, cause: stet.CauseDoubleEffect,
		},
		"it did not happen, and the next did not": {
			says: input{as: open}, first: freed,
			then:  func(c *client) { c.begin(ctx, 0) },
			after: func(c *client) { c.settle(ctx, 0, ending{as: open}) },
			ends:  stet.Retryable,
		},
		"it did not happen, says a second person": {
			says: input{as: open, works: true},
			first: func(c *client) {
				c.begin(ctx, 0)
				c.settle(ctx, 0, ending{as: unknown, works: true})
			},
			then: func(c *client) {
				c.resolve(ctx, input{as: open, works: true})
				c.begin(ctx, 0)
			},
			after: func(c *client) {
				c.settle(ctx, 0, ending{as: open}) // of the first
				c.settle(ctx, 0, ending{as: open})
			},
			ends: stet.Retryable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t, 0)
			all := h.clients(memstore.New(memstore.Config{}), 0, time.Second)
			holder, person := all[0], all[1]
			test.first(holder)
			person.wire.Store = &between{person.wire.Store, func() { test.then(holder) }}
			person.resolve(ctx, test.says)
			test.after(holder)
			ops := h.end(all)
			if r, err := holder.e.Get(ctx, h.id(0)); err != nil || r.State != test.ends || test.cause != "" && r.Cause != test.cause {
				t.Errorf("it is %s, %q: %v; want %s, %q", r.State, r.Cause, err, test.ends, test.cause)
			}
			if result := porcupine.CheckOperationsTimeout(model, ops, limit); result != porcupine.Ok {
				t.Errorf("the history is %s\n%s", result, told(ops, 0))
			}
		})
	}
}
