package stet_test

import (
	"context"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// lagging is a store whose index says that everything is due.
type lagging struct{ *memstore.Store }

func (s lagging) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, _, err := s.List(ctx, stet.Query{States: q.States})
	return heads, "", err
}

// An index that lags behind its records ends no life: what a record says of itself counts.
func TestAnIndexThatLagsEndsNoLife(t *testing.T) { // I10
	s := lagging{memstore.New(memstore.Config{})}
	h := &house{t: t}
	var err error
	if h.Engine, err = stet.New(s, stet.Config{}); err != nil {
		t.Fatal(err)
	}
	h.settle(h.begin(request("done"), stet.Execute).Claim)
	running := h.begin(request("runs"), stet.Execute).Claim
	swept, _, err := h.Operator().Sweep(t.Context(), "", 0)
	reaped, _, err2 := h.Operator().Reap(t.Context(), "", 0)
	if swept != 0 || reaped != 0 || err != nil || err2 != nil {
		t.Errorf("%d swept, %d reaped, %v, %v", swept, reaped, err, err2)
	}
	h.begin(request("done"), stet.Replay)
	if err := running.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err != nil {
		t.Error(err)
	}
	if n, err := h.Operator().Count(t.Context(), stet.Query{}); n != 2 || err != nil {
		t.Errorf("%d records are left, %v", n, err)
	}
}
