package stethttp

import (
	"net/http"
	"strings"

	"github.com/stet-dev/stet"
)

// The words of Stet-Outcome.
const (
	sayNotExecuted = "not-executed"
	sayUnknown     = "unknown"
	sayCompleted   = "completed"
)

// readOutcome reads the lines of Stet-Outcome, 0 where there is none. A word in any case is meant; what is no word of it, or more
// than one, might have been meant as any of them: that is unknown, and not ok.
func readOutcome(lines []string) (s stet.State, ok bool) {
	switch {
	case len(lines) == 0:
		return 0, true
	case len(lines) > 1:
		return stet.Unknown, false
	}
	switch word := strings.Trim(lines[0], " \t"); {
	case strings.EqualFold(word, sayNotExecuted):
		return stet.Retryable, true
	case strings.EqualFold(word, sayUnknown):
		return stet.Unknown, true
	case strings.EqualFold(word, sayCompleted):
		return stet.Completed, true
	}
	return stet.Unknown, false
}

// stated does what the handler said in lines of Stet-Outcome, and reports whether it said anything.
func (x *exchange) stated(lines []string) bool {
	s, ok := readOutcome(lines)
	switch {
	case !ok:
		x.miswired(causeOutcome)
		x.claim.Unknown(causeOutcome)
	case s == stet.Retryable:
		x.claim.NotExecuted("stated")
	case s == stet.Unknown:
		x.claim.Unknown("stated")
	case s == stet.Completed:
		x.claim.Completed()
	}
	return s != 0
}

// relay tells a layer in front what became of a run that was refused in the layer's place: it cannot tell that answer from the
// handler's.
func (x *exchange) relay(h http.Header) {
	switch x.claim.Head().State {
	case stet.Retryable:
		h[outcomeHeader] = []string{sayNotExecuted}
	case stet.Completed:
	default:
		h[outcomeHeader] = []string{sayUnknown}
	}
}

// Causes of [stet.Miswired].
const (
	causeOutcome = "bad-outcome"  // the handler stated its outcome in words that do not exist; it counts as unknown
	causeGuard   = "second-guard" // the request met the record that was made for it: see [exchange.metItself]
	causeRender  = "bad-render"   // Config.Render panicked, or answered nothing
)

func (x *exchange) miswired(cause string) {
	x.g.engine.Observe(stet.Event{Kind: stet.Miswired, ID: x.id, Route: x.g.cfg.Route, TraceID: traceID(x.r.Header),
		Attempt: x.attempt, Cause: cause})
}
