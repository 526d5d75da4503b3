package stet

import "fmt"

// phase is where in its life a claim is.
type phase uint8

const (
	active   phase = iota // it runs, and its lease is kept
	joined                // it is part of a transaction of the caller's: nothing that it wrote there is certain before Confirm
	promised              // it was settled in that transaction
	doubted               // it was settled as unknown: the holder may learn the outcome after all
	ended                 // it was settled or given up, or the record is somebody else's
	phases
)

func (p phase) String() string {
	switch p {
	case active:
		return "active"
	case joined:
		return "joined"
	case promised:
		return "promised"
	case doubted:
		return "doubted"
	case ended:
		return "ended"
	case phases:
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// deed is what is done with a claim, or becomes known of it.
type deed uint8

const (
	step       deed = iota // a write after which the run goes on: a heartbeat, a recovery point
	join                   // Claim.In
	settle                 // an outcome is stored
	doubt                  // ... which is that nobody knows
	suspend                // Claim.Suspend
	committed              // Claim.Confirm: what the transaction wrote is stored
	rolledBack             // ... nothing of it is
	lose                   // the record is somebody else's, or the store gave no answer to the last write there is
	deeds
)

// course says what phase a deed leads to; a deed that is not there is refused, and changes nothing.
var course = [phases]map[deed]phase{
	active:   {step: active, join: joined, settle: ended, doubt: doubted, suspend: ended, lose: ended},
	joined:   {step: joined, settle: promised, doubt: promised, committed: active, rolledBack: active, lose: ended},
	promised: {committed: ended, rolledBack: active, lose: ended},
	doubted:  {settle: ended, doubt: doubted, lose: ended},
	ended:    {},
}

func (p phase) allows(d deed) bool { _, ok := course[p][d]; return ok }

// after is the phase that d leads to. A deed that is not allowed is a mistake in this package.
func (p phase) after(d deed) phase {
	next, ok := course[p][d]
	if !ok {
		panic(fmt.Sprintf("stet: deed %d in phase %v", d, p))
	}
	return next
}
