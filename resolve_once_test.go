package stet_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/store/memstore"
)

// deaf is a store whose answer to the first change by a person is lost, after which another person
// acts.
type deaf struct {
	stet.Store
	meanwhile func()
}

func (d *deaf) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	got, err := d.Store.Replace(ctx, prev, h, b)
	if act := d.meanwhile; act != nil && h.Note != nil {
		d.meanwhile = nil
		act()
		return stet.Head{}, errors.New("the answer was lost")
	}
	return got, err
}

// A decision about one attempt is made once. Where its answer was lost, and another attempt has
// become unknown before it was sent again, that one is not freed as well: random histories against
// a linear key found two frees by one call.
func TestADecisionIsMadeOnce(t *testing.T) { // A01, I1
	base := memstore.New(memstore.Config{})
	others, err := stet.New(base, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	id := stet.ID{Scope: "s", Key: "k"}
	doubt := func() {
		d, err := others.Begin(t.Context(), stet.Request{ID: id})
		if err != nil || d.Verdict != stet.Execute {
			t.Fatal(d.Verdict, err)
		}
		d.Claim.Unknown("lost")
		if err := d.Claim.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
	}
	doubt()
	e, err := stet.New(&deaf{base, doubt}, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	free := stet.Resolution{Override: true} // whatever the record says of a handler
	if _, err := e.Operator().Resolve(t.Context(), id, execution.Of(t.Context(), e, id), free, stet.Note{Who: "w", Why: "y"}); !errors.Is(err, stet.ErrStale) {
		t.Errorf("%v, want ErrStale", err)
	}
	if r, err := e.Get(t.Context(), id); err != nil || r.State != stet.Unknown || r.Attempt != 2 {
		t.Errorf("%s at attempt %d, %v", r.State, r.Attempt, err)
	}
}
