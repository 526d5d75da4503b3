package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
)

// run is one attempt at a flow.
type run[S any] struct {
	f *Flow[S]
	c *stet.Claim
	s S

	point     string    // the phase it is in, as the record names it
	fresh     bool      // the call of this phase cannot have been made
	idle      time.Time // if not fresh: since when it cannot have been made, by the store's clock
	points    []Point   // that runs of the record came to, the last is point
	next      []Point   // the same, once what is being written is stored
	origin    time.Time // when the record was created, by the clock of this process
	suspended bool
	lost      bool // the claim is not this run's any more, or may not be
	returned  bool
}

func (r *run[S]) run(ctx context.Context) (answer stet.Response, err error) {
	defer func() {
		if !r.returned {
			r.crashed(ctx)
		}
	}()
	answer, err = r.phases(ctx)
	r.returned = true
	return answer, err
}

func (r *run[S]) phases(ctx context.Context) (stet.Response, error) {
	i, err := r.start(ctx)
	if err != nil {
		return stet.Response{}, err
	}
	for ; i < len(r.f.phases); i++ {
		p := &r.f.phases[i]
		if ctx.Err() != nil {
			return stet.Response{}, r.suspend(ctx, context.Cause(ctx), r.fresh)
		}
		if p.local != nil {
			err = r.local(ctx, p, i+1)
		} else {
			err = r.foreign(ctx, p, i+1)
		}
		if no, ok := errors.AsType[*declined](err); ok && final(err) == errDeclined {
			return no.response, nil
		}
		if err != nil {
			return stet.Response{}, fmt.Errorf("flow: %s: %s: %w", r.f.cfg.Name, p.name, err)
		}
		r.point, r.fresh, r.points = r.f.point(i+1), true, r.next
	}
	return r.f.cfg.Answer(&r.s), nil
}

// start finds the phase to begin with.
func (r *run[S]) start(ctx context.Context) (int, error) {
	h := r.c.Head()
	r.origin = time.Now().Add(h.CreatedAt.Sub(h.UpdatedAt))
	if r.point = h.Point; r.point == "" {
		r.point, r.fresh = r.f.point(0), true
		err := r.commit(ctx, 0, "")
		r.points = r.next
		return 0, err
	}
	i, err := r.f.at(r.point)
	var p progress
	if err == nil {
		r.s, p, err = r.f.decode(r.c.Stored())
	}
	if err != nil { // left as it is, for a release that knows it
		return 0, r.giveUp(ctx, stet.Step{Point: h.Point, Progress: r.c.Stored().Progress}, r.backoff(), err)
	}
	r.points = p.since(&h)
	r.fresh = !r.c.TookOver() || p.NotSent == h.Attempt-1
	if r.idle = h.UpdatedAt; p.Idle != nil && p.Idle.By == h.Attempt-1 { // else the attempt before may have worked until now
		r.idle = p.Idle.Since
	}
	return i, nil
}

// step is what a run leaves behind that goes on at phase next.
func (r *run[S]) step(next int, s *S, id string) (stet.Step, error) {
	h, point := r.c.Head(), r.f.point(next)
	r.next = append(slices.Clip(r.points), Point{point, h.CreatedAt.Add(time.Since(r.origin)).Round(time.Microsecond)})
	return r.f.step(&h, point, id, s, progress{Points: r.next})
}

// commit stores that phase next is to come. Where the store gives no answer the same is left as the
// last word: it may land, and otherwise the phase before is the recovery point.
func (r *run[S]) commit(ctx context.Context, next int, id string) error {
	s, err := r.step(next, &r.s, id)
	if err != nil {
		return r.unknown(ctx, err)
	}
	if err := r.c.Step(ctx, s); err != nil {
		if r.lost = errors.Is(err, stet.ErrFenced); r.lost {
			return err
		}
		return r.giveUp(ctx, s, r.backoff(), err)
	}
	return nil
}

// suspend leaves the phase for later, with the state as it was when it began.
func (r *run[S]) suspend(ctx context.Context, cause error, notSent bool) error {
	var left progress
	if notSent {
		left.NotSent = r.c.Attempt()
	}
	return r.leave(ctx, cause, left, r.backoff())
}

// settle leaves the phase until it is a proof that its call was not found.
func (r *run[S]) settle(ctx context.Context, p *Phase[S], waited time.Duration) error {
	if p.settle == stet.Never {
		return r.unknown(ctx, errNotSettled)
	}
	left := progress{Idle: &idle{By: r.c.Attempt(), Since: r.idle}}
	return r.leave(ctx, errNotSettled, left, max(r.backoff(), p.settle-waited))
}

func (r *run[S]) leave(ctx context.Context, cause error, left progress, in time.Duration) error {
	if n := r.c.Attempt(); n >= r.f.cfg.Attempts {
		return r.unknown(ctx, fmt.Errorf("%d attempts were made: %w", n, cause))
	}
	left.Points = r.points
	b, err := r.f.encode(&r.s, left)
	if err != nil {
		return r.unknown(ctx, err)
	}
	return r.giveUp(ctx, stet.Step{Point: r.point, Progress: b}, in, cause)
}

func (r *run[S]) giveUp(ctx context.Context, s stet.Step, in time.Duration, cause error) error {
	r.suspended = true
	if err := r.c.Suspend(context.WithoutCancel(ctx), s, in); err != nil {
		return fmt.Errorf("%w: %w: %w", ErrSuspended, cause, err)
	}
	return fmt.Errorf("%w: %w", ErrSuspended, cause)
}

