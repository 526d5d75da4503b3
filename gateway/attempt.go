package gateway

import (
	"bytes"
	"context"
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
	inMemory        bool         // ... is what is sent
	asked           *directConn  // on which it was sent as a plain request; nil: it was not
	looked          bool         // its time was over, and the last look at asked as well
	answer          answerBody
	via             [1]string // what the answer's Via gets
	watchdog        watchdog
	chunked         bool // it has no body, which is sent in chunks
	sized           bool // ... or, after a 411, with a length

	stop      context.CancelCauseFunc // nil: only the request's own context ends it
	connected atomic.Bool             // a connection is there: from then on something may have left
	on        atomic.Pointer[clientConn]
	headers   atomic.Bool // over HTTP/2, the request's head was written
	sends     int         // how often it was sent, or begun to be
	sent      bool        // something may have left, and may have been acted on
	cut       error       // why the answer broke off
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
		a.watch(g.transport.rest.multiplexes())
	}
	g.proxy.ServeHTTP(w, r)
}

// watch notes whether the head of a request was written over HTTP/2, where other requests share the
// connection, so that what was written to it says nothing.
func (a *attempt) watch(http2 bool) {
	if http2 {
		a.Context = httptrace.WithClientTrace(a.Context, &httptrace.ClientTrace{WroteHeaders: func() { a.headers.Store(true) }})
	}
}
