package bulk

import (
	"context"
	"errors"
	"slices"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/walk"
	"github.com/stet-dev/stet/reconcile"
)

// one changes one record, unless this job has done so before.
func (r *run) one(ctx context.Context, t *target) (fate, error) {
	h, err := r.act(ctx, t)
	switch {
	case err == nil, errors.Is(err, stet.ErrKnown):
		return changed, nil
	case errors.Is(err, reconcile.ErrNotKnown), errors.Is(err, errUnproven), errors.Is(err, stet.ErrKeptLonger):
		return left, err
	case errors.Is(err, stet.ErrNotFound), errors.Is(err, errMoved):
		switch mine, err := r.mine(ctx, t); {
		case err != nil:
			return pending, err
		case mine:
			return changed, nil
		}
		return left, errMoved
	case errors.Is(err, stet.ErrState) && h.State != 0 && h.State != t.State:
		return left, errMoved
	case causeOf(err).err != nil: // it is about the record: another try would return the same
		return refused, err
	}
	return pending, err
}

// act does to one record what is done to a single one. The head is the record's where it was not
// changed, as far as that is known. What was read decides, so that it is read again where it was
// written meanwhile.
func (r *run) act(ctx context.Context, t *target) (h stet.Head, err error) {
	for range passes {
		have, err := r.e.Get(ctx, t.id())
		switch {
		case err != nil:
			return h, err
		case have.Basis() != t.Basis:
			return have.Head, errMoved
		}
		if h, err = r.do(ctx, &have); !errors.Is(err, stet.ErrStale) {
			return h, err
		}
	}
	return h, errMoved
}

// do changes a record as it was read.
func (r *run) do(ctx context.Context, have *stet.Record) (stet.Head, error) {
	o, op := &r.Order, r.e.Operator()
	switch o.Action {
	case Delete:
		return stet.Head{}, op.Purge(ctx, have.ID, have.Version, o.Note)
	case Extend:
		return op.Extend(ctx, have.ID, have.Version, o.Retain, o.Note)
	case Hand:
		return op.Hand(ctx, have.ID, have.Version, o.To, o.Note)
	case Release:
		ruling := (reconcile.Plan{Settle: o.Settle}).Release(&have.Head)
		if ruling.May() && !ruling.Many() && !o.Now && !o.Override {
			return have.Head, errUnproven
		}
		of := stet.Execution{Fence: have.Fence(), Version: have.Version}
		res := stet.Resolution{Settle: o.Settle, Now: o.Now, Override: o.Override}
		return op.Resolve(ctx, have.ID, of, res, o.Note)
	case Resolve:
		if have.State != stet.Unknown {
			return have.Head, errMoved
		}
		return reconcile.Adopt(ctx, r.e, have, o.Note)
	case Snooze:
		in := o.Until.Sub(have.AsOf)
		if in <= 0 {
			return have.Head, errPast
		}
		return op.Snooze(ctx, have.ID, have.Version, in, o.Note)
	case Probe:
		return r.ask(ctx, &have.Head)
	}
	panic("bulk: an action that decode does not let pass: " + string(o.Action))
}

// ask asks about a record. Who takes the job over may ask again, which changes nothing.
func (r *run) ask(ctx context.Context, h *stet.Head) (stet.Head, error) {
	asks := r.j.asks.Load()
	switch {
	case asks == nil:
		return *h, errUnable
	case h.State != stet.Unknown:
		return *h, errMoved
	}
	a, err := asks.Ask(ctx, h, r.Order.Note)
	if err != nil && ctx.Err() != nil { // it was interrupted, and is asked again
		err = ctx.Err()
	}
	return a.Head, err
}

// mine reports whether this job has changed the record before, which only the history can tell.
func (r *run) mine(ctx context.Context, t *target) (bool, error) {
	if !r.again {
		return false, nil
	}
	for changes, err := range walk.Pages(func(after string) ([]stet.Change, string, error) {
		return r.e.Operator().History(ctx, stet.HistoryQuery{ID: t.id(), Limit: stet.MaxLimit, After: after})
	}) {
		switch {
		case errors.Is(err, stet.ErrUnsupported): // it existed when the page was stored
			return r.Order.Action == Delete, nil
		case err != nil:
			return false, err
		case slices.ContainsFunc(changes, func(c stet.Change) bool { return c.Note.Notice == r.Order.Note.Notice }):
			return true, nil
		}
	}
	return false, nil
}
