package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-dev/stet/internal/stopwatch"
)

// The engine's calls of its store: each is timed, told to the observer, and carries a deadline that
// no client can end.

func (e *Engine) create(call context.Context, h *Head, b *Body, got *Record) error {
	err := e.observed("create", func() (err error) { *got, err = e.store.Create(call, Record{*h, *b}); return err })
	if err == nil || err == ErrExists || errors.Is(err, ErrExists) {
		err = cmp.Or(readable(&got.Head, &h.ID), err)
	}
	return err
}

// get reads a record with its body, whatever room that takes.
func (e *Engine) get(ctx context.Context, id ID) (Record, error) { return e.getWithin(ctx, id, nil) }

func (e *Engine) getWithin(ctx context.Context, id ID, room Room) (got Record, err error) {
	for range tries {
		if got, err = e.look(ctx, id); err == nil {
			err = e.whole(ctx, &got, room)
		}
		if err == nil {
			return got, nil
		}
		if err != errAgain {
			return Record{}, err
		}
	}
	return Record{}, fmt.Errorf("%w: %w", ErrUnread, err)
}

// look reads a record, and its body if that takes no more than [MaxBody].
func (e *Engine) look(ctx context.Context, id ID) (got Record, err error) {
	err = e.observed("get", func() (err error) { got, err = e.store.Get(ctx, id); return err })
	if err == nil {
		err = readable(&got.Head, &id)
	}
	return got, err
}

func (e *Engine) remove(call *detached, id ID, prev Version) error {
	return e.observed("delete", func() error { return e.store.Delete(call, id, prev) })
}

// readable asserts what nothing may be judged without: a store that answers with another record, or
// with a state that this version does not know, has answered nothing (W24).
func readable(h *Head, id *ID) error {
	switch {
	case h.ID != *id:
		return fmt.Errorf("%w: the store answered with another record", ErrCorrupt)
	case h.State < Running || h.State > Expired:
		return fmt.Errorf("%w: its state is %s, which this version does not know", ErrCorrupt, h.State)
	}
	return nil
}

// Observed reports whether the engine has an observer. Without one, what an [Event] would say need
// not be measured.
func (e *Engine) Observed() bool { return e.cfg.Observe != nil }

// observed makes a call of the store and tells the observer of it.
func (e *Engine) observed(op string, call func() error) error {
	began := stopwatch.Start(e.Observed())
	err := call()
	e.called(op, began, err)
	return err
}

func (e *Engine) called(op string, began time.Time, err error) {
	if e.cfg.Observe == nil {
		return
	}
	switch { // answers, not failures
	case errors.Is(err, ErrExists), errors.Is(err, ErrStale), errors.Is(err, ErrNotFound):
		err = nil
	}
	e.cfg.Observe(Event{Kind: StoreCall, Op: op, Took: stopwatch.Since(began), Err: err})
}

// Observe tells the engine's observer, if it has one, of an event. Packages that answer requests
// with the engine use it.
func (e *Engine) Observe(ev Event) {
	if e.cfg.Observe != nil {
		e.cfg.Observe(ev)
	}
}

// origin is what a transition came from; zero: there was no record.
type origin struct {
	state   State
	cause   string
	decided bool // its run goes on by a decision about it
	due     time.Time
}

func (h *Head) origin() origin { return origin{h.State, h.Cause, h.Note != nil, h.DueAt} }

// lapse is the value of [Event].Lapse, of a transition to h. A run that paused, or that goes on by
// a decision, has no holder: that another takes it up is no lapse.
func (from *origin) lapse(h *Head, by string) string {
	paused := from.cause == CauseSuspended || from.decided
	switch {
	case from.state != Running:
		return ""
	case by == "holder" && !from.due.IsZero() && !h.UpdatedAt.Before(from.due) && !paused:
		return CauseOf(ErrLeaseLost)
	case by == "holder":
		return ""
	case h.State == Unknown && h.Cause != "":
		return h.Cause
	case paused:
		return ""
	}
	return causeLapsed
}

// moved tells of a transition, and wakes who waits for the record.
func (e *Engine) moved(h *Head, from origin, by string) {
	if h.State != Running {
		e.hub.wake(h.ID, nil)
	}
	if h.Scope == OwnScope {
		e.own.moved.Store(true)
	}
	if e.cfg.Observe != nil {
		e.cfg.Observe(Event{Kind: Transition, ID: h.ID, By: by, Route: h.Route, TraceID: h.TraceID,
			From: from.state, To: h.State, Attempt: h.Attempt, Cause: h.Cause, Lapse: from.lapse(h, by), Took: h.Took})
	}
}

