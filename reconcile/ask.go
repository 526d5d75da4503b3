package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
)

// ErrNoAnswer is returned when a [Resolver] could not tell: what it asks did not answer, or not as
// it should.
var ErrNoAnswer = errors.New("reconcile: the probe got no answer")

// Asked is what came of asking now.
type Asked struct {
	Finding Finding
	Answer  Answer    // the same as it is kept with a record that is still unknown
	Ended   bool      // the record is not unknown any more
	Head    stet.Head // the record as it is now
}

// Ask asks about one record now, for an operator: n's Who, Why and Notice. The record is unknown,
// due or not; a dead letter; or a run whose lease is over. A finding ends it by the same rules as
// in [Reconciler.Run]. The question is not counted as a probe and changes no plan: a dead letter
// about which nothing is found stays one. The history has it, with its [Answer]. h is the record as
// the caller has read it; if more of it has changed by the time of the answer than who looks at it,
// nothing is changed. The errors are [stet.ErrState], [ErrNoAnswer], those of
// [stet.Operator.Resolve], and that of a setting that cannot be used.
func (r Reconciler) Ask(ctx context.Context, h *stet.Head, n stet.Note) (Asked, error) {
	r, err := r.filled()
	if err != nil {
		return Asked{}, err
	}
	if !h.InDoubt() {
		return Asked{Head: *h}, fmt.Errorf("reconcile: %w: it is %s, not unknown", stet.ErrState, h.State)
	}
	r.tell(h, "scheduled")
	a, err := r.question(ctx, h, n)
	if a.Ended {
		r.tell(h, "resolved")
		return a, err
	}
	if a.Answer.Found == Silent {
		r.Engine.Observe(stet.Event{Kind: stet.ProbeFailed, ID: h.ID, Route: h.Route, TraceID: h.TraceID, Attempt: h.Attempt, Err: err})
		err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	left := r.leave(ctx, h, a.Answer, n.Who, n.Why)
	return a, cmp.Or(err, left) // the trail has to say that it was asked
}
