package stethttp

import (
	"net/http"
	"runtime"

	"github.com/stet-dev/stet/internal/wiring"
)

// causeTimeout is the cause of a run that [http.TimeoutHandler] has answered for, within the guard,
// while its handler goes on; and of the [stet.Miswired] event.
const causeTimeout = "timeout-handler"

// timeoutHandler is the function that answers. Where it stands around the guard, the guard runs on
// another goroutine.
const timeoutHandler = "net/http.(*timeoutHandler).ServeHTTP"

// framesLooked is how far below a writer's caller it is looked for: writers of other middleware may
// stand between.
const framesLooked = 64

// ofTimeoutHandler reports whether http.TimeoutHandler stands between the guard and its handler, and
// answers with this status. For a handler that it has given up it answers 503, and there is no other
// sign of that: it may also be the handler's own status, which counts as no result either.
//
// It is looked for where the status is that one, and where a test asks.
func (c *capture) ofTimeoutHandler(status int) bool {
	gives, hear := status == http.StatusServiceUnavailable, wiring.Heard(c.x.r.Context())
	if !gives && hear == nil {
		return false
	}
	var callers [framesLooked]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function != timeoutHandler {
			continue
		}
		if hear != nil {
			hear()
		}
		return gives
	}
	return false
}
