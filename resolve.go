package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-dev/stet/internal/walk"
)

// The errors of the methods with which operators and reconcilers change records.
var (
	// ErrState is returned when the record's state does not allow the change.
	ErrState = errors.New("stet: the record's state does not allow this")
	// ErrNoReason is returned for a [Note] without Who or Why.
	ErrNoReason = errors.New("stet: a change needs who makes it and why")
	// ErrOtherRun is returned when the evidence is about another run than the record's.
	ErrOtherRun = errors.New("stet: the evidence is about another run than the record's")
	// ErrContradicted is returned when the record has an answer, which may have come too late to be
	// its result, and which is another outcome than the evidence says, or has another body.
	ErrContradicted = errors.New("stet: the handler's answer says otherwise")
	// ErrFound is returned when a probe has found that it happened, and none has found since that it
	// was voided.
	ErrFound = errors.New("stet: a probe has found that it happened")
	// ErrAttended is returned while the handler has not returned, as far as is known: its effect
	// may still come.
	ErrAttended = errors.New("stet: the handler may still be running")
	// ErrNotSettled is returned when the attempt ended less than [Resolution].Settle ago: what it
	// sent may still have its effect.
	ErrNotSettled = errors.New("stet: the attempt ended only just now, and may still have its effect")
	// ErrKnown is returned when the message with this id (see [Note].Notice) has changed the record
	// before.
	ErrKnown = errors.New("stet: this notice was taken before")
	// ErrKeptLonger is returned when a result would be kept for less time than it is.
	ErrKeptLonger = errors.New("stet: the result is kept for longer already")
)

// Resolution is the outcome of a record that was unknown: Response or, if that is nil, that nothing
// happened.
type Resolution struct {
	Response *Response
	Kept     Kept // less than whole where not all of the response is known
	// Substitute says that Response does not claim to be what the handler answered, such as a
	// probe's: retries receive it only where nothing is known of the handler's own answer.
	Substitute bool
	// Settle is how long the record must have had no holder at work before the claim that nothing
	// happened is believed: longer than a request can be under way. 0 means no time at all.
	Settle time.Duration
	// Now frees a key without waiting: before Settle is over ([ErrNotSettled]), and while the
	// handler has not returned ([ErrAttended]). Override also goes against an answer that came too
	// late ([ErrContradicted]) and what a probe has found ([ErrFound]), which no waiting cures. Both are
	// for operators who have seen what speaks against it; the history keeps that with the evidence.
	Now, Override bool
}

// Resolve ends what is unknown, on evidence about the execution that of names. Either the effect
// happened, or it provably did not, and one retry may run (I14). The note's Who and Why are
// required, and are kept in the history: see [Historian]. A lapsed lease counts as unknown; any
// other state is [ErrState]. If the record says that nothing happened, and r.Response that it did,
// the record is unknown again, as soon as the store takes it: its cause is "contradicted", no retry
// runs, and the history says who has found it.
//
//	head, err := operator.Resolve(ctx, id, stet.Execution{Fence: fence}, stet.Resolution{}, note)
//
// Evidence decides whether it happened, and the handler's own answer, if it came too late, decides
// what retries receive: r.Response is stored only where no such answer is held. If r.Response says
// another outcome than that answer, or has another body without being a Substitute, the error is
// [ErrContradicted]. If bytes of an answer have left, only the status may be given, since no other
// answer may follow them.
//
// The error is [ErrUnnamed] if of names no execution, and [ErrOtherRun] if it names another
// than the record's, or [ErrStale] if it is another by its version. That an earlier execution of
// this life had its effect is proof of an effect that was thought not to have happened: it ends
// nothing here, and is told as [DoubleEffect].
//
// That nothing happened is not believed against what the record knows. The error is
// [ErrContradicted] if a late answer says otherwise, [ErrFound] if a probe has, [ErrAttended] while
// the handler has not returned, or may still come back to say so, and [ErrNotSettled] until r.Settle
// after that; the returned Head is the record's.
//
// On a store that is a [Historian], a note with a Notice changes a record once: a second time is
// [ErrKnown], whatever became of the record since.
func (o *Operator) Resolve(ctx context.Context, id ID, of Execution, r Resolution, n Note) (Head, error) {
	if err := cmp.Or(resolutionBounds.Check(&r), of.named(r.Response != nil)); err != nil {
		return Head{}, fmt.Errorf("stet: resolve: %w", err)
	}
	h, err := o.e.change(ctx, id, of.Version, n, "resolve", func(h *Head, b *Body) (*Body, error) {
		return r.end(&of, h, b)
	})
	switch {
	case errors.Is(err, ErrOtherRun) && r.Response != nil && of.earlier(&h):
		o.e.tellDoubleEffect(&h, &of, r.Response.Status, n)
	case errors.Is(err, ErrState) && r.Response != nil && h.State == Retryable: // of matched: what freed the key is contradicted
		o.e.tellFound(&h, r.Response.Status, n)
	case errors.Is(err, errUnseenLapse): // its holder may be alive, and hears now that it has to say so
		call := detach(ctx, o.e.cfg.StoreTimeout)
		defer call.release()
		if seen, failed := o.e.replace(call, h.Version, lapsed(&h), nil); failed == nil {
			o.e.moved(&seen, h.origin(), "operator")
			h = seen
		}
	}
	return h, err
}

