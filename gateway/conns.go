package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
)

// conns are the connections for what is not forwarded as a plain request: TLS, HTTP/2, bodies that
// are still arriving, trailers, upgrades. [http.Transport] opens them and keeps none, because it
// sends a request again by its own rules, which take the word of an upstream that may have acted on
// it and have no bound (H04). An [http.ClientConn] sends a request once.
type conns struct {
	transport *http.Transport
	scheme    string // of the connections: http or https
	addr      string
	dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	resent    func(a *attempt, err error) // called before a request is sent again
	reach     *reach                      // gets whether a connection came about
	pool      pool[*clientConn]           // those that can take a request

	mu      sync.Mutex
	opening *opening // nil: none is being opened that others wait for
	single  bool     // the upstream speaks HTTP/1, and each request needs its own
}

// opening is a connection that is being opened for all who need one, since over HTTP/2 they can
// share it.
type opening struct {
	done chan struct{} // what follows is set before it is closed
	conn *clientConn
	err  error
}

// A connection of HTTP/2 that is silent for pingAfter is asked for a sign of life, and closed if
// there is none for pingTimeout (RFC 9113 section 6.7). Without it, one connection whose other side
// is gone makes every request unknown (H03).
const (
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
)

func newConns(upstream *url.URL, tlsConfig *tls.Config, idle time.Duration) *conns {
	s := &conns{scheme: "http", addr: address(upstream), reach: newReach(upstream), pool: pool[*clientConn]{limit: idle}, resent: func(*attempt, error) {}}
	protocols := new(http.Protocols)
	switch upstream.Scheme {
	case "https":
		s.scheme = "https"
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
	case schemeH2C:
		protocols.SetUnencryptedHTTP2(true)
	default:
		protocols.SetHTTP1(true)
		s.single = true
	}
	s.transport = &http.Transport{
		DialContext:           s.dialCounted,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   tlsTimeout,
		Protocols:             protocols,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:    true,
		ExpectContinueTimeout: expectTimeout,
	}
	return s
}

// address returns the host and port of an upstream.
func address(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// multiplexes reports whether several requests may share a connection.
func (s *conns) multiplexes() bool {
	return s.scheme == "https" || s.transport.Protocols.UnencryptedHTTP2()
}

// maxSends is how often a request is sent, by whichever way: once, and once more where it is certain
// that nothing has been done with it, or where it may be repeated.
const maxSends = 2

// RoundTrip implements [http.RoundTripper]. What it finds out about what was sent is in a.sent.
func (s *conns) RoundTrip(req *http.Request) (*http.Response, error) {
	a := attemptOf(req.Context())
	for {
		c, reused, err := s.take(a)
		if err != nil {
			return nil, err
		}
		a.on.Store(c)
		a.connected.Store(true)
		a.sends++
		res, err := c.send(a, req)
		if err == nil {
			return res, nil
		}
		if a.sends >= maxSends || !a.mayRepeat(reused && c.Err() != nil) || !a.rewind(req) {
			return nil, err
		}
		s.resent(a, err)
	}
}

// mayRepeat reports whether a request that got no answer may be sent again: if nothing of it has
// been done, or if it changes nothing and its connection had served others (RFC 9110 section 9.2.2).
func (a *attempt) mayRepeat(outlived bool) bool {
	return a.Err() == nil && (!a.sent || outlived && !a.once)
}

// rewind makes the request ready to be sent again, and reports false if its body is gone.
func (a *attempt) rewind(req *http.Request) bool {
	switch {
	case req.Body == nil, req.Body == http.NoBody:
	case a.inMemory:
		_, _ = a.memory.Seek(0, 0)
	default:
		return false
	}
	return true
}

// take returns a connection on which a request can be sent, and whether it has been there before.
func (s *conns) take(ctx context.Context) (c *clientConn, reused bool, err error) {
	var waited *opening
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		c, o, err := s.find(ctx, waited)
		if err != nil {
			return nil, false, err
		}
		if c != nil {
			return c, c.used.Swap(true), nil
		}
		if o == nil {
			c, err := s.connect(ctx)
			if err != nil {
				return nil, false, err
			}
			if !c.ready() {
				return nil, false, c.unfit()
			}
			return c, c.used.Swap(true), nil
		}
		select {
		case <-o.done:
			if waited = o; o.err != nil {
				return nil, false, o.err
			}
		case <-ctx.Done():
		}
	}
}

