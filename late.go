package stet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// CauseDoubleEffect is the Cause of a record of whose key two executions had their effect, as far
// as is known: an earlier one, which was thought not to have happened, and the record's.
const CauseDoubleEffect = "double-effect"

// actionDoubleEffect is the action of its entry in the history. The entry is Stet's own, and says
// where the proof came from: stores find entries by Who.
const (
	actionDoubleEffect    = CauseDoubleEffect
	whoTellsDoubleEffects = "stet"
)

// causeContradicted is the Cause of a record that was freed on evidence that nothing had happened,
// before its handler returned with an answer: which of them is right is not known.
const causeContradicted = "contradicted"

// lessened takes the answer out of a result that the store refuses for what it is, and reports
// whether there was one.
func lessened(h *Head, b **Body) bool {
	if *b == nil || (*b).Response == nil || h.Kept == KeptStatus {
		return false
	}
	h.Kept, *b = KeptStatus, &Body{}
	return true
}

// place stores l where it belongs, by what the record says now. It returns true if there is nothing
// left to do.
func (e *Engine) place(call *detached, l *learned) (bool, error) {
	have, err := e.get(call, l.head.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		e.unplaced(l, err)
		return true, nil
	case err != nil:
		return false, err
	case have.Version == l.head.Version: // it landed, and its answer was lost
		e.placed(l, &have.Head, l.origin())
		return true, nil
	case have.Fence() != l.head.Fence():
		return e.placeBehind(call, l, &have)
	}
	switch have.State {
	case Running:
		if have.Note == nil {
			return e.settleNow(call, l, &have)
		}
		e.unplaced(l, ErrStale) // it was unknown, and goes on by a decision: see [Operator.Reopen]
	case Unknown:
		switch {
		case l.settles(&have.Head):
			return e.settleNow(call, l, &have)
		case l.attends():
			return e.attended(call, &l.head, l.claim.policy.Lease), nil
		}
		return e.attest(call, l, &have, have.Cause)
	case Retryable:
		if l.head.State == Completed { // what freed the key is contradicted, and no retry has run
			return e.attest(call, l, &have, causeContradicted)
		}
	case Completed:
		if l.head.State == Completed && l.told && have.Reconciled && have.Status != l.head.Status {
			e.unplaced(l, ErrContradicted)
		}
	case Expired: // as a run that might have run again, and did not; or by a person
		if l.head.State == Completed {
			e.unplaced(l, ErrState)
		}
	}
	return true, nil
}

// settles reports whether l ends the record, which is unknown: as long as no other execution has
// begun, the holder knows best what became of its own. It does if its caller has the answer, or if
// the holder alone has said that the outcome is unknown. Otherwise it is evidence, for those who
// were told of the lapse.
func (l *learned) settles(have *Head) bool {
	if l.head.State == Unknown || have.Cause == causeContradicted || have.Cause == CauseDoubleEffect || !have.Late().IsZero() {
		return false
	}
	return l.head.State == Completed && l.told || l.doubts && have.Cause != causeLapsed && have.Cause != CauseHolderGone
}

// settleNow writes l over the record, as its holder does in time.
func (e *Engine) settleNow(call *detached, l *learned, have *Record) (bool, error) {
	l.head.Version = newVersion()
	h := l.head
	h.CompletedAt, h.Note = have.CompletedAt, nil
	// What the run left last may be there although it was not answered, with its Body (W2).
	h.Point, h.DownstreamKey, h.DownstreamID = have.Point, have.DownstreamKey, have.DownstreamID
	h.dropAttention()
	switch h.State {
	case Completed:
		h.DueIn = h.Rules.retention(have.AsOf.Sub(have.CreatedAt))
	case Unknown:
		if h.Took = have.AsOf.Sub(have.CreatedAt); l.attends() {
			h.keepSince(have.AsOf)
			h.Took += l.claim.policy.Lease
		}
	default:
	}
	body := l.body
	if body == nil && h.State == Retryable {
		body = withoutLate(&have.Body)
	}
	got, err := e.replace(call, have.Version, h, body)
	if err == nil {
		e.placed(l, &got, have.origin())
	}
	return err == nil, err
}