// end makes h the head that the evidence leaves, and returns its body.
func (r *Resolution) end(of *Execution, h *Head, b *Body) (*Body, error) {
	if err := r.fits(of, h, b); err != nil {
		return nil, err
	}
	e, err := r.conclude(h, b)
	if err != nil {
		return nil, err
	}
	if e.state == Retryable {
		if err := r.waits(h); err != nil {
			return nil, err
		}
		h.Note.Evidence = r.overrides(h, b, h.Note.Evidence)
		h.State, h.Cause, h.Escalated, h.DueIn = Retryable, "resolved", false, h.Rules.Retain
		return withoutLate(b), nil
	}
	h.Note.Evidence = r.overrides(h, b, h.Note.Evidence)
	h.State, h.Escalated, h.Reconciled = Completed, false, true
	if h.Cause != CauseDoubleEffect {
		h.Cause = ""
	}
	h.DueIn = h.Rules.retention(h.AsOf.Sub(h.CreatedAt))
	h.Status, h.Size, h.Kept = e.status, e.size, e.kept
	if e.kept == KeptStatus {
		return &Body{}, nil
	}
	return &Body{Response: e.response}, nil
}

// fits says why no evidence of r's kind can end the record, or nil.
func (r *Resolution) fits(of *Execution, h *Head, b *Body) error {
	if err := of.matches(h); err != nil {
		return err
	}
	switch {
	case h.InDoubt():
		return nil
	case h.State == Completed && r.Response != nil && !r.repeats(h, b):
		return fmt.Errorf("%w: it is completed, with status %d: %w", ErrState, h.Status, ErrContradicted)
	}
	return fmt.Errorf("%w: it is %s, not unknown", ErrState, h.State)
}

// holderGrace is how long a holder has to say that its handler still works, after it was noticed
// that its lease is over: a process that had lost the store hears of its lapse when the store is
// back, at the same time as all others. It is longer than the longest pause between two tries of
// such a process, and the default StoreTimeout (K03).
const holderGrace = 10 * time.Second

// errUnseenLapse is for a record whose lease is over, which was not noticed until now.
var errUnseenLapse = fmt.Errorf("%w: its lease ended, and its process has %s from now to say that it lives", ErrAttended, holderGrace)

// waits says for what the statement that nothing happened has to wait.
func (r *Resolution) waits(h *Head) error {
	switch {
	case r.Now, r.Override:
		return nil
	case h.State == Running && judge(h, true).move == lapse: // any other may run again without evidence
		return errUnseenLapse
	case h.Attended(), h.Cause == causeLapsed && h.Idle() < holderGrace:
		return ErrAttended
	case h.Idle() < r.Settle:
		return ErrNotSettled
	}
	return nil
}

// withoutLate is the body without a late result that was not adopted; nil if there is none.
func withoutLate(b *Body) *Body {
	if b.Response == nil {
		return nil
	}
	return &Body{Request: b.Request, Progress: b.Progress}
}

// Purge removes a stored result, so that the key is free again: for a failure that should not be
// replayed. version is as in [Resolution]. A record that is running or unknown is [ErrState]: call
// Resolve first.
func (o *Operator) Purge(ctx context.Context, id ID, version Version, n Note) error {
	h, err := o.e.change(ctx, id, version, n, "purge", func(h *Head, _ *Body) (*Body, error) {
		if h.State == Running || h.State == Unknown {
			return nil, fmt.Errorf("%w: it is %s", ErrState, h.State)
		}
		h.State, h.DueIn = Expired, 0
		return &Body{}, nil
	})
	if err != nil {
		return err
	}
	call := detach(ctx, o.e.cfg.StoreTimeout)
	defer call.release()
	if err := o.e.remove(call, id, h.Version); err == nil { // else the reaper does
		o.e.gone(&h, "operator")
	}
	return nil
}

