package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/door"
)

// attempt is one request on its way through the proxy, and the context it travels in: that is how the hooks of ReverseProxy,
// which are the same for all requests, find their own. It gathers the evidence of what was sent.
type attempt struct {
	context.Context // the request's
	route           *route
	w               http.ResponseWriter
	claim           *stet.Claim  // nil: the request passes by
	stated          []string     // by the upstream, where it passes by: the lines of Stet-Outcome
	once            bool         // it must not reach the upstream twice
	upload          upload       // its body, where the client is still sending it
	memory          bytes.Reader // its body, where it is short and here already
	direct          bool         // it goes the short way
	answer          answerBody
	via             [1]string // what the answer's Via gets
	watchdog        watchdog

	stop context.CancelCauseFunc // nil: nothing but its end ends it
	// Of the current try. Only headers is written by another goroutine than the one that waits for RoundTrip.
	conn    net.Conn
	wrote   int64 // bytes on conn before the try
	headers atomic.Bool
	sent    bool  // an earlier try may have sent something
	cut     error // why the answer broke off
}

type attemptKey struct{}

func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

func attemptOf(ctx context.Context) *attempt { return ctx.Value(attemptKey{}).(*attempt) }

// forward sends the request on.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, t *route) {
	a := &attempt{Context: r.Context(), route: t, w: w, claim: stet.ClaimFrom(r.Context())}
	a.once = a.claim != nil || !safe(r.Method)
	r = r.WithContext(a)
	if r.Header["Upgrade"] != nil && !door.OffersUpgrade(r.Header) { // what follows on a connection that speaks h2c passes the gateway by
		r.Header = r.Header.Clone()
		delete(r.Header, "Upgrade")
	}
	a.direct = g.transport.takes(a.claim, r)
	if !a.direct || a.claim == nil {
		a.Context, a.stop = context.WithCancelCause(a.Context)
		defer a.stop(nil)
	}
	if a.claim == nil && g.timeout > 0 {
		a.watchdog.begin(a, g.timeout)
		defer a.watchdog.end()
	}
	if !a.direct {
		a.watch(g.upstream.Scheme == "https")
	}
	defer func() {
		if a.cut != nil { // ReverseProxy panics with http.ErrAbortHandler
			_ = recover()
			g.broke(w, r, a)
		}
	}()
	g.proxy.ServeHTTP(w, r)
}

// watch gathers the evidence of what net/http does with the request.
func (a *attempt) watch(http2 bool) {
	trace := &httptrace.ClientTrace{GotConn: a.gotConn}
	if http2 {
		trace.WroteHeaders = func() { a.headers.Store(true) }
	}
	a.Context = httptrace.WithClientTrace(a.Context, trace)
}

// gotConn is called before each try, with the connection it will use: a try that follows one of which anything may have left ends
// here. By itself net/http tries again over HTTP/1 what has no body and an Idempotency-Key, once for each connection in its pool
// that breaks before the answer; over HTTP/2 what has no body and whose stream was reset with PROTOCOL_ERROR, and the peer may well
// have acted on that one. REFUSED_STREAM and GOAWAY would be proofs (RFC 9113 section 8.7), but nothing in the API tells them from
// it. A request whose context has ended is not written over HTTP/2; over HTTP/1 it would be, were its connection still open.
// Safe methods may be repeated (RFC 9110 section 9.2.2).
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	a.sent = a.maySent()
	c := counted(info.Conn)
	if a.once && a.sent {
		a.stop(errAgain)
		if c != nil && !isHTTP2(info.Conn) {
			_ = c.Close()
		}
	}
	a.headers.Store(false)
	a.conn, a.wrote = info.Conn, 0
	if c != nil {
		a.wrote = c.wrote.Load()
	}
}

var errAgain = errors.New("gateway: the request may have been sent already")

// maySent reports whether anything of the request may have left for the upstream. Nothing has while no connection was ready,
// which is after name lookup, dialling and the TLS handshake; while no byte was written to an HTTP/1 connection; and while no
// HEADERS frame was written to an HTTP/2 connection, unless the request was abandoned on its way there. Ask only between
// tries: then the writer of an HTTP/1 connection has stopped.
func (a *attempt) maySent() bool {
	switch {
	case a.sent || a.conn == nil:
		return a.sent
	case isHTTP2(a.conn): // shared with other requests: its byte count says nothing
		return a.headers.Load() || a.Err() != nil
	}
	c := counted(a.conn)
	return c == nil || c.wrote.Load() != a.wrote
}

func isHTTP2(c net.Conn) bool {
	t, ok := c.(*tls.Conn)
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}
