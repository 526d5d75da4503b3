package bulk

import (
	"errors"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/store/memstore"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	valid := func() Order {
		return Order{Action: Release, Query: stet.Query{Scope: "s"}, Note: stet.Note{Who: "ops", Why: "test"}, Expect: 1}
	}
	bounds.Refuses(t, orderBounds, valid, func(o Order) error {
		_, err := New(e).Start(t.Context(), o)
		why := orderBounds.Check(&o)
		if said, ok := errors.AsType[*OrderError](err); !ok || why == nil || said.Reason != why.Error() {
			return err
		}
		return why
	})
	o := valid()
	o.Query.OlderThan = -1
	if _, err := New(e).Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "Query.OlderThan is -1ns; it has to be from 0s to 876000h0m0s") {
		t.Errorf("an age that is none: %v", err)
	}
}
