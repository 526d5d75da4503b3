package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// direct sends plain requests over HTTP/1 on the goroutine that waits for the answer.
// [http.Transport] hands each request to one goroutine for writing and to another for reading,
// which under load costs as much as the guard. Here it is also known exactly whether a byte was
// sent. Everything else goes through Transport: TLS, HTTP/2, bodies that are still arriving,
// trailers, upgrades.
type direct struct {
	rest   *conns
	dialer net.Dialer
	plain  bool // the upstream speaks HTTP/1 without TLS
	addr   string
	pool   pool[*directConn]
	sized  atomic.Bool // what has no body is sent with a length
}

// RoundTrip implements [http.RoundTripper]. A plain request was sent already.
func (d *direct) RoundTrip(req *http.Request) (res *http.Response, err error) {
	a := attemptOf(req.Context())
	if c := a.asked; c != nil {
		res, err = c.receive(req)
	} else {
		hidden := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { // called before that of ReverseProxy
			a.hide(http.Header(h), true)
			return nil
		}}
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), hidden))
		res, err = d.rest.RoundTrip(req)
		if err == nil && a.lengthRequired(res.StatusCode) && res.Header[outcomeHeader] == nil {
			_ = res.Body.Close()
			a.tryWithLength()
			a.setEmpty(req, true)
			res, err = d.rest.RoundTrip(req)
		}
	}
	if err == nil {
		if lines := res.Header["Keep-Alive"]; lines != nil {
			d.heed(lines)
		}
	}
	return res, err
}

// send writes a request. If nothing of it could be written to a connection that had been idle, the
// connection was dead and is replaced.
func (d *direct) send(a *attempt, request []byte) (*directConn, error) {
	for {
		if err := a.Err(); err != nil { // a connection that waits in the pool would not notice in time
			return nil, err
		}
		c, idle := d.pool.take()
		if idle {
			c.reused = true
		} else {
			nc, err := d.dialer.DialContext(a, "tcp", d.addr)
			if err != nil {
				d.rest.reach.noteFailure(a, err)
				return nil, err
			}
			c = newDirectConn(nc, &d.pool)
		}
		c.watch(a)
		n, err := c.Write(request)
		if err == nil {
			a.sends, a.sent = a.sends+1, true
			return c, nil
		}
		c.discard()
		if a.sent = n > 0; a.sent || !idle || a.Err() != nil {
			return nil, err
		}
	}
}

// directConn is a connection that serves one request at a time.
type directConn struct {
	net.Conn
	pool    *pool[*directConn]
	in      *bufio.Reader
	budget  int64 // bytes that may still be read
	peer    *peer
	reused  bool
	last    bool // it serves no request after this one
	hangUp  func()
	pause   func()
	unwatch func() bool // stops the request's context from calling hangUp, or pause

	mu      sync.Mutex
	patient bool // pause has something to interrupt
}

func newDirectConn(nc net.Conn, p *pool[*directConn]) *directConn {
	c := &directConn{Conn: nc, pool: p, peer: newPeer(nc)}
	c.in = bufio.NewReader((*budgeted)(c))
	c.hangUp = func() { _ = c.Close() }
	c.pause = c.lookLast
	return c
}

// ready implements [pooled].
func (c *directConn) ready() bool { return c.peer.silent() }

// watch has the end of the request's context end what is done with the connection: at once or, for
// a guarded request, after a last look.
func (c *directConn) watch(a *attempt) {
	if a.claim == nil {
		c.unwatch = context.AfterFunc(a, c.hangUp)
		return
	}
	c.patient = true
	c.unwatch = context.AfterFunc(a, c.pause)
}

// lookLast leaves [lastLook] for what is here already. Nothing that was read by then is lost.
func (c *directConn) lookLast() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.patient {
		_ = c.SetDeadline(time.Now().Add(lastLook))
	}
}

// interrupted reports whether err is the end of the last look.
func (c *directConn) interrupted(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.patient && errors.Is(err, os.ErrDeadlineExceeded)
}

// unpause takes back what [directConn.lookLast] has done, or will do.
func (c *directConn) unpause() {
	paused := !c.unwatch()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.patient = false; paused {
		_ = c.SetDeadline(time.Time{})
	}
}

// budgeted reads from a directConn within its budget.
type budgeted directConn

var errLongHead = errors.New("gateway: the answer's header is too long")

func (c *budgeted) Read(p []byte) (int, error) {
	if c.budget <= 0 {
		return 0, errLongHead
	}
	n, err := c.Conn.Read(p)
	c.budget -= int64(n)
	return n, err
}

// maxHead bounds an answer's header with all interim answers before it, in bytes, as in
// [http.Transport].
const maxHead = 10 << 20

var errUnasked = errors.New("gateway: the upstream switched protocols although the request did not ask for it")

// receive reads an answer of any kind. If there is none, the connection is closed.
func (c *directConn) receive(req *http.Request) (*http.Response, error) {
	res, err := c.head(req)
	if err != nil {
		c.discard()
		return nil, err
	}
	c.last = res.Close || failing(res.StatusCode)
	res.Body = &directBody{res.Body, c}
	return res, nil
}

// failing reports whether an answer of this status is the last one on its connection. A server that
// fails may end the connection without having said so, when the next request is on its way: it
// would not be known whether that had its effect.
func failing(status int) bool { return status >= http.StatusInternalServerError } // R05

// head reads the head of the answer. Interim answers go to the trace that ReverseProxy has set.
func (c *directConn) head(req *http.Request) (*http.Response, error) {
	c.budget = maxHead
	for {
		res, err := http.ReadResponse(c.in, req)
		switch {
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case res.StatusCode >= 200, res.StatusCode < 100, res.StatusCode == http.StatusSwitchingProtocols: // received refuses the last two
			c.budget = math.MaxInt64
			return res, nil
		}
		if t := httptrace.ContextClientTrace(req.Context()); t != nil && t.Got1xxResponse != nil {
			attemptOf(req.Context()).hide(res.Header, true)
			if err := t.Got1xxResponse(res.StatusCode, textproto.MIMEHeader(res.Header)); err != nil {
				return nil, err
			}
		}
	}
}

// discard closes the connection.
func (c *directConn) discard() {
	c.unwatch()
	_ = c.Close()
}

// release keeps the connection for another request if it can serve one.
func (c *directConn) release() {
	if !c.unwatch() || c.last || c.in.Buffered() > 0 {
		_ = c.Close()
		return
	}
	c.pool.put(c)
}

// directBody returns its connection at the end of the answer, and closes it if the answer is not
// read to its end.
type directBody struct {
	io.ReadCloser
	c *directConn // nil: returned
}

func (b *directBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && b.c != nil {
		b.c.release()
		b.c = nil
	}
	return n, err
}

func (b *directBody) Close() error {
	if b.c != nil {
		b.c.discard()
		b.c = nil
	}
	return nil
}
