package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
)

// ErrNoAnswer is returned when a [Resolver] could not tell: what it asks did not answer, or not as it should.
var ErrNoAnswer = errors.New("reconcile: the probe got no answer")

// Asked is what came of asking now.
type Asked struct {
	Finding Finding
	Ended   bool      // the record is not unknown any more
	Head    stet.Head // the record as it is now
}

// Ask asks about one record now, for somebody who says why: an unknown one, whether or not it is due, a dead letter, or a run whose
// lease is over. What is found ends the record by the same rules as in [Reconciler.Run]. Nothing is counted or planned anew: a dead
// letter of which nothing was found out stays one. h is the record as the caller has read it; where it has another version by
// the time of the answer, nothing is changed. The errors are [stet.ErrState], [ErrNoAnswer], those of [stet.Operator.Resolve], and
// that of a setting that cannot be used.
func (r Reconciler) Ask(ctx context.Context, h *stet.Head, who, why string) (Asked, error) {
	r, err := r.filled()
	if err != nil {
		return Asked{}, err
	}
	if lapsed := h.State == stet.Running && h.Over(); h.State != stet.Unknown && !lapsed {
		return Asked{Head: *h}, fmt.Errorf("reconcile: %w: it is %s, not unknown", stet.ErrState, h.State)
	}
	r.tell(h, "scheduled")
	asking, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	f, err := r.ask(asking, *h)
	if err != nil {
		r.Engine.Observe(stet.Event{Kind: stet.ProbeFailed, ID: h.ID, Route: h.Route, TraceID: h.TraceID, Attempt: h.Attempt, Err: err})
		return Asked{Head: *h}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	a := Asked{Finding: f}
	if a.Head, a.Ended, err = r.conclude(ctx, h, &f, who, why); a.Ended {
		r.tell(h, "resolved")
	}
	return a, err
}