// Extend keeps a result for retain from now, and never for less than it is: that is
// [ErrKeptLonger], because no key is free before its client was told. version is as in
// [Resolution]. A record without a result, or whose retention is over, is [ErrState].
func (o *Operator) Extend(ctx context.Context, id ID, version Version, retain time.Duration, n Note) (Head, error) {
	if err := extendBounds.Check(int64(retain)); err != nil {
		return Head{}, fmt.Errorf("stet: Extend: %w", err)
	}
	return o.e.change(ctx, id, version, n, "extend", func(h *Head, _ *Body) (*Body, error) {
		switch {
		case h.State != Completed || h.Over():
			return nil, fmt.Errorf("%w: it is %s, and its retention can no longer be extended", ErrState, h.State)
		case h.DueAt.After(h.AsOf.Add(retain)):
			return nil, ErrKeptLonger
		}
		h.Rules.Retain, h.DueIn = retain, retain
		return nil, nil
	})
}

// change reads a record, lets edit decide, and writes it with the note. If another write comes
// between, it starts again, unless the caller had decided on a version.
func (e *Engine) change(
	ctx context.Context, id ID, version Version, n Note, verb string, edit func(h *Head, b *Body) (*Body, error),
) (Head, error) {
	if blank(n.Who) || blank(n.Why) {
		return Head{}, ErrNoReason
	}
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	var fence int64 // of the attempt that was decided on: a write of this change may have landed, and another have begun since
	for range tries {
		r, err := e.get(call, id)
		if err != nil {
			return Head{}, fmt.Errorf("stet: %s: %w", verb, err)
		}
		if fence = cmp.Or(fence, r.Fence()); r.Fence() != fence {
			return r.Head, fmt.Errorf("stet: %s: %w: another attempt has begun", verb, ErrStale)
		}
		// After the record: a notice that is taken meanwhile gives it another version.
		known, err := e.known(call, id, n.Notice)
		switch {
		case err != nil:
			return Head{}, fmt.Errorf("stet: %s: %w", verb, err)
		case known:
			return r.Head, fmt.Errorf("stet: %s: %w", verb, ErrKnown)
		case version != 0 && r.Version != version:
			return r.Head, ErrStale
		}
		next, note := r.Head, n
		next.Version, next.Note = newVersion(), &note
		body, err := edit(&next, &r.Body)
		if err != nil {
			return r.Head, fmt.Errorf("stet: %s: %w", verb, err)
		}
		next.dropAttention()
		got, err := e.replace(call, r.Version, next, body)
		switch {
		case err == nil:
			if r.State != Unknown || got.State != Unknown { // who looks at it is no transition
				e.moved(&got, r.origin(), "operator")
			}
			return got, nil
		case !errors.Is(err, ErrStale) || version != 0:
			return got, fmt.Errorf("stet: %s: %w", verb, err)
		}
	}
	return Head{}, fmt.Errorf("stet: %s: %w: it kept changing", verb, ErrStale)
}

// known reports whether the history of id has a change by this notice.
func (e *Engine) known(ctx context.Context, id ID, notice string) (bool, error) {
	if notice == "" {
		return false, nil
	}
	return e.inHistory(ctx, id, func(c *Change) bool { return c.Note.Notice == notice })
}

// inHistory reports whether the history of id has a change that is looked for. A store without a
// history has none.
func (e *Engine) inHistory(ctx context.Context, id ID, is func(c *Change) bool) (bool, error) {
	h, ok := As[Historian](e.store)
	if !ok {
		return false, nil
	}
	for changes, err := range walk.Pages(func(after string) (changes []Change, next string, err error) {
		q := HistoryQuery{ID: id, After: after, Limit: MaxLimit}
		err = e.observed("history", func() (err error) { changes, next, err = h.History(ctx, q); return err })
		return changes, next, err
	}) {
		if err != nil {
			return false, err
		}
		for i := range changes {
			if is(&changes[i]) {
				return true, nil
			}
		}
	}
	return false, nil
}

// Action is what the change was: the Action of its note or, by the states, resolve, release,
// reopen, purge, extend, testify or escalate.
func (c *Change) Action() string {
	switch {
	case c.Note.Action != "":
		return c.Note.Action
	case c.To == Completed && c.From == Completed:
		return "extend"
	case c.To == Unknown && c.Note.Evidence != "": // who gives up has none
		return "testify"
	}
	return cmp.Or(actions[c.To], "change")
}

var actions = map[State]string{Running: "reopen", Completed: "resolve", Retryable: "release", Unknown: "escalate", Expired: "purge"}
