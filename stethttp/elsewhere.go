package stethttp

import (
	"net/http"

	"github.com/stet-dev/stet"
)

// CauseElsewhere is the Cause of a record whose handler answered, or was going to, where its guard does not see it: the bridge
// between them and another framework is wrong. The same word is the Cause of a [stet.Miswired] event.
const CauseElsewhere = "answered-elsewhere"

// silence is what it means that a handler returned without a word. In net/http that is an empty 200. Behind a bridge to another
// framework it may be that the handler answered the framework's writer (gin), that its error is answered once the guard has
// returned (echo), or that it has not even begun (fiber). An empty 200 would be an invention then.
type silence uint8

const (
	empty     silence = iota // a 200 without a body
	unsaid                   // whatever is meant, nobody has told the client yet
	elsewhere                // the client has an answer, which the guard has not seen
)

// silence is asked once, of a handler that returned.
func (x *exchange) silence() silence {
	if x.cap.status != 0 || x.cap.phase() != holding {
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
		case answersLater(w), goesOn(w):
			s = unsaid
		}
	}
	if s == unsaid && x.claim.Stated() == stet.Completed {
		return empty
	}
	return s
}

// written asks a writer around the guard, by the names that frameworks have for it.
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

// answersLater knows the writer of echo, whose handlers return errors that are answered further out.
func answersLater(w http.ResponseWriter) bool {
	_, ok := w.(interface {
		Before(func())
		After(func())
	})
	return ok
}

// goesOn knows the writer of gin, which sends a status alone when all handlers are done, and runs those that follow a middleware
// whatever that has answered.
func goesOn(w http.ResponseWriter) bool {
	_, ok := w.(interface{ WriteHeaderNow() })
	return ok
}

// answeredElsewhere states what is known of a run whose answer is not: nothing, unless the handler has proof that nothing happened.
func (x *exchange) answeredElsewhere() {
	if x.claim.Stated() != stet.Retryable {
		x.claim.Unknown(CauseElsewhere)
	}
	x.miswired(CauseElsewhere)
}

// bar keeps gin from running the handler of a request that the guard has answered itself: the handler answered past the guard
// before, so the bridge may well not abort either.
func (x *exchange) bar() {
	_ = http.NewResponseController(x.w).Flush()
	panic(http.ErrAbortHandler)
}

// unheard tells of an answer that comes when the handler's silence was taken for an empty 200. It is called with the lock held.
func (c *capture) unheard() {
	if c.move(speak) {
		c.x.miswired(CauseElsewhere)
	}
}
