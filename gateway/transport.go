package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the connections to the upstream. How long an answer may take is the execution timeout's to say.
const (
	maxIdleConns  = 512
	dialTimeout   = 10 * time.Second
	tlsTimeout    = 10 * time.Second
	keepAlive     = 30 * time.Second
	expectTimeout = time.Second // for the upstream's 100 Continue
	// idleTimeout is under the 5 s of the most impatient common servers (Node.js): where the upstream closes a connection just
	// as a request is on its way, nobody can tell whether it ran.
	idleTimeout = 4 * time.Second
)

// newDirect returns a transport that forwards bodies byte for byte and reuses connections; the default of two idle ones per
// host halves the throughput of a proxy.
func newDirect(upstream *url.URL, tlsConfig *tls.Config) *direct {
	d := &direct{plain: upstream.Scheme == "http", addr: upstream.Host, dialer: net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}}
	if upstream.Port() == "" {
		d.addr = net.JoinHostPort(upstream.Hostname(), "80")
	}
	d.Transport = &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := d.dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: c}, nil
		},
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   tlsTimeout,
		ForceAttemptHTTP2:     upstream.Scheme == "https",
		DisableCompression:    true,
		MaxIdleConns:          maxIdleConns,
		MaxIdleConnsPerHost:   maxIdleConns,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: expectTimeout,
	}
	return d
}

// countedConn counts the bytes that may have been handed to the network: those of a write that has not returned count whole.
type countedConn struct {
	net.Conn
	wrote atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.wrote.Add(int64(len(p)))
	n, err := c.Conn.Write(p)
	c.wrote.Add(int64(n - len(p)))
	return n, err
}

// counted returns the counter under a connection, or nil.
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
