package stet

import (
	"context"
	"errors"
	"sync"
)

// CauseHolderGone is the Cause of a record whose holder was gone when its store was opened again,
// before its lease was over: see [Operator.Inherit].
const CauseHolderGone = "holder-gone"

// inheritance are the runs that the processes before this one have left, until they are ended.
type inheritance struct {
	mu   sync.Mutex
	seen bool // the store was asked
	left []Head
}

// Inherit ends the runs that processes before this one have left in the store, if the store has
// proven that their holders are gone: see [Heir]. It does what the end of their leases would do,
// without waiting for it. With the default rule they become Unknown, with the cause
// [CauseHolderGone]; that nothing happened is not proven before the lease would have been over,
// since what a holder had asked others for may still go on. A run that may be continued or executed
// again is left to its lease.
//
// Inherit returns how many records it changed. It is cheap if there are none. Sweep does the same,
// so that a program need not call Inherit; a program that does so before it takes requests tells
// the first of them already. What a store that fails has kept it from is done by the next call.
func (o *Operator) Inherit(ctx context.Context) (n int, err error) {
	i := &o.e.inherited
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.seen {
		i.seen = true
		if heir, ok := As[Heir](o.e.store); ok {
			i.left = heir.Left()
		}
	}
	for len(i.left) > 0 && ctx.Err() == nil {
		done, failed := o.e.endLeft(ctx, &i.left[0])
		if failed != nil && !errors.Is(failed, ErrCorrupt) { // a damaged one is for people
			return n, failed
		}
		if i.left = i.left[1:]; done {
			n++
		}
	}
	return n, ctx.Err()
}

// endLeft ends a run, unless anybody has written its record since its holder was proven to be gone.
func (e *Engine) endLeft(ctx context.Context, was *Head) (bool, error) {
	have, err := e.Get(ctx, was.ID)
	if err != nil || have.Version != was.Version || have.State != Running {
		return false, unlessOvertaken(err)
	}
	next, ok := ending(&have.Head)
	if !ok {
		return false, nil
	}
	if next.State == Unknown {
		next.Cause = CauseHolderGone
		if have.DueAt.After(have.AsOf) { // it is unknown from now on, and attended until its lease would have ended
			next.keepSince(have.AsOf)
			next.Took = have.DueAt.Sub(have.CreatedAt)
		}
	}
	return e.swap(ctx, &have.Head, next, nil, "sweeper")
}