// gone tells that the record was deleted.
func (e *Engine) gone(h *Head, by string) {
	none := *h
	none.State = 0
	e.moved(&none, h.origin(), by)
}

// intent is a write whose answer may be lost. It is sent under one Version, as often as it takes: a
// refusal that shows this Version is a yes (W2, I11). If its writer gives up, it is cancelled, so
// that no copy that is still on its way has an effect.
type intent struct {
	prev  Version   // of the record that it replaces; 0: it creates one
	head  Head      // with the Version of its own
	body  *Body     // nil: what is stored stays
	began time.Time // local, before it was sent first: a lease that it grants lasts at least from here
	lost  bool      // it was sent without a clear answer: it may have landed, and a copy of it may land yet
}

// send sends it once, and puts what is stored into got: a record is large, and is not copied from
// call to call.
func (e *Engine) send(call *detached, w *intent, got *Record) (err error) {
	if w.began.IsZero() {
		w.began = call.began
	}
	w.head.Tag = e.stamp(&w.head)
	if w.prev == 0 {
		err = e.create(call, &w.head, w.body, got)
	} else {
		err = e.observed("replace", func() (err error) { got.Head, err = e.store.Replace(call, w.prev, w.head, w.body); return err })
	}
	switch {
	case err == nil, refused(err) && got.Version == w.head.Version:
		if w.body != nil {
			got.Body = *w.body
		}
		return nil
	case !refused(err) && !final(err) && !errors.Is(err, ErrBusy):
		w.lost = true
	}
	return err
}

// refused reports whether the store has answered that the record there does not allow the write.
func refused(err error) bool {
	return errors.Is(err, ErrExists) || errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound)
}

// final reports whether the store has said that it did nothing, and why it would not do it now
// either.
func final(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrRefused) || errors.Is(err, ErrForeign)
}

// insist sends it until it is answered, or call ends.
func (e *Engine) insist(call *detached, w *intent, got *Record) error {
	for pause := firstWait; ; {
		err := e.send(call, w, got)
		if err == nil || refused(err) || final(err) || !sleep(call, &pause, call.deadline()) {
			return err
		}
	}
}

// replace insists on one write over a record that is there.
func (e *Engine) replace(call *detached, prev Version, h Head, b *Body) (Head, error) {
	var got Record
	err := e.insist(call, &intent{prev: prev, head: h, body: b}, &got)
	return got.Head, err
}

// cancel makes sure that w has no effect, whether it has landed or a copy of it lands later:
// instead is written over w, or over what w would replace; if there is nothing, instead is created
// for w to meet. It also returns nil if another request has the record by now, since w can no
// longer land then.
func (e *Engine) cancel(call *detached, w *intent, instead Head, body *Body) error {
	over := w.head.Version
	for range tries {
		instead.Version = newVersion()
		c := &intent{prev: over, head: instead, body: body}
		if over == 0 && body == nil {
			c.body = &nothing
		}
		var got Record
		err := e.send(call, c, &got)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrNotFound) && w.prev == 0: // it has not landed
			over = 0
		case (errors.Is(err, ErrStale) || errors.Is(err, ErrExists)) && (got.Version == w.prev || got.Version == w.head.Version):
			over = got.Version
		case refused(err):
			return nil
		default:
			return err
		}
	}
	return ErrStale
}

// CauseGivenUp is the Cause of a record whose request gave up before anything ran: a tombstone,
// which any request may replace and the reaper removes.
const CauseGivenUp = "given-up"

// tombstone is what has to stand in the place of a reservation that is not used: proof that nothing
// happened, whose time is over at once.
func tombstone(h *Head) Head {
	t := *h
	t.State, t.Cause, t.DueIn, t.CreatedAt, t.Note = Retryable, CauseGivenUp, 0, time.Time{}, nil
	return t
}

// withdraw cancels w, which a request sent without an answer before it gave up. Nothing ran, so the
// record would turn unknown for no reason. If the store is away, it is tried for a while; a record
// that appears even later is treated like any lapsed one.
func (e *Engine) withdraw(ctx context.Context, lease time.Duration, w intent, instead Head, body *Body) {
	e.Go(maxCleanups, func() {
		ctx := context.WithoutCancel(ctx)
		pause, end := firstWait, time.Now().Add(min(4*e.cfg.StoreTimeout, lease))
		for {
			call := detach(ctx, e.cfg.StoreTimeout)
			err := e.cancel(call, &w, instead, body)
			call.release()
			if err == nil || !sleep(ctx, &pause, end) {
				return
			}
		}
	})
}