// placed tells that l is the record's outcome.
func (e *Engine) placed(l *learned, got *Head, from origin) {
	l.taken = got
	e.Observe(Event{Kind: Persisted, ID: got.ID, Route: got.Route, TraceID: got.TraceID, To: got.State})
	e.moved(got, from, "holder")
}

// origin is what the record was when the holder wrote to it last. The head that is to replace it
// still has the end of its lease.
func (l *learned) origin() origin {
	if l.doubts {
		return origin{state: Unknown}
	}
	return origin{state: Running, due: l.head.DueAt}
}

// attends reports whether l says that the outcome is unknown and its handler still works.
func (l *learned) attends() bool {
	if l.claim == nil || l.head.State != Unknown {
		return false
	}
	defer l.claim.mu.Unlock()
	return l.claim.lock() && l.claim.heartbeat.attending != nil
}

// placeNow is place for a holder that waits for it. It returns false if the store did not answer in
// time.
func (e *Engine) placeNow(ctx context.Context, l *learned) bool {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	for pause := firstWait; ; {
		done, err := e.place(call, l)
		if done || !refused(err) || !sleep(call, &pause, call.deadline()) {
			return done
		}
	}
}

// attest keeps l with a record that others have said to be unknown, or free: it stays unknown. The
// answer is in its body, no retry receives it before it is adopted, and the history says when it
// came. That an outcome is unknown is no news.
func (e *Engine) attest(call *detached, l *learned, have *Record, cause string) (bool, error) {
	if !testifies(&l.head) {
		return true, nil
	}
	from, next := have.State, have.Head
	note := Note{Who: e.cfg.Holder, Why: "a result that came too late", Evidence: evidence(&l.head)}
	if l.note != nil {
		note = Note{Who: l.note.Who, Why: "it was found to have happened after its key was freed", Evidence: l.foundBy()}
	}
	if l.held(have) || have.Note != nil && *have.Note == note { // it was written, and the answer was lost
		return true, nil
	}
	next.State, next.Cause = Unknown, cause
	if next.Version, next.Note, next.DueIn = newVersion(), &note, 0; next.Escalated { // people have it
		next.DueIn = Never
	}
	if from == Unknown {
		next.keepSince(have.Ended())
	}
	next.Took = have.AsOf.Sub(have.CreatedAt) // the handler has only now returned
	body := next.keepAnswer(l, have)
	got, err := e.replace(call, have.Version, next, body)
	if err == nil && from != Unknown {
		e.moved(&got, have.origin(), "holder")
	}
	return err == nil, err
}

// held reports whether the record holds the answer of l as evidence. After a double effect it may
// be that of another execution, with the same status and size.
func (l *learned) held(have *Record) bool {
	if l.head.State != Completed || have.Late().IsZero() || have.Response == nil || have.Status != l.head.Status || have.Size != l.head.Size {
		return false
	}
	return l.body.Response == nil || bytes.Equal(l.body.Response.Body, have.Response.Body)
}

// keepAnswer puts the answer of l into a record that stays unknown, and returns its body.
func (h *Head) keepAnswer(l *learned, have *Record) *Body {
	if l.head.State != Completed {
		return nil
	}
	h.Status, h.Size, h.Kept = l.head.Status, l.head.Size, l.head.Kept
	body := &Body{Response: l.body.Response, Request: have.Request, Progress: have.Progress}
	if body.Response == nil {
		body.Response = &Response{Status: l.head.Status}
	}
	a := h.attention()
	a.Late, a.Snooze = have.AsOf.UTC(), nil // it is news
	h.setAttention(&a)
	return body
}

func evidence(h *Head) string {
	if h.State == Completed {
		return fmt.Sprintf("attempt %d was answered %d, with %d bytes", h.Attempt, h.Status, h.Size)
	}
	return fmt.Sprintf("attempt %d stated that nothing happened", h.Attempt)
}

// testifies reports whether h is evidence: an outcome that is itself unknown is none.
func testifies(h *Head) bool { return h.State == Completed || h.State == Retryable }