func (r *run[S]) backoff() time.Duration {
	return rest.Doubled(r.f.cfg.Backoff, maxBackoff, r.c.Attempt()-1)
}

// unknown states that the outcome is unknown. The record then has the key by which the other system
// can be asked.
func (r *run[S]) unknown(ctx context.Context, cause error) error {
	h := r.c.Head()
	if p, _ := r.f.calls(r.point); p != nil {
		if key := downstream(&h, r.point); h.DownstreamKey != key {
			_ = r.c.Downstream(context.WithoutCancel(ctx), key, "") // where it fails, so will what follows
		}
	}
	r.c.Unknown("flow-cannot-tell")
	return fmt.Errorf("%w: %w", ErrUnknown, cause)
}

// crashed is for a phase that panicked. What the panic says goes on by itself.
func (r *run[S]) crashed(ctx context.Context) {
	cause := errors.New("a phase panicked")
	if p, err := r.f.calls(r.point); err != nil || p != nil && !p.honours {
		_ = r.unknown(ctx, cause)
		return
	}
	_ = r.suspend(ctx, cause, false)
}

// local runs a phase in a transaction that commits the recovery point after it.
func (r *run[S]) local(ctx context.Context, p *Phase[S], next int) error {
	pause := firstPause
	for try := 1; ; try++ {
		s, err := r.transact(ctx, p, next)
		if r.lost {
			return err
		}
		switch final(err) {
		case nil:
			r.s = s
			return nil
		case errDeclined:
			return err
		case errUnsure:
			return r.unknown(ctx, err)
		case errLater, stet.ErrForeignTx:
			return r.suspend(ctx, err, false)
		}
		if try == localTries || !rest.For(ctx, pause) {
			return r.suspend(ctx, err, false)
		}
		pause *= 2
	}
}

// transact is one try. With an error nothing of it is stored, unless the run is lost.
func (r *run[S]) transact(ctx context.Context, p *Phase[S], next int) (s S, err error) {
	if s, err = r.copied(); err != nil {
		return s, err
	}
	tx, err := r.f.cfg.Begin(ctx)
	if err != nil {
		return s, fmt.Errorf("begin: %w", err)
	}
	if err = r.c.In(tx.Tx()); err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		r.lost = errors.Is(err, stet.ErrFenced)
		return s, err
	}
	failed := errors.New("the phase did not return")
	defer func() {
		if failed != nil {
			_ = tx.Rollback(context.WithoutCancel(ctx))
			err = r.confirm(ctx, failed)
		}
	}()
	if failed = p.local(ctx, tx.Tx(), &s); failed != nil {
		return s, failed
	}
	step, err := r.step(next, &s, "")
	if failed = err; failed != nil {
		return s, failed
	}
	if failed = r.c.Step(ctx, step); failed != nil {
		return s, failed
	}
	return s, r.confirm(ctx, tx.Commit(ctx))
}

// confirm ends the claim's part in a transaction that ended with result. What the claim says of
// itself is taken from its own error alone: result may be that of a phase, and hold the same of
// another engine's claim (A17).
func (r *run[S]) confirm(ctx context.Context, result error) error {
	if result == nil {
		return r.c.Confirm(ctx, nil)
	}
	err := r.c.Confirm(ctx, errors.New("the transaction did not end well"))
	r.lost = errors.Is(err, stet.ErrFenced) || errors.Is(err, stet.ErrUnsettled)
	if err == nil { // the commit's answer was lost
		return nil
	}
	return fmt.Errorf("%w: %w", err, result)
}

// copied is the state for a phase to change: one that fails must leave no trace in it.
func (r *run[S]) copied() (S, error) {
	b, err := r.f.encode(&r.s, progress{})
	if err != nil {
		return r.s, err
	}
	s, _, err := r.f.decode(stet.Body{Progress: b})
	return s, err
}

// foreign makes the call of a phase, unless it may have been made.
func (r *run[S]) foreign(ctx context.Context, p *Phase[S], next int) error {
	h := r.c.Head()
	call := &Call{key: downstream(&h, r.point)}
	s, err := r.copied()
	if err != nil {
		return r.unknown(ctx, err)
	}
	if !r.fresh && !p.honours {
		if p.lookup == nil {
			return r.unknown(ctx, errors.New("a run ended without a word while the call may have been made"))
		}
		waited := h.UpdatedAt.Sub(r.idle) // asked after that instant, so that it is no less
		found, err := p.lookup(ctx, call.key, &s)
		switch {
		case err != nil:
			return r.unknown(ctx, err)
		case found:
			r.s = s
			return r.commit(ctx, next, "")
		case !p.proves(waited):
			return r.settle(ctx, p, waited)
		}
		r.fresh = true
	}
	err = p.foreign(ctx, call, &s)
	how := final(err)
	notSent := how == errLater || how == errOther && !call.used
	switch {
	case call.misused:
		return r.unknown(ctx, ErrSecondEffect)
	case how == nil:
		r.s = s
		return r.commit(ctx, next, call.id)
	case how == errDeclined:
		return err
	case notSent, p.honours:
		return r.suspend(ctx, err, notSent && r.fresh)
	}
	return r.unknown(ctx, err)
}
