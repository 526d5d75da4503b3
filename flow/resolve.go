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
	// Version, if not 0, is the one the finding rests on: where the record has another by now,
	// nothing is changed.
	Version stet.Version
}

// errNoCall is returned for a record that was not left in a foreign phase: there is no call in
// doubt.
var errNoCall = fmt.Errorf("%w: it was not left in a foreign phase", stet.ErrState)

// Resolve ends what is unknown about one phase, and lets the flow go on from there: with the
// client's next request, or at once by a [Completer]. (To answer the whole request instead, without
// the phases that are left, use [stet.Operator.Resolve].) The note's Who and Why are required, and
// kept in the history with its Evidence. It is [stet.ErrState] where the record is not unknown or
// was not left in a foreign phase,
// [stet.ErrStale] where it was changed meanwhile, [stet.ErrContradicted] where the handler
// left an answer to the whole request too late, [stet.ErrAttended] where the call is said not to be
// made while the handler has not returned, and [ErrOtherFlow] or [ErrRelease] where this flow
// cannot; nothing is changed then.
func (f *Flow[S]) Resolve(ctx context.Context, id stet.ID, found Evidence[S], n stet.Note) error {
	d, err := f.inDoubt(ctx, id, found.Version, "resolve")
	if err != nil {
		return err
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
	d, err := f.inDoubt(ctx, h.ID, h.Version, "reconcile")
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
}

// inDoubt reads the record for a verb. version is what it has to have, or 0.
func (f *Flow[S]) inDoubt(ctx context.Context, id stet.ID, version stet.Version, verb string) (d doubt[S], err error) {
	d.have, err = f.cfg.Engine.Get(ctx, id)
	switch {
	case err != nil:
		return d, fmt.Errorf("flow: %s: %w", verb, err)
	case version != 0 && version != d.have.Version:
		return d, fmt.Errorf("flow: %s: %w", verb, stet.ErrStale)
	case !d.have.InDoubt():
		return d, fmt.Errorf("flow: resolve: %w: it is %s, not unknown", stet.ErrState, d.have.State)
	}
	var p progress
	if d.state, p, err = f.decode(d.have.Body); err != nil {
		return d, err
	}
	d.points = p.since(&d.have.Head)
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
	if found.Made {
		point, id = f.point(f.points[point]+1), found.DownstreamID
		d.points = append(d.points, Point{point, d.have.AsOf})
		if found.Learn != nil {
			if err := found.Learn(&d.state); err != nil {
				return fmt.Errorf("flow: resolve: %w", err)
			}
		}
	}
	next, err := f.step(&d.have.Head, point, id, &d.state, progress{NotSent: d.have.Attempt, Points: d.points})
	if err != nil {
		return err
	}
	if _, err = f.cfg.Engine.Operator().Reopen(ctx, d.have.ID, d.have.Version, next, n); err != nil {
		return fmt.Errorf("flow: resolve: %w", err)
	}
	return nil
}