// placeBehind is place for a record that has gone on to another execution. Only one thing is left
// to say of an earlier one: that it had its effect after all.
func (e *Engine) placeBehind(call *detached, l *learned, have *Record) (bool, error) {
	if l.head.State != Completed {
		return true, nil
	}
	// By its own rule the run goes on after a lapse, and it was known that it may have happened.
	expected := l.head.Rules.OnLapse == LapseReexecute || l.head.Rules.OnLapse == LapseResume && have.Point != ""
	until, sameLife := have.CreatedAt, have.CreatedAt.Equal(l.head.CreatedAt)
	if sameLife {
		until = have.AsOf
	}
	if expected || !sameLife {
		freed, err := e.freed(call, &l.head, until)
		if err == nil && !freed && !sameLife {
			e.unplaced(l, nil)
		}
		if err != nil || !freed {
			return err == nil, err
		}
	}
	if have.Cause != CauseDoubleEffect && !l.loud.Swap(true) {
		e.Observe(Event{Kind: DoubleEffect, ID: have.ID, Route: have.Route, TraceID: have.TraceID, To: have.State, Attempt: have.Attempt,
			Fence: l.head.Fence(), Status: l.head.Status})
	}
	return e.markDoubleEffect(call, l, have)
}

// freed reports whether the history says that the execution of h was found not to have happened,
// until then. A store without a history cannot say so.
func (e *Engine) freed(ctx context.Context, h *Head, until time.Time) (bool, error) {
	return e.inHistory(ctx, h.ID, func(c *Change) bool {
		return c.To == Retryable && c.Attempt == h.Attempt && !c.At.Before(h.CreatedAt) && !c.At.After(until)
	})
}

// markDoubleEffect writes into the record that an earlier execution had its effect, as soon as
// it has no holder: a key that is free is taken back, an unknown one keeps the answer as evidence
// against being freed, and a result stays and says it.
func (e *Engine) markDoubleEffect(call *detached, l *learned, have *Record) (bool, error) {
	from, next := have.State, have.Head
	note := Note{Who: whoTellsDoubleEffects, Why: "an earlier execution had its effect", Action: actionDoubleEffect,
		Evidence: evidence(&l.head) + ", says " + e.cfg.Holder}
	if l.note != nil {
		note.Evidence = l.foundBy()
	}
	var body *Body
	switch have.State {
	case Running:
		return false, nil // its holder has the version: it is marked when the run has ended
	case Completed:
		next.DueIn = have.dueStill()
	case Retryable, Unknown:
		if have.Late().IsZero() {
			next.State = Unknown
			body = next.keepAnswer(l, have)
		}
		if next.DueIn = 0; next.Escalated {
			next.DueIn = Never
		}
		if from == Retryable {
			next.Took = have.AsOf.Sub(have.CreatedAt)
		}
	case Expired:
		return true, nil
	}
	if have.Cause == CauseDoubleEffect && have.Note != nil && *have.Note == note {
		return true, nil
	}
	next.Version, next.Cause, next.Note = newVersion(), CauseDoubleEffect, &note
	got, err := e.replace(call, have.Version, next, body)
	if err == nil && from != got.State {
		e.moved(&got, have.origin(), "holder")
	}
	return err == nil, err
}

// foundBy is the evidence of what another than the holder has found.
func (l *learned) foundBy() string {
	return strings.TrimSuffix(evidence(&l.head)+", says "+l.note.Who+": "+l.note.Evidence, ": ")
}

// tellDoubleEffect is for evidence that an earlier execution of the record's life had its effect.
func (e *Engine) tellDoubleEffect(have *Head, of *Execution, status int, n Note) {
	earlier := *have
	earlier.Attempt = int(of.Fence - have.CreatedAt.UnixMicro())
	e.tellFound(&earlier, status, n)
}

// tellFound is for evidence that the execution of h had its effect, of which the record says
// otherwise: the record is unknown again, as soon as the store takes it.
func (e *Engine) tellFound(h *Head, status int, n Note) {
	found := *h
	found.Version, found.State, found.Status, found.Kept, found.Size = newVersion(), Completed, status, KeptStatus, 0
	e.keep(&learned{note: &n, head: found, body: &Body{}, due: time.Now()})
}