// find returns a connection that has been there; or the one that is being opened for all, which it
// may have begun; or neither if the caller has to open one for itself. The lock is held until a
// connection of HTTP/2 that was found is in the pool again, or others would not see that it is there.
// It is an error if the connection that the caller has waited for has ended already: otherwise, to
// an upstream that ends each at once, they would be opened without end.
func (s *conns) find(ctx context.Context, waited *opening) (*clientConn, *opening, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.pool.take(); ok || s.single {
		return c, nil, nil
	}
	if waited != nil && waited.conn.Err() != nil {
		return nil, nil, waited.conn.Err()
	}
	if s.opening == nil {
		o := &opening{done: make(chan struct{})}
		s.opening = o
		ctx := context.WithoutCancel(ctx) // it is for others, too
		go func() {
			c, err := s.connect(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			if o.conn, o.err = c, err; err == nil {
				if s.single = !c.http2; c.Available() == 0 {
					o.err = c.unfit()
				}
				c.list()
			}
			s.opening = nil
			close(o.done)
		}()
	}
	return nil, s.opening, nil
}

// dialKey is the key, in the context of a dial, of the connection that it is for.
type dialKey struct{}

func (s *conns) connect(ctx context.Context) (*clientConn, error) {
	c := &clientConn{pool: &s.pool, http2: !s.transport.Protocols.HTTP1()}
	ctx = httptrace.WithClientTrace(context.WithValue(ctx, dialKey{}, c), &httptrace.ClientTrace{
		TLSHandshakeDone: func(t tls.ConnectionState, _ error) { c.http2 = t.NegotiatedProtocol == "h2" }})
	var err error
	if c.ClientConn, err = s.transport.NewClientConn(ctx, s.scheme, s.addr); err != nil {
		s.reach.noteFailure(ctx, err)
		return nil, err
	}
	c.SetStateHook(func(*http.ClientConn) { c.list() })
	return c, nil
}

func (s *conns) dialCounted(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := s.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &countedConn{Conn: nc, http1: s.transport.Protocols.HTTP1()}
	c.begun.Store(math.MaxInt64)
	ctx.Value(dialKey{}).(*clientConn).counted = c
	return c, nil
}

var errNoRoom = errors.New("gateway: a new connection to the upstream takes no request")

// clientConn is a connection to the upstream. One of HTTP/2 serves several requests at a time.
type clientConn struct {
	*http.ClientConn
	pool    *pool[*clientConn]
	http2   bool
	counted *countedConn
	used    atomic.Bool
	listed  atomic.Bool // it is in the pool
	asking  atomic.Bool // over HTTP/1: it has not been looked at yet how the answer begins
	left    atomic.Bool // it takes no further request
}

// unfit closes a new connection that can take no request, and returns why.
func (c *clientConn) unfit() error {
	err := cmp.Or(c.Err(), errNoRoom)
	_ = c.Close()
	return err
}

// ready reserves the connection for a request, and reports false if it can take none.
func (c *clientConn) ready() bool {
	c.listed.Store(false)
	c.asking.Store(true)
	if c.left.Load() || c.Reserve() != nil {
		return false
	}
	c.list()
	return true
}

// list puts the connection into the pool if it can take another request, and closes it if it may
// take none and has nothing left to do.
func (c *clientConn) list() {
	switch {
	case c.left.Load():
		if c.InFlight() == 0 {
			_ = c.ClientConn.Close()
		}
	case !c.http2 && c.asking.Load(), c.Available() == 0:
	case c.listed.CompareAndSwap(false, true):
		c.pool.put(c)
	}
}

// Close closes the connection as soon as the requests on it have ended.
func (c *clientConn) Close() error {
	c.left.Store(true)
	c.list()
	return nil
}

// send sends a request for which the connection is reserved. Nothing may have left of one that
// failed before a byte was written to a connection of HTTP/1, or a HEADERS frame to one of HTTP/2,
// unless it was abandoned on its way there; or that the upstream has not processed, as it says.
func (c *clientConn) send(a *attempt, req *http.Request) (*http.Response, error) {
	before := c.counted.wrote.Load()
	if !c.http2 { // HTTP/2 has a reset of its own for each request
		c.counted.begun.Store(before)
	}
	a.headers.Store(false)
	res, err := c.RoundTrip(req)
	switch {
	case err == nil:
		if a.sent = true; !c.http2 && failing(res.StatusCode) {
			c.left.Store(true)
		}
	case c.http2:
		a.sent = a.sent || (a.headers.Load() || a.Err() != nil) && !unprocessed(err)
		if timedOut(a) {
			a.leave()
		}
	case c.counted.http2.Load():
		err = errHTTP2
	default:
		a.sent = a.sent || c.counted.wrote.Load() != before
	}
	c.asking.Store(false)
	c.list()
	return res, err
}

// leave keeps further requests from the connection of one whose time is over without an answer: the
// upstream's side of it may be gone (H03).
func (a *attempt) leave() {
	if c := a.on.Load(); c != nil {
		_ = c.Close()
	}
}

// timedOut reports whether the time of a request is over.
func timedOut(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, stet.ErrExecutionTimeout) || errors.Is(cause, context.DeadlineExceeded)
}

// streamError is how a stream of HTTP/2 was reset. The error of net/http, which is not exported,
// fills in every struct with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "gateway: a stream was reset" }

// unprocessed reports whether an error of HTTP/2 says that the upstream has done nothing with the
// request: that it has refused the stream, or has closed the connection to streams from an earlier
// one on (RFC 9113 sections 6.8 and 8.7). net/http tells the latter in words alone.
func unprocessed(err error) bool {
	const refusedStream, fromPeer, goneAway, goneAwayAtFirst = 7, "received from peer",
		"http2: Transport received Server's graceful shutdown GOAWAY", "http2: Transport received GOAWAY from server ErrCode:"
	var e streamError
	if errors.As(err, &e) {
		return e.Code == refusedStream && e.Cause != nil && e.Cause.Error() == fromPeer
	}
	text := err.Error()
	return text == goneAway || len(text) >= len(goneAwayAtFirst) && text[:len(goneAwayAtFirst)] == goneAwayAtFirst
}
