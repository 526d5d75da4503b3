package reconcile

import (
	"cmp"
	"time"

	"github.com/stet-dev/stet"
)

// Plan is what the background does with the records of an installation, as far as what follows from
// a record depends on it.
type Plan struct {
	MaxProbes int           // of one record; 0 where nothing is asked
	Settle    time.Duration // as in [Reconciler]: 0 means [DefaultSettle], [stet.Never] that Missing proves nothing
}

// Plan returns the plan that r carries out; a nil r has none, with the default Settle.
func (r *Reconciler) Plan() Plan {
	if r == nil {
		return Plan{Settle: DefaultSettle}
	}
	return Plan{MaxProbes: cmp.Or(r.MaxProbes, defaultMaxProbes), Settle: cmp.Or(r.Settle, DefaultSettle)}
}

// Next is what happens to a record if people do nothing.
type Next string

// What happens by itself.
const (
	LeaseEnds  Next = "lease-ends"  // then its outcome is unknown, or it goes on by its rules
	Resumes    Next = "resumes"     // a suspended run may go on
	Probes     Next = "probe"       // the next probe may end it
	ProbeFrees Next = "probe-frees" // the next probe frees the key if it finds no trace
	Stays      Next = "stays"       // only people end it
	Expires    Next = "expires"     // its retention ends: the key is free, or refused as expired if its Rules say so
	Refused    Next = "refused"     // the key is refused as expired until then, and free afterwards
)

// Outlook says what follows from a record as it was read.
type Outlook struct {
	// SettledAt, of a record whose outcome is unknown, is the earliest instant at which a missing
	// trace proves that nothing happened. It moves later while the handler has not returned, and
	// when a run whose lease is over becomes unknown only then. It is zero where no time proves it:
	// after a late answer, or once bytes of an answer have left.
	SettledAt  time.Time
	NextProbe  time.Time // zero: none is planned
	ProbesLeft int
	FreesAt    time.Time // of the first of the probes left that comes after SettledAt
	Next       Next
	At         time.Time // when Next happens; zero: never
}

// Outlook computes it.
func (p Plan) Outlook(h *stet.Head) Outlook {
	switch h.State {
	case stet.Completed, stet.Retryable:
		if kept := h.Rules.KeepExpired; h.State == stet.Completed && kept > 0 && h.Over() {
			return Outlook{Next: Refused, At: h.DueAt.Add(kept)}
		}
		return Outlook{Next: Expires, At: h.DueAt}
	case stet.Expired:
		return Outlook{Next: Refused, At: h.DueAt}
	case stet.Running:
		o := Outlook{Next: LeaseEnds, At: h.DueAt}
		switch {
		case h.Cause == stet.CauseSuspended:
			o.Next = Resumes
		case h.Verdict() == stet.Unresolved: // the lease is over: it is unknown to all who ask
			o.SettledAt = p.settledAt(h)
		}
		return o
	case stet.Unknown:
		return p.unknown(h)
	}
	panic("reconcile: a record in no known state: " + h.State.String())
}

func (p Plan) settledAt(h *stet.Head) time.Time {
	if !h.Late().IsZero() || h.Published || p.Settle == stet.Never {
		return time.Time{}
	}
	return Settled(h, p.Settle)
}

// Settled is when a record whose outcome is unknown has had no handler at work for so long.
func Settled(h *stet.Head, settle time.Duration) time.Time { return h.Ended().Add(max(0, settle)) }

func (p Plan) unknown(h *stet.Head) Outlook {
	o := Outlook{SettledAt: p.settledAt(h), Next: Stays}
	if h.DueAt.IsZero() || h.Probes >= p.MaxProbes {
		return o
	}
	o.NextProbe, o.ProbesLeft = h.DueAt, p.MaxProbes-h.Probes
	o.Next, o.At = Probes, h.DueAt
	if o.SettledAt.IsZero() {
		return o
	}
	at := h.DueAt
	if h.AsOf.After(at) { // it is due, and made soon
		at = h.AsOf
	}
	for probes := h.Probes; probes < p.MaxProbes; probes++ {
		if !at.Before(o.SettledAt) {
			if o.FreesAt = at; probes == h.Probes {
				o.FreesAt, o.Next = o.NextProbe, ProbeFrees
			}
			break
		}
		at = at.Add(pause(probes))
	}
	return o
}

// Release says whether people may say of a record that it did not happen, which frees its key, and
// why.
type Release string

// Of these a record may be released.
const (
	ReleaseNoTrace    Release = "no-trace"   // it has settled, and the last probe found none
	ReleaseSettled    Release = "settled"    // it has settled, and no probe has said anything
	ReleaseUndecided  Release = "undecided"  // it has settled, and the last probe could not tell, as far as is known
	ReleaseUnprovable Release = "unprovable" // no time proves anything: people have to know
)

// Of these it may not.
const (
	ReleaseKnown      Release = "known"       // it is not unknown
	ReleasePublished  Release = "published"   // bytes of an answer have left
	ReleaseLateAnswer Release = "late-answer" // the handler gave an answer too late
	ReleaseFound      Release = "found"       // a probe found its effect
	ReleaseAttended   Release = "attended"    // its handler has not returned
	ReleaseNotSettled Release = "not-settled" // its attempt ended less than Settle ago
)

// May reports whether the record may be released.
func (r Release) May() bool {
	return r == ReleaseNoTrace || r == ReleaseSettled || r == ReleaseUndecided || r == ReleaseUnprovable
}

// Many reports whether the record may be released together with others, of which people do not look
// at each: it has settled, and a trace was looked for and not found.
func (r Release) Many() bool { return r == ReleaseNoTrace }

// Release rules on a record as it was read. What stands in the way for good goes before what time
// cures.
func (p Plan) Release(h *stet.Head) Release {
	last, asked := h.LastProbe()
	switch {
	case !h.InDoubt():
		return ReleaseKnown
	case h.Published:
		return ReleasePublished
	case !h.Late().IsZero():
		return ReleaseLateAnswer
	case last.Found == stet.FoundHappened:
		return ReleaseFound
	case h.Attended():
		return ReleaseAttended
	case h.Idle() < p.Settle:
		return ReleaseNotSettled
	case p.Settle == stet.Never:
		return ReleaseUnprovable
	case !asked && h.Probes == 0:
		return ReleaseSettled
	case last.Found == Missing.String(), last.Found == stet.FoundVoided:
		return ReleaseNoTrace
	}
	return ReleaseUndecided
}
