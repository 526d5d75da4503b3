package stet

import "fmt"

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

func (v Verdict) String() string {
	switch v {
	case Execute:
		return "execute"
	case Replay:
		return "replay"
	case InProgress:
		return "in-progress"
	case Mismatch:
		return "mismatch"
	case Unresolved:
		return "unresolved"
	case Gone:
		return "gone"
	case Absent:
		return "absent"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Move is what must be written before a verdict is true.
type Move uint8

const (
	Stay    Move = iota // nothing
	Take                // Running again, same life, Body kept
	Restart             // Running, a new life, Body dropped
	Lapse               // Unknown: a lapsed lease proves nothing
)

func (m Move) String() string {
	switch m {
	case Stay:
		return "stay"
	case Take:
		return "take"
	case Restart:
		return "restart"
	case Lapse:
		return "lapse"
	}
	return fmt.Sprintf("Move(%d)", uint8(m))
}

// Ruling is judge's answer.
type Ruling struct {
	Verdict Verdict
	Move    Move
}

// judge is the rulebook: what a request may do that meets the record h. same says whether the request's fingerprint, made
// by the record's own recipe, equals the record's. It reads no clock (h.AsOf and h.DueAt are both the store's) and no policy
// but the record's own Rules: two processes with different settings give the same ruling.
func judge(h *Head, same bool) Ruling {
	over := h.Over()
	switch h.State { // ended lives first: a dead record refuses nobody for its payload
	case Completed:
		if over && h.Rules.KeepExpired > 0 && h.AsOf.Before(h.DueAt.Add(h.Rules.KeepExpired)) {
			return Ruling{Gone, Stay}
		}
		if over {
			return Ruling{Execute, Restart}
		}
	case Retryable:
		if over {
			return Ruling{Execute, Restart}
		}
	case Expired:
		if over {
			return Ruling{Execute, Restart}
		}
		return Ruling{Gone, Stay}
	case Running, Unknown: // never ended by time alone (I10)
	default:
		panic("stet: a record in no known state: " + h.State.String())
	}
	if !same { // before every other answer: a waiter with another payload must not receive this one's response (I9)
		return Ruling{Mismatch, Stay}
	}
	switch h.State {
	case Completed:
		return Ruling{Replay, Stay}
	case Retryable:
		return Ruling{Execute, Take}
	case Unknown:
		return Ruling{Unresolved, Stay}
	case Running:
		if !over {
			return Ruling{InProgress, Stay}
		}
		if mayRunAgain(h) {
			return Ruling{Execute, Take}
		}
		return Ruling{Unresolved, Lapse}
	case Expired:
		panic("stet: unreachable: expired records were ruled on above")
	}
	panic("stet: unreachable")
}

// mayRunAgain is what a lapsed lease allows. Where bytes of an answer have left, nothing: what was published stands.
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
