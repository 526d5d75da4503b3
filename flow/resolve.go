package flow

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
)

// Evidence is what was found out about the call of the phase in which a run was left with an
// unknown outcome.
type Evidence[S any] struct {
	// Phase names the phase whose call it is about: the record's Point. Required. The record may
	// doubt the call of another phase by now.
	Phase string
	// Made: the call had its effect, and the flow goes on after the phase. Otherwise it had none,
	// and can have none any more: the flow goes on with the phase, and makes the call. That it left
	// no trace yet is not enough (I14).
	Made bool
	// Learn puts into the state what the phase would have, such as the provider's id; with Made
	// only. It may be nil.
	Learn func(s *S) error
	// DownstreamID, with Made, is the id the other system gave the effect, as [Call.Learned] notes
	// it.
	DownstreamID string
}

// ErrOtherPhase is returned for evidence about another phase than the one that the record was left
// in.
var ErrOtherPhase = errors.New("flow: the evidence is about another phase than the one in doubt")

var errUnnamedPhase = fmt.Errorf("%w: give the phase whose call it is about, as the record's point names it", stet.ErrUnnamed)

// errNoCall is returned for a record that was not left in a foreign phase: there is no call in
// doubt.
var errNoCall = fmt.Errorf("%w: it was not left in a foreign phase", stet.ErrState)

// Resolve ends what is unknown about one phase, and lets the flow go on from there: with the
// client's next request, or at once by a [Completer]. (To answer the whole request instead, without
// the phases that are left, use [stet.Operator.Resolve].) The note's Who and Why are required, and
// kept in the history with its Evidence.
//
//	found := flow.Evidence[Payment]{Phase: "charge", Made: true}
//	err := pay.Resolve(ctx, id, stet.Execution{Fence: fence}, found, note)
//
// The evidence names the execution that it is about, and the phase. With Made the phase's key
// suffices as the execution's name, since all executions of a life send the same one. The error is
// [stet.ErrUnnamed] where it names less, [stet.ErrOtherRun] or [ErrOtherPhase] where it names
// others than the record's, and [stet.ErrStale] where the record has another version than was named
// or was changed meanwhile.
//
// It is [stet.ErrState] where the record is not unknown or was not left in a foreign phase,
// [stet.ErrContradicted] where the handler left an answer to the whole request too late,
// [stet.ErrAttended] where the call is said not to be made while the handler has not returned, and
// [ErrOtherFlow] or [ErrRelease] where this flow cannot. Nothing is changed after an error.
func (f *Flow[S]) Resolve(ctx context.Context, id stet.ID, of stet.Execution, found Evidence[S], n stet.Note) error {
	if found.Phase == "" {
		return fmt.Errorf("flow: resolve: %w", errUnnamedPhase)
	}
	d, err := f.inDoubt(ctx, id, "resolve", func(h *stet.Head) error { return of.Names(h, found.Made) })
	if err != nil {
		return err
	}
	if i, known := f.points[found.Phase]; !known || i != f.points[d.have.Point] {
		return fmt.Errorf("flow: resolve: %w, which is %q", ErrOtherPhase, d.have.Point)
	}
	return f.resolve(ctx, &d, found, n)
}

