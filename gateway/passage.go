package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/upgrade"
)

// passage is one request on its way through the proxy, and the context it travels in: that is how the hooks of ReverseProxy,
// which are the same for all requests, find their own. It gathers the evidence of what was sent.
type passage struct {
	context.Context // the request's
	route           *route
	w               http.ResponseWriter
	claim           *stet.Claim  // nil: the request runs unguarded
	once            bool         // it must not reach the upstream twice
	upload          upload       // its body, where the client is still sending it
	memory          bytes.Reader // its body, where it is short and here already
	direct          bool         // it goes the short way
	answer          answerBody

	stop context.CancelFunc // set for upstreams that may speak HTTP/2
	// Of the current try. Only headers is written by another goroutine than the one that waits for RoundTrip.
	conn    net.Conn
	wrote   int64 // bytes on conn before the try
	headers atomic.Bool
	sent    bool  // an earlier try may have sent something
	cut     error // why the answer broke off
}

type passageKey struct{}

func (p *passage) Value(key any) any {
	if key == (passageKey{}) {
		return p
	}
	return p.Context.Value(key)
}

func passageOf(ctx context.Context) *passage { return ctx.Value(passageKey{}).(*passage) }

// forward sends the request on.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, t *route) {
	p := &passage{Context: r.Context(), route: t, w: w, claim: stet.ClaimFrom(r.Context()), once: !safe(r.Method)}
	r = r.WithContext(p)
	if r.Header["Upgrade"] != nil && !upgrade.Asked(r.Header) { // what follows on a connection that speaks h2c passes the gateway by
		r.Header = r.Header.Clone()
		delete(r.Header, "Upgrade")
	}
	if p.direct = g.transport.takes(p.claim, r); !p.direct {
		defer p.watch(g.upstream.Scheme == "https")()
	}
	defer func() {
		if p.cut != nil { // ReverseProxy panics with http.ErrAbortHandler
			_ = recover()
			g.broke(w, r, p)
		}
	}()
	g.proxy.ServeHTTP(w, r)
}

// watch gathers the evidence of what net/http does with the request. Call what it returns when that is over.
func (p *passage) watch(http2 bool) (end func()) {
	trace := &httptrace.ClientTrace{GotConn: p.gotConn}
	end = func() {}
	if http2 {
		p.Context, p.stop = context.WithCancel(p.Context)
		trace.WroteHeaders = func() { p.headers.Store(true) }
		end = p.stop
	}
	p.Context = httptrace.WithClientTrace(p.Context, trace)
	return end
}

// gotConn is called before each try, with the connection it will use. Over HTTP/1, net/http tries again by itself only what
// it wrote nothing of, as [Gateway.rewrite] leaves it no other reason to. Over HTTP/2 it also repeats a request without a body
// whose stream was reset with PROTOCOL_ERROR, and the peer may well have acted on that one: such a try ends here. A request
// whose context has ended is not written.
func (p *passage) gotConn(info httptrace.GotConnInfo) {
	if p.once && p.headers.Load() && isHTTP2(p.conn) {
		p.stop()
	}
	p.sent = p.maySent()
	p.headers.Store(false)
	p.conn, p.wrote = info.Conn, 0
	if c := counted(info.Conn); c != nil {
		p.wrote = c.wrote.Load()
	}
}

// maySent reports whether anything of the request may have left for the upstream. Nothing has while no connection was ready,
// which is after name lookup, dialling and the TLS handshake; while no byte was written to an HTTP/1 connection; and while no
// HEADERS frame was written to an HTTP/2 connection, unless the request was abandoned on its way there. Ask only between
// tries: then the writer of an HTTP/1 connection has stopped.
func (p *passage) maySent() bool {
	switch {
	case p.sent || p.conn == nil:
		return p.sent
	case isHTTP2(p.conn): // shared with other requests: its byte count says nothing
		return p.headers.Load() || p.Err() != nil
	}
	c := counted(p.conn)
	return c == nil || c.wrote.Load() != p.wrote
}

func isHTTP2(c net.Conn) bool {
	t, ok := c.(*tls.Conn)
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}
