package reconcile

import "github.com/stet-dev/stet"

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
	ReleaseFound      Release = "found"       // a probe found its effect, or that it goes on
	ReleaseAttended   Release = "attended"    // its handler has not returned
	ReleaseNotSettled Release = "not-settled" // its attempt ended less than Settle ago
)

// May reports whether the record may be released.
func (r Release) May() bool {
	return r == ReleaseNoTrace || r == ReleaseSettled || r == ReleaseUndecided || r == ReleaseUnprovable
}

// Release rules on a record as it was read. late says that it has an answer that came too late, and
// last is its [LastAnswer]; nil: it is not known. What stands in the way for good
// goes before what time cures.
func (p Plan) Release(h *stet.Head, late bool, last *Answer) Release {
	switch {
	case !h.InDoubt():
		return ReleaseKnown
	case h.Published:
		return ReleasePublished
	case late:
		return ReleaseLateAnswer
	case last.says(Happened, GoesOn):
		return ReleaseFound
	case h.Attended():
		return ReleaseAttended
	case h.Idle() < p.Settle:
		return ReleaseNotSettled
	case p.Settle == stet.Never:
		return ReleaseUnprovable
	case last == nil && h.Probes == 0:
		return ReleaseSettled
	case last.says(Missing, Voided):
		return ReleaseNoTrace
	}
	return ReleaseUndecided
}

func (a *Answer) says(one, other Effect) bool {
	return a != nil && (a.Found == one.String() || a.Found == other.String())
}
