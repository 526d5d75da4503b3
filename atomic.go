package stet

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// ErrRolledBack is returned when the claim's transaction certainly had no effect.
var ErrRolledBack = errors.New("stet: the transaction was rolled back")

// CauseRolledBack is the Cause to state for a run that did all its work in a transaction, which was
// rolled back.
const CauseRolledBack = "rolled-back"

// CauseTxEnded is the Cause of a record whose run is unknown because of [ErrTxEnded].
const CauseTxEnded = "transaction-ended"

// Transaction is a transaction of any kind, for packages that begin and end it for their callers:
// stethttp.AtomicIn, and package flow.
type Transaction interface {
	Tx() any // what the store's [Binder] takes
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error // nothing after a Commit
}

// boundTx is a transaction that a claim may become part of.
type boundTx struct {
	tx    any
	store Store // within it
}

// joinedTx is the transaction that a claim is part of.
type joinedTx struct {
	store Store  // within the transaction
	redo  intent // what makes the record the holder's again where the transaction had no effect
	body  Body   // what is stored then
	wrote bool
	ended bool // before its end
}

// Bind prepares [Claim.In] at the beginning of tx, for a claim whose lease is to be renewed until it
// becomes part of tx at its end. In and [Claim.Undoable] tell then whether it is still that
// transaction. The error is [ErrForeignTx] as with In.
func (c *Claim) Bind(tx any) error {
	bound, err := bind(c.e.store, tx)
	if err != nil {
		return fmt.Errorf("stet: Bind: %w", err)
	}
	if err := c.turn(); err != nil {
		return fmt.Errorf("stet: Bind: %w", err)
	}
	defer c.yield()
	c.bound = boundTx{tx, bound}
	return nil
}

// Undoable is called before a rollback of the transaction of [Claim.Bind] or [Claim.In], and has
// undone part of it by then. It returns nil if the rollback undoes all of it, or an error that is
// [ErrTxEnded] where the transaction is over: what was sent since may have happened, and a claim
// that is part of it becomes unknown in [Claim.Confirm]. After any other error nothing is known, as
// where the connection is lost: what was not committed then is undone by the database.
//
// cause is the error that ended the caller's work, or nil. Where it is the database's own, and says
// that it has undone the transaction, nothing is taken to have been sent since.
func (c *Claim) Undoable(ctx context.Context, cause error) error {
	if err := c.turn(); err != nil {
		return fmt.Errorf("stet: Undoable: %w", err)
	}
	defer c.yield()
	in := c.bound.store
	if c.joined != nil {
		in = c.joined.store
	}
	c.bound = boundTx{}
	u, ok := As[Undoer](in)
	if !ok {
		return fmt.Errorf("stet: Undoable: %w: it cannot tell whether the transaction is the same", ErrUnsupported)
	}
	call := detach(ctx, c.e.cfg.StoreTimeout)
	defer call.release()
	var err error
	c.outside(func() { err = u.Undoable(call, cause) })
	if errors.Is(err, ErrTxEnded) && c.joined != nil {
		c.joined.ended = true
	}
	return err
}

// In makes the claim part of tx, a transaction of the caller's on the database that holds the
// records. What the claim writes from here on happens if and when tx is committed, together with
// the business rows of the same transaction (I6, W4). Commit or roll back, and then call
// [Claim.Confirm] in any case.
//
//	err := claim.In(tx)
//	… business rows, outbox rows …
//	err = claim.Settle(ctx, outcome) // or Step, to commit a recovery point and go on
//	err = claim.Confirm(ctx, tx.Commit())
//
// No heartbeat renews the lease until Confirm, because it would wait for tx: what is left of the
// lease bounds the transaction. If the lease ends before the claim's first write, that write
// returns [ErrFenced], and tx must be rolled back. A write is tried once, since a failed one has
// most likely ended tx. No write is sent after tx has ended in another way than by its Commit or
// Rollback: the error is [ErrTxEnded]. To roll back, call [Claim.Undoable] before. In marks tx by
// the savepoint "stet", which it sets and releases: savepoints of the caller's that are open at a
// write of the claim's are released with it. Nothing but the commit follows a Settle. tx is of a
// type that the store's [Binder] takes, such as a pointer, and comparable, else the error is
// [ErrForeignTx].
func (c *Claim) In(tx any) error {
	if err := c.turn(); err != nil {
		return fmt.Errorf("stet: In: %w", err)
	}
	defer c.yield()
	in := c.bound.store
	if in == nil || c.bound.tx != tx {
		var err error
		if c.outside(func() { in, err = bind(c.e.store, tx) }); err != nil {
			return fmt.Errorf("stet: In: %w", err)
		}
	}
	switch {
	case c.joined != nil:
		return errors.New("stet: In: the claim is part of a transaction already: Confirm ends that")
	case !c.phase.allows(join):
		return fmt.Errorf("stet: In: %w", errClosed)
	}
	c.bound = boundTx{}
	c.phase = c.phase.after(join)
	c.joined = &joinedTx{store: in, redo: intent{prev: c.h.Version, head: c.h}, body: c.body}
	return nil
}

func bind(s Store, tx any) (Store, error) {
	b, ok := As[Binder](s)
	if !ok {
		return nil, fmt.Errorf("%w: it joins none", ErrForeignTx)
	}
	if tx != nil && !reflect.ValueOf(tx).Comparable() { // the claim could not tell whether it is the one of Bind
		return nil, fmt.Errorf("%w: a %T cannot be compared; use a pointer", ErrForeignTx, tx)
	}
	return b.Bind(tx)
}

