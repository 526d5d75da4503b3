package stethttp

import (
	"net/http"

	"github.com/stet-dev/stet"
)

// CauseElsewhere is the Cause of a record whose handler answered, or was going to answer, where its
// guard cannot see it, because the bridge to another framework is wrong. It is also the Cause of
// the [stet.Miswired] event.
const CauseElsewhere = "answered-elsewhere"

// silence is the meaning of a handler that returned without writing anything. In net/http that is
// an empty 200. Behind a bridge to another framework, the handler may have answered the framework's
// own writer (gin), its error may be answered after the guard has returned (echo), or it may not
// even have begun (fiber). An empty 200 would then be an invention. So would the answer of a handler
// that the guard has seen and the client has not: it has heard what the framework's own writer sent.
type silence uint8

const (
	empty     silence = iota // a 200 without a body
	unsaid                   // the client has not been told anything yet
	elsewhere                // the client has an answer that the guard has not sent
)

// silence is called once, when the handler has returned.
func (x *run) silence() silence {
	if x.cap.phase() != holding {
		return empty
	}
	if x.cap.status != 0 {
		for w := x.w; w != nil; w = unwrap(w) {
			if t, ok := w.(interface{ Written() bool }); ok && t.Written() { // Size may be that of a buffer
				return elsewhere
			}
		}
		return empty
	}
	s := empty
	if _, fast := x.r.Context().(interface{ UserValue(key any) any }); fast { // fasthttp's, under fiber
		s = unsaid
	}
	for w := x.w; w != nil; w = unwrap(w) {
		switch {
		case written(w):
			return elsewhere
		case is[echoWriter](w), is[ginWriter](w):
			s = unsaid
		}
	}
	if s == unsaid && x.claim.Stated() == stet.Completed {
		return empty
	}
	return s
}

// written reports whether a writer around the guard has been written to. It asks by the method
// names that frameworks have for this.
func written(w http.ResponseWriter) bool {
	if t, ok := w.(interface{ Written() bool }); ok && t.Written() {
		return true
	}
	if t, ok := w.(interface{ Size() int }); ok && t.Size() > 0 {
		return true
	}
	t, ok := w.(interface{ BytesWritten() int })
	return ok && t.BytesWritten() > 0
}

// echoWriter recognises the writer of echo, whose handlers return errors that are answered further
// out.
type echoWriter interface {
	Before(func())
	After(func())
}

// ginWriter recognises the writer of gin, which sends a bare status only when all handlers are
// done, and runs the handlers after a middleware whatever the middleware has answered.
type ginWriter interface{ WriteHeaderNow() }

func is[T any](w http.ResponseWriter) bool { _, ok := w.(T); return ok }

// answeredElsewhere states the outcome of a run whose answer was not seen: unknown, unless the
// handler has stated that nothing happened.
func (x *run) answeredElsewhere() {
	if x.claim.Stated() != stet.Retryable {
		x.claim.Unknown(CauseElsewhere)
	}
	x.miswired(CauseElsewhere)
}

// bar keeps gin from running the handler of a request that the guard has answered. The handler
// answered past the guard before, so the bridge may not abort either.
func (x *exchange) bar() {
	_ = http.NewResponseController(x.w).Flush()
	panic(http.ErrAbortHandler)
}

// unheard reports a handler that writes after its silence was sent as an empty 200. The caller
// holds the lock.
func (c *capture) unheard() {
	if c.move(speak) {
		c.x.miswired(CauseElsewhere)
	}
}
