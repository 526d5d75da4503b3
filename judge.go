package stet

import "github.com/stet-dev/stet/internal/names"

// Verdict is what a request is told about its key.
type Verdict uint8

const (
	Execute    Verdict = iota + 1 // run it: the Claim is yours
	Replay                        // it is done; the stored result is the answer
	InProgress                    // it runs elsewhere; ask again later
	Mismatch                      // the key was used for another request
	Unresolved                    // it may have happened; asking again is safe, running again is not
	Gone                          // its retention is over, and such keys are refused
	Absent                        // nothing to answer from, only with Request.LookupOnly
)

var verdictNames = [...]string{Execute: "execute", Replay: "replay", InProgress: "in-progress", Mismatch: "mismatch",
	Unresolved: "unresolved", Gone: "gone", Absent: "absent"}

func (v Verdict) String() string { return names.Of("Verdict", verdictNames[:], v) }

// move is what has to be written before the verdict is true.
type move uint8

const (
	stay    move = iota // nothing
	take                // Running again, same life, Body kept
	restart             // Running, a new life, Body dropped
	lapse               // Unknown: a lapsed lease proves nothing
)

// ruling is the answer of judge.
type ruling struct {
	Verdict Verdict
	move    move
}

// judge is the rulebook: it says what a request may do that meets the record h. same says whether
// the request's fingerprint, made by the record's own recipe, equals the record's. judge reads no
// clock (h.AsOf and h.DueAt are both the store's) and no policy but the record's own Rules, so that
// two processes with different settings give the same ruling.
func judge(h *Head, same bool) ruling {
	over := h.Over()
	switch h.State { // ended lives first: the payload of a dead record refuses no request
	case Completed:
		if over && h.Rules.KeepExpired > 0 && h.AsOf.Before(h.DueAt.Add(h.Rules.KeepExpired)) {
			return ruling{Gone, stay}
		}
		if over {
			return ruling{Execute, restart}
		}
	case Retryable:
		if over {
			return ruling{Execute, restart}
		}
	case Expired:
		if over {
			return ruling{Execute, restart}
		}
		return ruling{Gone, stay}
	case Running, Unknown: // never ended by time alone (I10)
	default:
		panic("stet: a record in no known state: " + h.State.String())
	}
	if !same { // before every other answer: a waiter with another payload must not receive this one's response (I9)
		return ruling{Mismatch, stay}
	}
	switch h.State {
	case Completed:
		return ruling{Replay, stay}
	case Retryable:
		return ruling{Execute, take}
	case Unknown:
		return ruling{Unresolved, stay}
	case Running:
		if !over {
			return ruling{InProgress, stay}
		}
		if mayRunAgain(h) {
			return ruling{Execute, take}
		}
		return ruling{Unresolved, lapse}
	case Expired:
		panic("stet: unreachable: expired records were ruled on above")
	}
	panic("stet: unreachable")
}

// mayRunAgain reports whether the end of a lease allows another run. If bytes of an answer have
// left, it does not: what was published stands.
func mayRunAgain(h *Head) bool {
	switch {
	case h.Published:
		return false
	case h.Rules.OnLapse == LapseReexecute, h.Rules.OnLapse == LapseAtomic:
		return true
	case h.Rules.OnLapse == LapseResume:
		return h.Point != ""
	}
	return false
}
