package framing

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// errHead ends a connection whose head is longer than what is held back, if the server's own limit
// does not.
var errHead = errors.New("framing: the request's head is too long")

// conn is a connection as net/http reads it; over TLS, what TLS has decrypted. Like net/http it
// expects one reader at a time.
type conn struct {
	net.Conn           // of TLS: a *tls.Conn
	server   *listener // what it came from
	scan     scanner
	held     []byte // part of a head whose framing is not known yet; its first ready bytes may be read
	ready    int
	fail     error       // returned after what is held has been read
	plain    atomic.Bool // hijacked, so it is no longer HTTP
	tls      *tls.ConnectionState

	mu    sync.Mutex
	until time.Time // the read deadline that the server has set
	end   time.Time // deadline of what an HTTP/2 client has begun; zero: nothing has begun
}

func (c *conn) Read(p []byte) (int, error) {
	if err := c.handshake(); err != nil || len(p) == 0 {
		return 0, err
	}
	for {
		if c.plain.Load() {
			c.ready = len(c.held)
		}
		switch {
		case c.ready > 0:
			n := copy(p, c.held[:c.ready])
			if c.held, c.ready = c.held[n:], c.ready-n; len(c.held) == 0 {
				c.held = nil
			}
			return n, nil
		case c.fail != nil:
			return 0, c.fail
		case c.plain.Load():
			return c.Conn.Read(p)
		}
		n, err := c.fill(p)
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// fill reads once. If nothing is held, it reads into p, which then holds what may be passed on.
func (c *conn) fill(p []byte) (int, error) {
	if len(c.held) == 0 {
		n, err := c.Conn.Read(p)
		pass := c.follow(p[:n])
		if pass < n {
			if c.held = append(c.held, p[pass:n]...); err == io.EOF {
				err = nil // it comes again
			}
		}
		return pass, err
	}
	const more = 512
	have := len(c.held)
	if cap(c.held)-have < more {
		c.held = append(make([]byte, 0, 2*have+more), c.held...)
	}
	n, err := c.Conn.Read(c.held[have:cap(c.held)])
	c.held = c.held[:have+n]
	c.ready = c.follow(c.held)
	switch {
	case err == io.EOF: // an incomplete head, which net/http refuses
		c.ready = len(c.held)
	case len(c.held)-c.ready > c.server.maxHeld: // over the limit of net/http, which refuses what it gets now
		c.ready, c.fail = len(c.held), errHead
	}
	if c.ready > 0 {
		err = nil // it comes again
	}
	return 0, err
}

// follow lets the scanner see what was read.
func (c *conn) follow(b []byte) (pass int) {
	pass = c.scan.follow(b)
	switch {
	case c.tls != nil && c.wrongProtocol():
		c.fail = io.EOF
		return 0
	case c.scan.state >= inFrame && c.scan.state != lost:
		c.expect(c.scan.unfinished())
	}
	return pass
}

// wrongProtocol reports whether a client speaks another version of HTTP than TLS has agreed on (RFC
// 9113 section 3.2).
func (c *conn) wrongProtocol() bool {
	if c.scan.state == inPreface {
		return false
	}
	isHTTP2 := c.scan.state == inFrame || c.scan.state == inPayload
	return isHTTP2 != (c.tls.NegotiatedProtocol == protoHTTP2)
}

// expect gives an HTTP/2 client a time limit to complete what it has begun. net/http has none.
func (c *conn) expect(unfinished bool) {
	if unfinished == !c.end.IsZero() || c.server.headerTimeout <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = time.Time{}
	if unfinished {
		c.end = time.Now().Add(c.server.headerTimeout)
	}
	_ = c.Conn.SetReadDeadline(c.earlier())
}

func (c *conn) earlier() time.Time {
	if c.end.IsZero() || !c.until.IsZero() && c.until.Before(c.end) {
		return c.until
	}
	return c.end
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	return c.Conn.SetReadDeadline(c.earlier())
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// CloseWrite lets net/http end a connection without cutting off what is on its way.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// ReadFrom implements [io.ReaderFrom]: a file is sent without a copy if the connection can do that.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if to, ok := c.Conn.(io.ReaderFrom); ok {
		return to.ReadFrom(r)
	}
	b := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(b)
	return io.CopyBuffer(struct{ io.Writer }{c.Conn}, struct{ io.Reader }{r}, *b)
}

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}
