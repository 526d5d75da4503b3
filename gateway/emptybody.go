package gateway

import (
	"io"
	"log/slog"
	"net/http"
)

// EmptyBody says how a guarded request without a body is sent over HTTP/1.
type EmptyBody uint8

const (
	// EmptyChunked sends it in chunks, of which there are none. Intermediaries that are made with
	// net/http, and others, send a request without a body again if it has an Idempotency-Key and
	// its connection broke, whether the upstream has acted on it or not. The length of what is sent
	// in chunks is known to none of them (R01).
	EmptyChunked EmptyBody = iota
	// EmptyLength sends Content-Length: 0, to an upstream that cannot read chunks.
	EmptyLength
)

// lengthRequired reports whether the upstream has refused a guarded request because its empty body
// came in chunks. A 411 is the word of a server that has not accepted the request (RFC 9110 section
// 15.5.12), so that it may be sent once more, with a length: the only answer after which a request
// that was sent is sent again. If that states an outcome, it is the API's own, and no refusal.
func (a *attempt) lengthRequired(status int) bool {
	return status == http.StatusLengthRequired && a.chunked && a.sends < maxSends && a.Err() == nil
}

// tryWithLength makes the next try one with a length, and forgets the evidence of the last one.
func (a *attempt) tryWithLength() {
	a.chunked, a.sized = false, true
	a.sent = false
}

// setEmpty gives a request without a body the form in which the upstream takes it.
func (a *attempt) setEmpty(out *http.Request, sized bool) {
	if a.chunked = !sized; sized {
		out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, 0, []string{"identity"} // net/http writes a length for DELETE, too, then
		return
	}
	a.memory.Reset(nil)
	a.inMemory = true
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(&a.memory), -1, []string{"chunked"}
}

// learnLength remembers that an answer came to a request with a length after one to a request in
// chunks had been 411.
func (g *Gateway) learnLength(a *attempt, status int) {
	if a.sized && status != http.StatusLengthRequired && !g.transport.sized.Swap(true) {
		g.cfg.Log.WarnContext(a, "the upstream takes no request without a length (411): from now on it gets those without a body with Content-Length: 0, which "+
			"a proxy in between may send again by itself; empty_body: length says so from the start", slog.String("route", a.route.Config.Route))
	}
}
