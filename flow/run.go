package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/foreign"
	"github.com/stet-dev/stet/internal/rest"
)

// run is one attempt at a flow.
type run[S any] struct {
	f *Flow[S]
	c *stet.Claim
	s S

	point     string    // the phase it is in, as the record names it
	over      []bool    // the phases that are through, or do not run; that at point is among them
	fresh     bool      // the call of this phase cannot have been made
	idle      time.Time // if not fresh: since when it cannot have been made, by the store's clock
	points    []Point   // that runs of the record came to, the last is point
	next      []Point   // the same, once what is being written is stored
	origin    time.Time // when the record was created, by the clock of this process
	suspended bool
	lost      bool // the claim is not this run's any more, or may not be
	returned  bool
	ended     chan struct{} // closed when the run has returned, where the flow settles the claim itself

	mu      sync.Mutex
	calling bool // in a call whose effect another run would repeat
	overdue bool // the call has outlasted the run's time, and the record is unknown until it returns
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
	for i < len(r.f.phases) {
		p := &r.f.phases[i]
		r.over[i] = true
		next := r.f.next(r.over)
		if ctx.Err() != nil {
			return stet.Response{}, r.suspend(ctx, context.Cause(ctx), r.fresh)
		}
		if p.local != nil {
			err = r.local(ctx, p, next)
		} else {
			err = r.foreign(ctx, p, next)
		}
		if no, ok := errors.AsType[*declined](err); ok && final(err) == errDeclined {
			if r.overdue {
				r.c.Completed()
			}
			return no.response, nil
		}
		if err != nil {
			return stet.Response{}, fmt.Errorf("flow: %s: %s: %w", r.f.cfg.Name, p.name, err)
		}
		i, r.point, r.fresh, r.points = next, r.f.point(next), true, r.next
	}
	return r.f.cfg.Answer(&r.s), nil
}

// start finds the phase to begin with.
func (r *run[S]) start(ctx context.Context) (int, error) {
	h := r.c.Head()
	r.origin = time.Now().Add(h.CreatedAt.Sub(h.UpdatedAt))
	if r.point = h.Point; r.point == "" {
		r.point, r.fresh, r.over = r.f.point(0), true, make([]bool, len(r.f.phases))
		err := r.commit(ctx, 0, "")
		r.points = r.next
		return 0, err
	}
	s, p, err := r.f.decode(r.c.Stored())
	r.fresh = !r.c.TookOver() || p.NotSent == h.Attempt-1
	if r.idle = h.UpdatedAt; p.Idle != nil && p.Idle.By == h.Attempt-1 { // else the attempt before may have worked until now
		r.idle = p.Idle.Since
	}
	i := 0
	if err == nil {
		i, err = r.f.at(r.point)
	}
	if err != nil { // left as it is, for a release that knows it
		return 0, r.giveUp(ctx, stet.Step{Point: h.Point, Progress: r.untouched(&p)}, r.backoff(), err)
	}
	r.s, r.points, r.over = s, p.since(&h), r.f.over(r.point, &p)
	return i, nil
}

// untouched is the progress that a run leaves which could not go on, and made no call: what was
// known of the call before is known after it. Members that this release does not know stay.
func (r *run[S]) untouched(p *progress) []byte {
	was := r.c.Stored()
	var members map[string]json.RawMessage
	if p.Flow == "" || json.Unmarshal(stored(was), &members) != nil {
		return was.Progress
	}
	var err error
	if n := r.c.Attempt(); r.fresh {
		members["not_sent"], err = json.Marshal(n)
	} else {
		members["idle"], err = json.Marshal(idle{By: n, Since: r.idle})
	}
	b, failed := json.Marshal(members)
	if err != nil || failed != nil {
		return was.Progress
	}
	return b
}

// step is what a run leaves behind that goes on at phase next.
func (r *run[S]) step(next int, s *S, id string) (stet.Step, error) {
	h, point := r.c.Head(), r.f.point(next)
	r.next = append(slices.Clip(r.points), Point{point, h.CreatedAt.Add(time.Since(r.origin)).Round(time.Microsecond)})
	return r.f.step(&h, point, id, s, progress{Points: r.next, Left: r.f.left(r.over, next)})
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
	left.Points, left.Left = r.points, r.f.left(r.over, len(r.over))
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
			_ = r.c.Undoable(context.WithoutCancel(ctx), failed) // Confirm knows what it found
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
	r.lost = errors.Is(err, stet.ErrFenced) || errors.Is(err, stet.ErrUnsettled) || errors.Is(err, stet.ErrTxEnded)
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
	if !r.enter(ctx, p) { // the lookup has outlasted the run's time
		return r.suspend(ctx, context.Cause(ctx), r.fresh)
	}
	err = r.call(ctx, p, call, &s)
	how := final(err)
	notSent := how == errLater || how == errOther && !call.seen
	switch {
	case call.misused:
		return r.unknown(ctx, ErrSecondEffect)
	case how == errDeclined:
		return err
	case r.overdue && how == nil:
		return r.late(ctx, Evidence[S]{Made: true, Learn: func(learned *S) error { *learned = s; return nil }, DownstreamID: call.id})
	case r.overdue && notSent:
		return r.late(ctx, Evidence[S]{})
	case how == nil:
		r.s = s
		return r.commit(ctx, next, call.id)
	case notSent, p.honours:
		return r.suspend(ctx, err, notSent && r.fresh)
	}
	return r.unknown(ctx, err)
}

// enter reports whether the call of a phase may begin: the run has time left. From then on the
// record becomes unknown if the call outlasts that time, unless to repeat it is harmless.
func (r *run[S]) enter(ctx context.Context, p *Phase[S]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calling = ctx.Err() == nil && !p.honours
	return ctx.Err() == nil
}

func (r *run[S]) call(ctx context.Context, p *Phase[S], call *Call, s *S) error {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calling = false
	}()
	return p.foreign(ctx, call, s)
}

// Lost implements [stet.Lost]: the run's time is over. A run that heeds this suspends itself. A
// call that does not return may still have its effect, and no other run must make it meanwhile: the
// record becomes unknown, and stays attended until the call returns.
func (r *run[S]) Lost(cause error) {
	grace := time.NewTimer(foreign.Grace)
	defer grace.Stop()
	select {
	case <-r.ended:
		return
	case <-grace.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.overdue = r.calling; !r.overdue {
		return
	}
	ctx := context.Background()
	_ = r.unknown(ctx, cause)
	r.c.Overdue(stet.CauseOf(cause))
	_ = r.c.Settle(ctx, stet.Outcome{}) // what the store does not take is kept: see stet.Engine.Unstored
}

// late tells what a call that has outlasted its run's time said in the end. That is evidence about
// the phase, with which the flow goes on. Where the store does not take it, the outcome stays
// unknown.
func (r *run[S]) late(ctx context.Context, found Evidence[S]) error {
	r.suspended = true // the claim was settled
	over := context.Cause(ctx)
	ctx = context.WithoutCancel(ctx)
	r.c.Returned(ctx)
	found.Phase = r.point
	why := "the phase's call returned after its time, and had no effect"
	if found.Made {
		why = "the phase's call returned after its time, and had its effect"
	}
	n := stet.Note{Who: "flow", Why: why, Evidence: "the call of phase " + r.point + " returned"}
	if err := r.f.Resolve(ctx, r.c.ID(), stet.Execution{Fence: r.c.Fence()}, found, n); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return fmt.Errorf("%w: %w", ErrSuspended, over)
}
