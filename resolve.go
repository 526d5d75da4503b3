package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet/internal/walk"
)

// The errors of the methods with which operators and reconcilers change records.
var (
	// ErrState is returned when the record's state does not allow the change.
	ErrState = errors.New("stet: the record's state does not allow this")
	// ErrNoReason is returned for a [Note] without Who or Why.
	ErrNoReason = errors.New("stet: a change needs who makes it and why")
	// ErrOtherAttempt is returned when the evidence is about another attempt than the record's.
	ErrOtherAttempt = errors.New("stet: the evidence is about another attempt than the record's")
	// ErrContradicted is returned when the record has a late answer of its handler, which says that
	// the effect happened.
	ErrContradicted = errors.New("stet: a late answer of the handler says that it happened")
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
	// Version, if not 0, is the version that the decision was made on: if the record has another
	// one, nothing is changed ([ErrStale]).
	Version Version
	// Attempt and Fence, if not 0, are what the evidence is about: [Head].Attempt, and
	// [Head.Fence], which also tells one life of a key from another. Evidence about another attempt
	// than the record's is [ErrOtherAttempt].
	Attempt int
	Fence   int64
	// Settle is how long the record must have had no holder at work before the claim that nothing
	// happened is believed: longer than a request can be under way. 0 means no time at all.
	Settle time.Duration
	// Now frees a key without waiting: before Settle is over ([ErrNotSettled]), and while the
	// handler has not returned ([ErrAttended]). Override does so also against an answer that came
	// too late ([ErrContradicted]), which no waiting cures. Both are for operators who have seen
	// what speaks against it; the history keeps that with the evidence.
	Now, Override bool
}

