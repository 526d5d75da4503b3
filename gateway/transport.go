package gateway

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// These bound the connections to the upstream. The execution timeout bounds an answer.
const (
	maxIdleConns  = 512
	dialTimeout   = 10 * time.Second
	tlsTimeout    = 10 * time.Second
	keepAlive     = 30 * time.Second
	expectTimeout = time.Second // for the upstream's 100 Continue
)

// newDirect returns a transport that forwards bodies byte for byte and reuses connections.
func newDirect(upstream *url.URL, tlsConfig *tls.Config, idle time.Duration) *direct {
	d := &direct{plain: upstream.Scheme == "http", addr: address(upstream), dialer: net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive},
		rest: newConns(upstream, tlsConfig, idle), pool: pool[*directConn]{limit: idle}}
	d.rest.dial = d.dialer.DialContext
	return d
}

// heed keeps idle connections no longer than the upstream announces that it does.
func (d *direct) heed(keepAlive []string) {
	for _, line := range keepAlive {
		if idle, ok := idleWithin(line); ok {
			d.pool.lower(idle)
			d.rest.pool.lower(idle)
		}
	}
}

// idleWithin returns how long a connection may be idle if its other side announces Keep-Alive:
// timeout=N and closes it after N seconds. It leaves a second for the way, because the two sides do
// not begin to count at the same time.
func idleWithin(line string) (time.Duration, bool) {
	for param := range strings.SplitSeq(line, ",") {
		name, v, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
			continue
		}
		n, err := strconv.ParseUint(strings.Trim(v, " \t"), 10, 31)
		d := time.Duration(n) * time.Second
		return max(d/2, d-time.Second, time.Nanosecond), err == nil
	}
	return 0, false
}

// closeIdle closes all idle connections.
func (d *direct) closeIdle() {
	d.rest.pool.closeIdle()
	d.pool.closeIdle()
}

// countedConn counts the bytes that may have left for the network. A write that has not returned
// counts as a whole.
//
// The other side may end the connection while a request is still written to it, and may have
// answered before: an API that refuses a large body does. [http.Transport] gives up at the first
// write that fails, and would lose that answer. So once a part of the request has left, the rest is
// taken and dropped, and what there is to read decides.
type countedConn struct {
	net.Conn
	wrote atomic.Int64
	begun atomic.Int64 // wrote, when the latest request began; HTTP/2 has a reset of its own for each request
	ended atomic.Bool  // the other side reads no more
	http1 bool         // HTTP/1 is spoken, or TLS
	heard bool         // something was read
	http2 atomic.Bool  // ... which began as HTTP/2 does
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.heard && n > 0 {
		c.heard = true
		if c.http1 && speaksHTTP2(p[:n]) {
			c.http2.Store(true)
			return 0, errHTTP2
		}
	}
	return n, err
}

// frameHead is how many bytes the head of a frame of HTTP/2 has.
const frameHead = 9

// speaksHTTP2 reports whether what a server says first is of HTTP/2: SETTINGS, or GOAWAY, of the
// connection as a whole. Such a server can make nothing of a request of HTTP/1, and has to end the
// connection (RFC 9113 section 3.4): nothing has happened.
func speaksHTTP2(first []byte) bool {
	const settings, goAway = 4, 7
	return len(first) >= frameHead && first[0] == 0 && (first[3] == settings || first[3] == goAway) && string(first[5:frameHead]) == "\x00\x00\x00\x00"
}

var errHTTP2 = errors.New("gateway: the upstream speaks HTTP/2 without TLS: write its address as h2c://host")

func (c *countedConn) Write(p []byte) (n int, err error) {
	if c.ended.Load() {
		err = syscall.EPIPE
	} else {
		c.wrote.Add(int64(len(p)))
		n, err = c.Conn.Write(p)
		c.wrote.Add(int64(n - len(p)))
	}
	if reset(err) && c.wrote.Load() > c.begun.Load() {
		c.ended.Store(true)
		return len(p), nil
	}
	return n, err
}

// reset reports whether a write failed because the other side had ended the connection. What it
// sent before can still be read.
func reset(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// bufferPool implements [httputil.BufferPool] without an allocation per buffer.
type bufferPool struct{ pool sync.Pool }

const copyBufferSize = 32 << 10

var copyBuffers = bufferPool{sync.Pool{New: func() any { return new([copyBufferSize]byte) }}}

func (p *bufferPool) Get() []byte  { return p.pool.Get().(*[copyBufferSize]byte)[:] }
func (p *bufferPool) Put(b []byte) { p.pool.Put((*[copyBufferSize]byte)(b)) }
