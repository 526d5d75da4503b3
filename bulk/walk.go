package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/walk"
)

const (
	// pageSize is how many records are changed between two recovery points. A run that takes over
	// checks for each of them whether it was already changed.
	pageSize = 256
	// atOnce is how many records a job changes at a time. Stores that write in groups write them in
	// one commit. It is small, because a request may have to wait for that many writes of a job.
	atOnce = 16
	// passes is how often a record is tried if the store does not answer; patience is the pause
	// before each repetition.
	passes   = 3
	patience = time.Second
	// later is when a job goes on after the store did not answer. pageTries is how often a page is
	// tried again if the store answered nothing about it: the store may be away, or another
	// transaction may hold these very records.
	later     = 5 * time.Second
	pageTries = 5
)

// errLater means that the job is left at a recovery point.
var errLater = errors.New("bulk: the job stopped at a recovery point, and goes on from there")

// Work goes on with a job until it is completed, and then returns nil. If ctx ends first it leaves
// the job at a recovery point, for the next process, and returns the context's error. The error is
// [stet.ErrState] if another process works on the job, or if nothing is left to do, and [ErrNewer]
// for a job that this version cannot read.
func (j *Jobs) Work(ctx context.Context, id string) error {
	if stopped, err := j.stopped(ctx, id); err != nil || stopped {
		return cmp.Or(err, ErrStopped)
	}
	key := stet.ID{Scope: stet.OwnScope, Key: stet.Key(id)}
	have, err := j.engine.Get(ctx, key)
	if err == nil { // what this version cannot read is not taken
		_, err = decode(&have.Body)
	}
	if err != nil {
		return fmt.Errorf("bulk: job %s: %w", id, err)
	}
	d, err := j.engine.Operator().Resume(ctx, key)
	switch {
	case err != nil:
		return fmt.Errorf("bulk: %w", err)
	case d.Verdict != stet.Execute:
		return fmt.Errorf("bulk: %w: %v", stet.ErrState, d.Verdict)
	}
	r := &run{j: j, e: j.engine, c: d.Claim}
	if r.stored, err = decode(&d.Record.Body); err != nil { // left as it is, for a release that can read it
		_ = r.c.Suspend(ctx, stet.Step{Point: point, Progress: d.Record.Progress}, time.Minute)
		return err
	}
	r.Order.Note.Notice, r.again = id, true
	return r.held(ctx)
}

// run is one process's work on a job.
type run struct {
	j *Jobs
	e *stet.Engine
	c *stet.Claim
	stored
	again bool // an earlier run may have changed part of the page
}

// held works on the job and renews its lease meanwhile. It does so itself, because
// [stet.Claim.Hold] would end a long job after the policy's Execution.
func (r *run) held(ctx context.Context) error {
	working, end := context.WithCancelCause(ctx)
	var beating sync.WaitGroup
	beating.Go(func() {
		beats := time.NewTicker(r.e.Policy().Lease / 3) // one that falls due while another hangs comes next
		defer beats.Stop()
		for {
			select {
			case <-working.Done():
				return
			case <-beats.C:
			}
			if err := r.c.Renew(working); errors.Is(err, stet.ErrFenced) {
				end(err)
			}
		}
	})
	beating.Go(func() { r.watch(working, end) })
	err := r.walk(working)
	why := context.Cause(working)
	end(nil)
	beating.Wait()
	switch {
	case err == nil:
		return r.settle(ctx)
	case errors.Is(why, ErrStopped):
		if err := r.leave(ctx, 0); !errors.Is(err, errLater) {
			return err
		}
		return ErrStopped
	case errors.Is(why, stet.ErrFenced), !errors.Is(err, errLater):
		return err
	}
	return r.leave(ctx, later)
}

// walk changes page after page. It returns nil if nothing is left, and errLater if the rest has to
// wait. Any other error means that a recovery point was not stored; the next process begins at the
// one before.
func (r *run) walk(ctx context.Context) error {
	for {
		if len(r.Page) == 0 {
			if r.Last {
				return nil
			}
			if err := r.turn(ctx); err != nil {
				return fmt.Errorf("%w: %w", errLater, err)
			}
			if err := r.remember(ctx); err != nil {
				return err
			}
		}
		if r.change(ctx); len(r.Page) > 0 {
			return errLater
		}
	}
}