// Resolve ends what is unknown, on evidence. Either the effect happened, and r has the response
// that retries receive from now on, or it provably did not, and one retry may run (I14). The note's
// Who and Why are required, and are kept in the history: see [Historian]. A lapsed lease counts as
// unknown; any other state is [ErrState]. If bytes of an answer have left, only the status may be
// given, since no other answer may follow them. If the record was changed meanwhile, the error is
// [ErrStale].
//
// That nothing happened is not believed against what the record knows. The error is
// [ErrContradicted] if a late answer says otherwise, [ErrAttended] while the handler has not
// returned, and [ErrNotSettled] until r.Settle after that; the returned Head is the record's,
// unchanged.
//
// On a store that is a [Historian], a note with a Notice changes a record once: a second time is
// [ErrKnown], whatever became of the record since.
func (o *Operator) Resolve(ctx context.Context, id ID, r Resolution, n Note) (Head, error) {
	return o.e.change(ctx, id, r.Version, n, "resolve", func(h *Head, b *Body) (*Body, error) {
		if err := r.fits(h, b); err != nil {
			return nil, err
		}
		h.Escalated, h.DueIn = false, h.Rules.Retain
		if r.Response == nil {
			h.Note.Evidence = r.overrides(h, b, h.Note.Evidence)
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

// fits says why r cannot end the record, or nil.
func (r *Resolution) fits(h *Head, b *Body) error {
	switch {
	case r.Attempt != 0 && r.Attempt != h.Attempt, r.Fence != 0 && r.Fence != h.Fence():
		return ErrOtherAttempt
	case !h.InDoubt():
		return fmt.Errorf("%w: it is %s, not unknown", ErrState, h.State)
	case r.Response == nil && h.Published:
		return fmt.Errorf("%w: bytes of an answer have left, so that it did happen", ErrState)
	case h.Published && r.Kept != KeptStatus:
		return fmt.Errorf("%w: bytes of an answer have left, and another may not follow: give the status alone", ErrState)
	case r.Response == nil && !r.Override && b.Response != nil:
		return ErrContradicted
	case r.Response == nil && !r.Override && !r.Now && h.Attended():
		return ErrAttended
	case r.Response == nil && !r.Override && !r.Now && h.Idle() < r.Settle:
		return ErrNotSettled
	}
	return nil
}

// overrides adds to the evidence what spoke against it.
func (r *Resolution) overrides(h *Head, b *Body, evidence string) string {
	var against []string
	if evidence != "" {
		against = append(against, evidence)
	}
	if b.Response != nil {
		against = append(against, fmt.Sprintf("against a late answer with status %d", b.Response.Status))
	}
	switch idle := h.Idle(); {
	case h.Attended():
		against = append(against, "against a handler that had not returned")
	case idle < r.Settle:
		against = append(against, fmt.Sprintf("%s after the attempt ended, before it had settled", idle.Truncate(time.Second)))
	}
	return strings.Join(against, "; ")
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
	if retain <= 0 {
		return Head{}, fmt.Errorf("stet: Extend: %s is no time to keep a result", retain)
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
				e.moved(&got, r.State, "operator")
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
	h, ok := As[Historian](e.store)
	if notice == "" || !ok {
		return false, nil
	}
	for changes, err := range walk.Pages(func(after string) (changes []Change, next string, err error) {
		q := HistoryQuery{ID: id, After: after, Limit: MaxLimit}
		err = e.observed("history", func() (err error) { changes, next, err = h.History(ctx, q); return err })
		return changes, next, err
	}) {
		if err != nil || slices.ContainsFunc(changes, func(c Change) bool { return c.Note.Notice == notice }) {
			return err == nil, err
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

// witnessFor is how long a result that could not be stored before its lease ended is kept to be
// stored as evidence: long enough for a store to be repaired, and no longer than answers should be
// kept in memory.
const witnessFor = 15 * time.Minute

// causeContradicted is the Cause of a record that was freed on evidence that nothing had happened,
// before its handler returned with an answer: which of them is right is not known.
const causeContradicted = "contradicted"

// testify stores a result that came too late with its record, which stays unknown: the result can
// change nothing any more, but it is evidence for the reconciler or operator who ends the record
// (SF-05). The response is kept in the record's Body, and no retry receives it before it is
// adopted; the history says when it came. A key that was freed meanwhile, and not used, becomes
// unknown again. A record that has gone on since, in another run or life, is left alone. It returns
// true if there is nothing left to do.
func (c *Claim) testify(call *detached, h *Head, b *Body) (bool, error) {
	have, err := c.e.get(call, c.id)
	switch {
	case errors.Is(err, ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	case !have.CreatedAt.Equal(h.CreatedAt) || have.Attempt != h.Attempt:
		return true, nil
	}
	from, next := have.State, have.Head
	switch {
	case have.State == Running && judge(&have.Head, true).move == lapse:
		next = lapsed(&have.Head)
	case have.State == Running && !have.Over(): // by the store's clock the lease is not over yet
		return false, nil
	case have.State == Retryable && h.State == Completed: // what freed the key is contradicted, and no retry has run
		next.State, next.Cause = Unknown, causeContradicted
	case have.State != Unknown:
		return true, nil
	}
	note := Note{Who: c.e.cfg.Holder, Why: "a result that came too late", Evidence: evidence(h)}
	same := h.State == Completed && !have.Late().IsZero() && have.Status == h.Status && have.Size == h.Size
	if same || have.Note != nil && *have.Note == note { // it was written, and the answer was lost
		return true, nil
	}
	if next.Version, next.Note, next.DueIn = newVersion(), &note, 0; next.Escalated { // people have it
		next.DueIn = Never
	}
	if from == Unknown {
		next.keepSince(have.Ended())
	}
	next.Took = have.AsOf.Sub(have.CreatedAt) // the handler has only now returned
	var body *Body
	if h.State == Completed {
		next.Status, next.Size, next.Kept = h.Status, h.Size, h.Kept
		body = &Body{Response: b.Response, Request: have.Request, Progress: have.Progress}
		if body.Response == nil {
			body.Response = &Response{Status: h.Status}
		}
		a := next.attention()
		a.Late, a.Snooze = have.AsOf.UTC(), nil // it is news
		next.setAttention(&a)
	}
	got, err := c.e.replace(call, have.Version, next, body)
	if err == nil && from != Unknown {
		c.e.moved(&got, from, "holder")
	}
	return err == nil, err
}

func evidence(h *Head) string {
	if h.State == Completed {
		return fmt.Sprintf("attempt %d was answered %d, with %d bytes", h.Attempt, h.Status, h.Size)
	}
	return fmt.Sprintf("attempt %d stated that nothing happened", h.Attempt)
}

// testifies reports whether h is evidence: an outcome that is itself unknown is none.
func testifies(h *Head) bool { return h.State == Completed || h.State == Retryable }

// testifyOnce is for a holder that was overtaken, and waits.
func (c *Claim) testifyOnce(ctx context.Context, h *Head, b *Body) {
	if !testifies(h) {
		return
	}
	call := detach(ctx, c.e.cfg.StoreTimeout)
	defer call.release()
	for pause := firstWait; ; {
		done, err := c.testify(call, h, b)
		if done || err == nil || !errors.Is(err, ErrStale) || !sleep(call, &pause, call.deadline()) {
			return
		}
	}
}

// testifyLater is for a store that did not take the result while the lease lasted. It tries for a
// while, and once more when a caller waits in Drain: a process that ends does not wait for a store
// that is away.
func (c *Claim) testifyLater(ctx context.Context, h Head, b *Body) {
	if !testifies(&h) {
		return
	}
	end := time.Now().Add(witnessFor)
	c.e.Go(maxCleanups, func() {
		hurried := c.e.chores.hurried()
		for pause := 100 * firstWait; ; pause = min(2*pause, c.e.cfg.StoreTimeout) {
			t := time.NewTimer(pause/2 + rand.N(pause))
			last := false
			select {
			case <-t.C:
				last = !time.Now().Before(end)
			case <-hurried:
				last = true
				t.Stop()
			}
			call := detach(ctx, c.e.cfg.StoreTimeout)
			done, _ := c.testify(call, &h, b)
			call.release()
			if done || last {
				return
			}
		}
	})
}
