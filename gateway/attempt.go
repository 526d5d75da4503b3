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

// attempt is one request on its way through the proxy. It is also the context of that request,
// because the hooks of ReverseProxy are the same for all requests and find their own attempt there.
// It collects the evidence of what was sent.
type attempt struct {
	context.Context // the request's
	route           *route
	w               http.ResponseWriter
	claim           *stet.Claim  // nil: the request is unguarded
	stated          []string     // lines of Stet-Outcome of an unguarded request
	once            bool         // it must not reach the upstream twice
	upload          upload       // the body while the client is sending it
	memory          bytes.Reader // a short body that is here already
	asked           *directConn  // on which it was sent as a plain request; nil: it was not
	looked          bool         // its time was over, and the last look at asked as well
	answer          answerBody
	via             [1]string // what the answer's Via gets
	watchdog        watchdog
	chunked         bool // it has no body, which is sent in chunks
	sized           bool // ... or, after a 411, with a length

	stop      context.CancelCauseFunc // nil: only the request's own context ends it
	connected atomic.Bool             // a connection is there: from then on something may have left
	// These are of the current try. Only headers is written by another goroutine than the one that
	// waits for RoundTrip.
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

// forward sends the request to the upstream.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, t *route) {
	a := &attempt{Context: r.Context(), route: t, w: w, claim: stet.ClaimFrom(r.Context())}
	a.once = a.claim != nil || !door.Safe(r.Method)
	request := g.plainRequest(a, r)
	if a.claim == nil {
		a.Context, a.stop = context.WithCancelCause(a.Context)
		defer a.stop(nil)
		if g.cfg.UpstreamTimeout > 0 {
			a.watchdog.begin(a, g.cfg.UpstreamTimeout)
			defer a.watchdog.end()
		}
	}
	defer func() {
		if a.cut != nil { // ReverseProxy panics with http.ErrAbortHandler
			_ = recover()
			g.broke(w, r, a)
		}
	}()
	var left int64 // of the answer's body, if its head was passed on
	if request != nil {
		var done bool
		if left, done = g.exchange(w, r, a, request); done {
			return
		}
	}
	if a.claim == nil {
		g.reverse(w, r, a)
		return
	}
	g.outlast(w, r, a, left)
}

// reverse has ReverseProxy forward the request, or its answer if it was sent already.
func (g *Gateway) reverse(w http.ResponseWriter, r *http.Request, a *attempt) {
	r = r.WithContext(a)
	if r.Header["Upgrade"] != nil && !door.OffersUpgrade(r.Header) { // what follows on an h2c connection would bypass the gateway
		r.Header = r.Header.Clone()
		delete(r.Header, "Upgrade")
	}
	if a.asked == nil {
		a.watch(g.cfg.Upstream.Scheme == "https")
	}
	g.proxy.ServeHTTP(w, r)
}

// watch collects the evidence of what net/http does with the request.
func (a *attempt) watch(http2 bool) {
	trace := &httptrace.ClientTrace{GotConn: a.gotConn}
	if http2 {
		trace.WroteHeaders = func() { a.headers.Store(true) }
	}
	a.Context = httptrace.WithClientTrace(a.Context, trace)
}

// gotConn is called before each try, with the connection that the try will use. It ends a try that
// follows one of which anything may have left. By itself net/http tries again over HTTP/1 if the
// request has no body and an Idempotency-Key, once for each pooled connection that breaks before
// the answer; and over HTTP/2 if it has no body and its stream was reset with PROTOCOL_ERROR,
// although the peer may have acted on it. REFUSED_STREAM and GOAWAY would be proofs (RFC 9113
// section 8.7), but the API does not distinguish them. A request whose context has ended is not
// written over HTTP/2; over HTTP/1 it would be if its connection were still open. Safe methods may
// be repeated (RFC 9110 section 9.2.2).
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	a.connected.Store(true)
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
		if !isHTTP2(info.Conn) {
			c.begun.Store(a.wrote)
		}
	}
}

var errAgain = errors.New("gateway: the request may have been sent already")

// maySent reports whether anything of the request may have left for the upstream. Nothing has left
// before a connection was ready, which is after name lookup, dialling and the TLS handshake; before
// a byte was written to an HTTP/1 connection; and before a HEADERS frame was written to an HTTP/2
// connection, unless the request was abandoned on its way there. Call it only between tries, when
// the writer of an HTTP/1 connection has stopped.
func (a *attempt) maySent() bool {
	switch {
	case a.sent || a.conn == nil:
		return a.sent
	case isHTTP2(a.conn): // other requests share it, so its byte count says nothing
		return a.headers.Load() || a.Err() != nil
	}
	c := counted(a.conn)
	return c == nil || c.wrote.Load() != a.wrote
}

func isHTTP2(c net.Conn) bool {
	t, ok := c.(*tls.Conn)
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}
