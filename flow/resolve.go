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
	have, err := f.cfg.Engine.Get(ctx, id)
	if err != nil {
		return fmt.Errorf("flow: resolve: %w", err)
	}
	if found.Version != 0 && found.Version != have.Version {
		return fmt.Errorf("flow: resolve: %w", stet.ErrStale)
	}
	d, err := f.inDoubt(&have)
	if err != nil {
		return err
	}
	return f.resolve(ctx, d, found, n)
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
// The error is Lookup's, and then nothing is known, [stet.ErrFresh] where it found nothing too
// early for that to be a proof (see [Phase.Settle]), or one of those of [Flow.Resolve].
func (f *Flow[S]) Reconcile(ctx context.Context, h stet.Head, who string) (bool, error) {
	have, err := f.cfg.Engine.Get(ctx, h.ID)
	switch {
	case err != nil:
		return false, fmt.Errorf("flow: reconcile: %w", err)
	case have.Version != h.Version:
		return false, fmt.Errorf("flow: reconcile: %w", stet.ErrStale)
	}
	d, err := f.inDoubt(&have)
	switch {
	case errors.Is(err, errNoCall), errors.Is(err, ErrOtherFlow):
		return false, nil
	case err != nil:
		return false, err
	case d.phase.lookup == nil:
		return false, nil
	}
	learned, _, err := f.decode(have.Body)
	if err != nil {
		return false, err
	}
	made, err := d.phase.lookup(ctx, downstream(&have.Head, have.Point), &learned)
	switch {
	case err != nil:
		return false, fmt.Errorf("flow: reconcile: %w", err)
	case !made && !d.phase.proves(have.Idle()):
		return false, fmt.Errorf("flow: reconcile: %w", errFresh)
	}
	found, why := Evidence[S]{Made: made}, "the phase's call was not found, and will not be made any more"
	if made {
		why, found.Learn = "the phase's call was found", func(s *S) error { *s = learned; return nil }
	}
	err = f.resolve(ctx, d, found, stet.Note{Who: who, Why: why, Evidence: "asked about the call of phase " + d.phase.name})
	return err == nil, err
}

// doubt is a record with a foreign phase that may have had its effect.
type doubt[S any] struct {
	have   *stet.Record
	phase  *Phase[S]
	index  int
	state  S
	points []Point
}

func (f *Flow[S]) inDoubt(have *stet.Record) (d doubt[S], err error) {
	d.have = have
	if have.State != stet.Unknown && (have.State != stet.Running || !have.Over()) {
		return d, fmt.Errorf("flow: resolve: %w: it is %s, not unknown", stet.ErrState, have.State)
	}
	var p progress
	if d.state, p, err = f.decode(have.Body); err != nil {
		return d, err
	}
	d.points = p.since(&have.Head)
	if d.index, err = f.at(have.Point); err != nil {
		return d, err
	}
	if d.index == len(f.phases) || f.phases[d.index].foreign == nil {
		return d, fmt.Errorf("flow: resolve: %w: it is at %q", errNoCall, have.Point)
	}
	d.phase = &f.phases[d.index]
	return d, nil
}

// resolve leaves the record as a run does that was suspended with proof.
func (f *Flow[S]) resolve(ctx context.Context, d doubt[S], found Evidence[S], n stet.Note) error {
	switch {
	case d.have.Response != nil: // the whole flow came to an end, too late: that is the answer, see stet.Operator.Resolve
		return fmt.Errorf("flow: resolve: %w", stet.ErrContradicted)
	case !found.Made && d.have.Attended():
		return fmt.Errorf("flow: resolve: %w", stet.ErrAttended)
	}
	next := stet.Step{Point: d.have.Point}
	if found.Made {
		next.Point, next.DownstreamID = f.point(d.index+1), found.DownstreamID
		d.points = append(d.points, Point{next.Point, d.have.AsOf})
		if found.Learn != nil {
			if err := found.Learn(&d.state); err != nil {
				return fmt.Errorf("flow: resolve: %w", err)
			}
		}
	}
	if i, _ := f.at(next.Point); i < len(f.phases) && f.phases[i].foreign != nil {
		next.DownstreamKey = downstream(&d.have.Head, next.Point)
	}
	var err error
	if next.Progress, err = f.encode(&d.state, progress{NotSent: d.have.Attempt, Points: d.points}); err != nil {
		return err
	}
	if _, err = f.cfg.Engine.Operator().Reopen(ctx, d.have.ID, d.have.Version, next, n); err != nil {
		return fmt.Errorf("flow: resolve: %w", err)
	}
	return nil
}