// turn goes on to the next page that has records to change.
func (r *run) turn(ctx context.Context) error {
	q := r.Order.Query
	q.Limit = pageSize
	for len(r.Page) == 0 && !r.Last {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		q.After = r.After
		heads, next, err := r.e.Operator().List(ctx, q)
		if err != nil {
			return err
		}
		for i := range heads {
			if h := &heads[i]; selects(&q, h, r.Before) && (r.Order.Limit == 0 || r.Taken < r.Order.Limit) {
				r.Page = append(r.Page, newTarget(h))
				r.Taken++
			}
		}
		r.After, r.Last = next, next == "" || r.Order.Limit > 0 && r.Taken == r.Order.Limit
	}
	return nil
}

// remember stores a recovery point.
func (r *run) remember(ctx context.Context) error {
	s, err := r.step()
	if err != nil {
		return err
	}
	return r.c.Step(ctx, s)
}

func (r *run) step() (stet.Step, error) {
	doc, err := r.encode()
	return stet.Step{Point: point, Progress: doc}, err
}

// leave suspends the job at a recovery point, for the next process, which may go on after a while.
func (r *run) leave(ctx context.Context, in time.Duration) error {
	s, err := r.step()
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // this process is ending, and another may go on at once
		in = 0
	}
	if err := r.c.Suspend(context.WithoutCancel(ctx), s, in); err != nil {
		return fmt.Errorf("bulk: %w", err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errLater
}

// settle stores the completed job.
func (r *run) settle(ctx context.Context) error {
	doc, err := r.encode()
	if err != nil {
		return err
	}
	r.c.Completed()
	if err := r.c.Settle(context.WithoutCancel(ctx), stet.Outcome{Response: stet.Response{Status: 200, Body: doc}}); err != nil {
		return fmt.Errorf("bulk: %w", err)
	}
	return nil
}

// fate is what became of one record.
type fate uint8

const (
	pending fate = iota // not known: it was not tried, or the store did not answer
	changed
	refused // it cannot be changed, for a cause
	left    // it is left as it is, for a reason
)

// change changes the records of the page. Those that have to be tried again later, by this run or
// by another, stay on the page.
func (r *run) change(ctx context.Context) {
	page := r.Page
	fates, why := make([]fate, len(page)), make([]error, len(page))
	for pass := range passes {
		if pass > 0 && !rest.For(ctx, patience) {
			break
		}
		r.pass(ctx, page, fates, why)
		r.again = true // the store may have changed a record without answering
		if !slices.Contains(fates, pending) {
			break
		}
	}
	if ctx.Err() == nil && r.Tries < pageTries && !slices.ContainsFunc(fates, func(f fate) bool { return f != pending }) {
		r.Tries++
		return
	}
	r.Page, r.Tries, r.again = nil, 0, false
	for i := range page {
		switch f := fates[i]; {
		case f == changed:
			r.Done++
		case f == pending && ctx.Err() != nil:
			r.Page = append(r.Page, page[i])
		default:
			r.name(&page[i], f, why[i])
		}
	}
}

// name counts a record that was not changed, and names it.
func (r *run) name(t *target, f fate, why error) {
	if f != left {
		r.Failed++
	}
	if len(r.Errors) < maxErrors {
		r.Errors = append(r.Errors,
			Failure{ID: r.e.Tag(t.id()), Scope: t.Scope, Cause: causeOf(why).word, Left: f == left})
	}
}

// pass tries the pending records, atOnce at a time.
func (r *run) pass(ctx context.Context, page []target, fates []fate, why []error) {
	workers := walk.NewWorkers(atOnce)
	defer workers.Wait()
	for i := range page {
		if fates[i] == pending {
			workers.Go(ctx, func() { fates[i], why[i] = r.one(ctx, &page[i]) })
		}
	}
}
