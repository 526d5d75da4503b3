package stet_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-dev/stet"
)

func TestAbandonedRunsAreUnknownAtOnce(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		var held [3]context.Context
		var told error
		for i, key := range []string{"a", "b", "c"} {
			c := h.begin(request(key), stet.Execute).Claim
			var lost stet.Lost
			if i == 2 {
				lost = lostFunc(func(cause error) { told = cause })
			}
			held[i] = c.Hold(h.t.Context(), lost)
			if i == 0 {
				h.settle(c) // it is over, and no longer held
			}
		}
		after(1)
		if n := h.Abandon(h.t.Context()); n != 2 {
			h.t.Errorf("%d were abandoned", n)
		}
		if h.record("a").State != stet.Completed || h.record("b").State != stet.Unknown || h.record("b").Cause != stet.CauseAbandoned {
			h.t.Errorf("%v, %v", h.record("a").State, h.record("b").State)
		}
		if !errors.Is(context.Cause(held[1]), stet.ErrAbandoned) || !errors.Is(told, stet.ErrAbandoned) {
			h.t.Errorf("%v, %v", context.Cause(held[1]), told)
		}
		if n := h.Abandon(h.t.Context()); n != 0 {
			h.t.Errorf("%d were abandoned twice", n)
		}
	})
}
