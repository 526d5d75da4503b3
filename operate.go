package stet

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors of the verbs with which people and reconcilers change records.
var (
	ErrState    = errors.New("stet: the record's state does not allow this")
	ErrNoReason = errors.New("stet: a change needs who makes it and why")
)

// Resolution is the outcome of a record that was unknown: Response, or, if it is nil, that nothing happened.
type Resolution struct {
	Response *Response
	Kept     Kept // less than whole where not all of the response is known
	// Version, if not 0, is the one the decision was made on: where the record has another by now, nothing is changed.
	Version Version
}

// Resolve ends what is unknown, on evidence: the effect happened, and r has the response that retries get from now on, or it
// provably did not, and one retry may run (I14). The note's Who and Why are required; it is kept in the history, see
// [Historian]. A lease that has lapsed counts as unknown; anything else is [ErrState]. Where bytes of an answer have left,
// only the status may be given: nobody may invent another answer. What somebody changed meanwhile is [ErrStale].
func (e *Engine) Resolve(ctx context.Context, id ID, r Resolution, n Note) (Head, error) {
	return e.change(ctx, id, r.Version, n, "resolve", func(h *Head, b *Body) (*Body, error) {
		lapsedRun := h.State == Running && h.Over()
		switch {
		case h.State != Unknown && !lapsedRun:
			return nil, fmt.Errorf("%w: it is %s, not unknown", ErrState, h.State)
		case r.Response == nil && h.Published:
			return nil, fmt.Errorf("%w: bytes of an answer have left, so that it did happen", ErrState)
		case h.Published && r.Kept != KeptStatus:
			return nil, fmt.Errorf("%w: bytes of an answer have left, and another may not follow: give the status alone", ErrState)
		}
		h.Escalated, h.DueIn = false, h.Rules.Retain
		if r.Response == nil {
			h.State, h.Cause = Retryable, "resolved"
			return withoutLate(b), nil
		}
		h.State, h.Cause, h.Reconciled, h.Kept = Completed, "", true, r.Kept
		h.Status, h.Size = r.Response.Status, int64(len(r.Response.Body))
		if r.Kept == KeptStatus {
			return &Body{}, nil
		}
		return &Body{Response: r.Response}, nil
	})
}

// withoutLate is the body for a record whose late result nobody has adopted; nil: it has none.
func withoutLate(b *Body) *Body {
	if b.Response == nil {
		return nil
	}
	return &Body{Request: b.Request, Progress: b.Progress}
}

// Purge ends a stored result, so that the key is free again: a failure that is better not replayed. version is as in
// [Resolution]. What is running or unknown is [ErrState]: Resolve it first.
func (e *Engine) Purge(ctx context.Context, id ID, version Version, n Note) error {
	h, err := e.change(ctx, id, version, n, "purge", func(h *Head, _ *Body) (*Body, error) {
		if h.State == Running || h.State == Unknown {
			return nil, fmt.Errorf("%w: it is %s", ErrState, h.State)
		}
		h.State, h.DueIn = Expired, 0
		return &Body{}, nil
	})
	if err != nil {
		return err
	}
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	if err := e.remove(call, id, h.Version); err == nil { // else the reaper does
		gone := h
		gone.State = 0
		e.moved(&gone, Expired, "operator")
	}
	return nil
}

// Extend keeps a result for so long from now. version is as in [Resolution]. What has no result, or none any more, is
// [ErrState].
func (e *Engine) Extend(ctx context.Context, id ID, version Version, retain time.Duration, n Note) (Head, error) {
	if retain <= 0 {
		return Head{}, fmt.Errorf("stet: Extend: %s is no time to keep a result", retain)
	}
	return e.change(ctx, id, version, n, "extend", func(h *Head, _ *Body) (*Body, error) {
		if h.State != Completed || h.Over() {
			return nil, fmt.Errorf("%w: it is %s, and its retention can no longer be extended", ErrState, h.State)
		}
		h.Rules.Retain, h.DueIn = retain, retain
		return nil, nil
	})
}

// change reads a record, lets edit decide, and writes it with the note. What somebody else writes meanwhile is looked at
// again, unless the caller had decided on a version.
func (e *Engine) change(ctx context.Context, id ID, version Version, n Note, verb string, edit func(h *Head, b *Body) (*Body, error)) (Head, error) {
	if n.Who == "" || n.Why == "" {
		return Head{}, ErrNoReason
	}
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	for range tries {
		r, err := e.get(call, id)
		switch {
		case err != nil:
			return Head{}, fmt.Errorf("stet: %s: %w", verb, err)
		case version != 0 && r.Version != version:
			return r.Head, ErrStale
		}
		next := r.Head
		next.Version, next.Note = draw(), &n
		body, err := edit(&next, &r.Body)
		if err != nil {
			return r.Head, fmt.Errorf("stet: %s: %w", verb, err)
		}
		got, err := e.replace(call, r.Version, next, body)
		switch {
		case err == nil:
			e.moved(&got, r.State, "operator")
			return got, nil
		case !errors.Is(err, ErrStale) || version != 0:
			return got, fmt.Errorf("stet: %s: %w", verb, err)
		}
	}
	return Head{}, fmt.Errorf("stet: %s: %w: it kept changing", verb, ErrStale)
}

// ErrNoHistory: the store keeps no history.
var ErrNoHistory = errors.New("stet: this store keeps no history of changes")

// History pages through what people and keepers changed; see [Historian].
func (e *Engine) History(ctx context.Context, q HistoryQuery) (changes []Change, next string, err error) {
	h, ok := As[Historian](e.store)
	if !ok {
		return nil, "", ErrNoHistory
	}
	return h.History(ctx, q)
}

// ErrNoFind: the store does not find records by the names they have further down.
var ErrNoFind = errors.New("stet: this store cannot find records by their downstream names")

// Find returns the records that systems further down know by name; see [Finder].
func (e *Engine) Find(ctx context.Context, name string) ([]Head, error) {
	f, ok := As[Finder](e.store)
	if !ok {
		return nil, ErrNoFind
	}
	return f.Find(ctx, name)
}

// Action is what a change was: resolve, release, reopen, purge, extend, testify or escalate.
func (c *Change) Action() string {
	switch {
	case c.To == Completed && c.From == Completed:
		return "extend"
	case c.To == Completed:
		return "resolve"
	case c.To == Retryable:
		return "release"
	case c.To == Running:
		return "reopen"
	case c.To == Expired:
		return "purge"
	case c.To == Unknown && c.Note.Evidence != "": // who gives up has none
		return "testify"
	case c.To == Unknown:
		return "escalate"
	}
	return "change"
}