// BeginIn is [Engine.Begin] within tx: with Execute the reservation itself is part of tx, and is
// not visible before the commit. That saves one write outside of it. The price is paid by
// duplicates: they wait for tx, as long as the database lets them, instead of being told at once
// that the key is in use. The claim is In(tx) already; Settle and Confirm it as [Claim.In] says.
// After an error tx must be rolled back.
func (e *Engine) BeginIn(ctx context.Context, tx any, q Request) (Decision, error) {
	bound, err := bind(e.store, tx)
	if err != nil {
		return Decision{}, fmt.Errorf("stet: BeginIn: %w", err)
	}
	in := &Engine{store: bound, cfg: e.cfg, recipe: e.recipe, tags: e.tags, unstored: e.unstored, bound: true}
	in.cfg.Observe = nil // nothing has happened before the commit
	d, err := in.Begin(ctx, q)
	if err != nil || d.Claim == nil {
		return d, err
	}
	d.Claim.e, d.Claim.phase = e, d.Claim.phase.after(join)
	return d, nil
}

// putIn writes within the transaction. The caller has the turn.
func (c *Claim) putIn(ctx context.Context, h *Head, b *Body) (err error) {
	call := detach(ctx, c.patience())
	defer call.release()
	h.Version, h.Tag = newVersion(), c.e.stamp(h)
	var got Head
	prev := c.h.Version
	c.outside(func() { got, err = c.joined.store.Replace(call, prev, *h, b) })
	switch {
	case err == nil:
		c.h, c.joined.wrote, c.wrote, c.heard = got, true, call.began, time.Now()
		if b != nil {
			c.body = *b
		}
		return nil
	case refused(err):
		return ErrFenced
	}
	c.joined.ended = c.joined.ended || errors.Is(err, ErrTxEnded)
	c.lost = true // the store may still read what it was given
	return fmt.Errorf("stet: a write in a transaction, which has to be rolled back: %w", err)
}

// Confirm tells the claim how the transaction of [Claim.In] ended: result is what Commit returned
// or, after a rollback, the reason. It returns
//
//   - nil: what the claim wrote is stored, also if Commit returned an error and had taken effect
//     all the same. A claim that was not settled goes on, outside of a transaction;
//   - [ErrRolledBack]: nothing of it is stored, and the claim goes on as it was before In. State
//     NotExecuted and settle it, if the transaction was all there was, or try again. This is proven
//     by one write, which waits for the row that the transaction may still hold, and succeeds only
//     if the transaction had no effect (W4, W7);
//   - [ErrTxEnded]: the transaction was over before its end, and what was sent since may have
//     happened. Nothing of what the claim wrote is stored, and the record is unknown;
//   - [ErrFenced]: another holder has taken over the record;
//   - [ErrUnsettled]: the store gave no answer within StoreTimeout. The record is running until its
//     lease ends, and unknown then.
func (c *Claim) Confirm(ctx context.Context, result error) error {
	if err := c.turn(); err != nil {
		return fmt.Errorf("stet: Confirm: %w", err)
	}
	defer c.yield()
	j := c.joined
	if j == nil {
		return errors.New("stet: Confirm: the claim is part of no transaction: see Claim.In")
	}
	c.joined = nil
	if result == nil {
		c.committed()
		return nil
	}
	call := detach(ctx, c.e.cfg.StoreTimeout)
	defer call.release()
	w := j.redo
	w.head.Version, w.head.DueIn = newVersion(), c.policy.Lease
	var got Record
	var err error
	c.outside(func() { err = c.e.insist(call, &w, &got) })
	switch {
	case err == nil:
		c.phase = c.phase.after(rolledBack)
		c.h, c.body, c.renewed, c.wrote, c.heard = got.Head, j.body, call.began, call.began, time.Now()
		if j.ended {
			c.statement = statement{}
			if err = c.settleAs(ctx, statement{state: Unknown, cause: CauseTxEnded}, &Outcome{}); err != nil {
				result = fmt.Errorf("%w: %w", err, result)
			}
			return fmt.Errorf("%w: %w", ErrTxEnded, result)
		}
		c.heartbeat.wind()
		return fmt.Errorf("%w: %w", ErrRolledBack, result)
	case j.wrote && got.Version == c.h.Version:
		c.committed()
		return nil
	}
	c.phase = c.phase.after(lose)
	c.heartbeat.stop(context.Canceled)
	if refused(err) {
		return fmt.Errorf("%w: %w", ErrFenced, result)
	}
	if w.lost && w.prev == 0 { // the reservation was part of the transaction: nothing is left of it, and nothing ran outside
		c.e.withdraw(ctx, c.policy.Lease, w, tombstone(&w.head), &nothing)
	}
	return fmt.Errorf("%w: %w: %w", ErrUnsettled, err, result)
}

// committed acts on a commit: what the claim wrote in its transaction is stored.
func (c *Claim) committed() {
	if c.phase = c.phase.after(committed); c.phase == active {
		c.renewed = c.wrote
		c.heartbeat.wind()
		return
	}
	c.heartbeat.stop(context.Canceled)
	c.e.moved(&c.h, origin{state: Running}, "holder")
}
