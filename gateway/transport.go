package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
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

// newDirect returns a transport that forwards bodies byte for byte and reuses connections. The
// default of two idle connections per host halves the throughput of a proxy.
func newDirect(upstream *url.URL, tlsConfig *tls.Config, idle time.Duration) *direct {
	d := &direct{plain: upstream.Scheme == "http", addr: upstream.Host, dialer: net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive},
		tls: tlsConfig, pool: pool{limit: idle}}
	if upstream.Port() == "" {
		d.addr = net.JoinHostPort(upstream.Hostname(), "80")
	}
	d.rest.Store(d.transport(idle))
	return d
}

// transport returns what sends all other requests.
func (d *direct) transport(idle time.Duration) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := d.dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			counting := &countedConn{Conn: c}
			counting.begun.Store(math.MaxInt64)
			return counting, nil
		},
		TLSClientConfig:       d.tls,
		TLSHandshakeTimeout:   tlsTimeout,
		ForceAttemptHTTP2:     !d.plain,
		DisableCompression:    true,
		MaxIdleConns:          maxIdleConns,
		MaxIdleConnsPerHost:   maxIdleConns,
		IdleConnTimeout:       idle,
		ExpectContinueTimeout: expectTimeout,
	}
}

// heed keeps idle connections no longer than the upstream announces that it does.
func (d *direct) heed(keepAlive []string) {
	for _, line := range keepAlive {
		if idle, ok := idleWithin(line); ok && d.pool.lower(idle) {
			d.renew()
		}
	}
}

// renew replaces the transport by one with the limit of the pool, because the limit of a transport
// cannot change while it is used. What still runs on the old one ends with its connection.
func (d *direct) renew() {
	d.renewing.Lock()
	defer d.renewing.Unlock()
	d.rest.Swap(d.transport(d.pool.idleLimit())).CloseIdleConnections()
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
	d.rest.Load().CloseIdleConnections()
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
}

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

// counted returns the counter below a connection, or nil.
func counted(c net.Conn) *countedConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	n, _ := c.(*countedConn)
	return n
}

// bufferPool implements [httputil.BufferPool] without an allocation per buffer.
type bufferPool struct{ pool sync.Pool }

const copyBufferSize = 32 << 10

var copyBuffers = bufferPool{sync.Pool{New: func() any { return new([copyBufferSize]byte) }}}

func (p *bufferPool) Get() []byte  { return p.pool.Get().(*[copyBufferSize]byte)[:] }
func (p *bufferPool) Put(b []byte) { p.pool.Put((*[copyBufferSize]byte)(b)) }
