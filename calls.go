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
	h.Tag = e.stamp(h)
	err := e.observed("create", func() (err error) { *got, err = e.store.Create(call, Record{*h, *b}); return err })
	if err == nil || err == ErrExists || errors.Is(err, ErrExists) {
		err = cmp.Or(readable(&got.Head, &h.ID), err)
	}
	return err
}

func (e *Engine) get(ctx context.Context, id ID) (got Record, err error) {
	err = e.observed("get", func() (err error) { got, err = e.store.Get(ctx, id); return err })
	if err == nil {
		err = readable(&got.Head, &id)
	}
	return got, err
}

func (e *Engine) remove(call *detached, id ID, prev Version) error {
	return e.observed("delete", func() error { return e.store.Delete(call, id, prev) })
}

func (e *Engine) replaceOnce(call context.Context, prev Version, h *Head, b *Body, got *Head) error {
	h.Tag = e.stamp(h)
	return e.observed("replace", func() (err error) { *got, err = e.store.Replace(call, prev, *h, b); return err })
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

// moved tells of a transition, and wakes who waits for the record.
func (e *Engine) moved(h *Head, from State, by string) {
	if h.State != Running {
		e.hub.wake(h.ID)
	}
	if e.cfg.Observe != nil {
		e.cfg.Observe(Event{Kind: Transition, ID: h.ID, By: by, Route: h.Route, TraceID: h.TraceID,
			From: from, To: h.State, Attempt: h.Attempt, Cause: h.Cause, Took: h.Took})
	}
}