// Reconcile asks the [Phase.Lookup] of the phase that a record was left in, and lets the flow go on
// with what it says. It reports false, and changes nothing, where the phase has none, or the record
// was not left in a foreign phase of this flow. It is what a resolver of package reconcile calls
// for the records of flows:
//
//	reconcile.Resolver(func(ctx context.Context, h stet.Head) (reconcile.Finding, error) {
//		if done, err := pay.Reconcile(ctx, h, "reconciler"); done || err != nil {
//			return reconcile.Finding{Effect: reconcile.GoesOn}, err
//		}
//		return reconcile.Finding{}, nil // ask some other way
//	})
//
// The error is Lookup's, and then nothing is known, [stet.ErrNotSettled] where it found nothing too
// early for that to be a proof (see [Phase.Settle]), or one of those of [Flow.Resolve].
func (f *Flow[S]) Reconcile(ctx context.Context, h stet.Head, who string) (bool, error) {
	if h.Version == 0 { // not read from a store, so that nothing may rest on it
		return false, fmt.Errorf("flow: reconcile: %w", stet.ErrStale)
	}
	of := stet.Execution{Version: h.Version}
	d, err := f.inDoubt(ctx, h.ID, "reconcile", func(now *stet.Head) error { return of.Names(now, true) })
	switch {
	case errors.Is(err, errNoCall), errors.Is(err, ErrOtherFlow):
		return false, nil
	case err != nil:
		return false, err
	case d.phase.lookup == nil:
		return false, nil
	}
	learned, _, err := f.decode(d.have.Body)
	if err != nil {
		return false, err
	}
	made, err := d.phase.lookup(ctx, downstream(&d.have.Head, d.have.Point), &learned)
	switch {
	case err != nil:
		return false, fmt.Errorf("flow: reconcile: %w", err)
	case !made && !d.phase.proves(d.have.Idle()):
		return false, fmt.Errorf("flow: reconcile: %w", errNotSettled)
	}
	found, why := Evidence[S]{Made: made}, "the phase's call was not found, and will not be made any more"
	if made {
		why, found.Learn = "the phase's call was found", func(s *S) error { *s = learned; return nil }
	}
	err = f.resolve(ctx, &d, found, stet.Note{Who: who, Why: why, Evidence: "asked about the call of phase " + d.phase.name})
	return err == nil, err
}

// doubt is a record with a foreign phase that may have had its effect.
type doubt[S any] struct {
	have   stet.Record
	phase  *Phase[S]
	state  S
	points []Point
	over   []bool // as of the record's point
}

// inDoubt reads the record for a verb. named says whether it is the one that is meant.
func (f *Flow[S]) inDoubt(ctx context.Context, id stet.ID, verb string, named func(*stet.Head) error) (d doubt[S], err error) {
	d.have, err = f.cfg.Engine.Get(ctx, id)
	if err == nil {
		err = named(&d.have.Head)
	}
	switch {
	case err != nil:
		return d, fmt.Errorf("flow: %s: %w", verb, err)
	case !d.have.InDoubt():
		return d, fmt.Errorf("flow: resolve: %w: it is %s, not unknown", stet.ErrState, d.have.State)
	}
	var p progress
	if d.state, p, err = f.decode(d.have.Body); err != nil {
		return d, err
	}
	d.points, d.over = p.since(&d.have.Head), f.over(d.have.Point, &p)
	if d.phase, err = f.calls(d.have.Point); err == nil && d.phase == nil {
		err = fmt.Errorf("flow: resolve: %w: it is at %q", errNoCall, d.have.Point)
	}
	return d, err
}

// resolve leaves the record as a run does that was suspended with proof.
func (f *Flow[S]) resolve(ctx context.Context, d *doubt[S], found Evidence[S], n stet.Note) error {
	switch {
	case d.have.Response != nil: // the whole flow came to an end, too late: that is the answer, see stet.Operator.Resolve
		return fmt.Errorf("flow: resolve: %w", stet.ErrContradicted)
	case !found.Made && d.have.Attended():
		return fmt.Errorf("flow: resolve: %w", stet.ErrAttended)
	}
	point, id := d.have.Point, ""
	d.over[f.points[point]] = true
	next := len(d.over)
	if found.Made {
		next = f.next(d.over)
		point, id = f.point(next), found.DownstreamID
		d.points = append(d.points, Point{point, d.have.AsOf})
		if found.Learn != nil {
			if err := found.Learn(&d.state); err != nil {
				return fmt.Errorf("flow: resolve: %w", err)
			}
		}
	}
	step, err := f.step(&d.have.Head, point, id, &d.state,
		progress{NotSent: d.have.Attempt, Points: d.points, Left: f.left(d.over, next)})
	if err != nil {
		return err
	}
	if _, err = f.cfg.Engine.Operator().Reopen(ctx, d.have.ID, stet.Execution{Version: d.have.Version}, step, n); err != nil {
		return fmt.Errorf("flow: resolve: %w", err)
	}
	return nil
}
