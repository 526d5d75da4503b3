// Package badnet is a network that fails when a test says so: a proxy before a server, which
// delays, cuts, refuses, falls silent, or loses the answer to one chosen request. It knows no
// protocol, and so serves Postgres, MySQL and Redis alike.
package badnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy passes connections on to a server. Its methods may be called at any time, by any goroutine.
type Proxy struct {
	listener net.Listener

	mu      sync.Mutex
	server  string
	lines   map[*line]struct{}
	closed  bool
	refuses bool
	delay   time.Duration
	heard   chan struct{} // closed when it is no longer deaf
	loss    *loss
	running sync.WaitGroup
}

// loss is the request whose answer is to be lost.
type loss struct {
	text []byte
	done chan struct{}
}

// New starts a proxy before the server at addr. It ends with the test.
func New(t testing.TB, addr string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, server: addr, lines: map[*line]struct{}{}, heard: make(chan struct{})}
	close(p.heard)
	p.running.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

// Addr is where it serves.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Refuse closes new connections at once, or, told no, takes them again. Those that are open go on:
// see [Proxy.Cut].
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = yes
}

// Move sends new connections to the server at addr. Those that are open stay where they are.
func (p *Proxy) Move(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = addr
}

// Cut resets all open connections, as a failing firewall would.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.lines {
		l.reset()
	}
}

// Delay holds back whatever the server says for d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Deafen passes nothing on in either direction: connections stay, and no answer comes. Told no, it
// passes on what it has held.
func (p *Proxy) Deafen(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.heard:
		if yes {
			p.heard = make(chan struct{})
		}
	default:
		if !yes {
			close(p.heard)
		}
	}
}

// LoseAnswer lets the next request that contains text reach the server; when the server has
// answered, the client's connection is reset instead, and the channel is closed. The server reads
// to the end what it was sent, and then finds its client gone.
func (p *Proxy) LoseAnswer(text string) (lost <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loss = &loss{[]byte(text), make(chan struct{})}
	return p.loss.done
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close()
	for l := range p.lines {
		l.reset()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		client := conn.(*net.TCPConn)
		p.mu.Lock()
		refuses := p.refuses || p.closed
		p.mu.Unlock()
		if refuses {
			abort(client)
			continue
		}
		p.running.Go(func() { p.connect(client) })
	}
}

func (p *Proxy) connect(client *net.TCPConn) {
	p.mu.Lock()
	server := p.server
	p.mu.Unlock()
	conn, err := net.Dial("tcp", server)
	if err != nil {
		abort(client)
		return
	}
	l := &line{proxy: p, client: client, server: conn.(*net.TCPConn), over: make(chan struct{})}
	p.mu.Lock()
	if p.closed {
		l.reset()
	}
	p.lines[l] = struct{}{}
	p.mu.Unlock()
	p.running.Go(l.answers)
	l.requests()
}

// line is one connection through the proxy.
type line struct {
	proxy          *Proxy
	client, server *net.TCPConn
	ending         sync.Once
	over           chan struct{} // closed when it was reset

	mu   sync.Mutex
	loss *loss // the answer that comes next is to be lost
}

// abort closes a connection so that its peer sees an error rather than an end.
func abort(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

func (l *line) reset() {
	l.ending.Do(func() {
		close(l.over)
		abort(l.client)
		abort(l.server)
	})
}

// pause waits while the proxy is deaf, and then for d. It reports whether the line is still there.
func (l *line) pause(heard <-chan struct{}, d time.Duration) bool {
	select {
	case <-heard:
	case <-l.over:
		return false
	}
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.over:
		return false
	}
}

const piece = 32 << 10

// requests passes on what the client says.
func (l *line) requests() {
	buf := make([]byte, piece)
	var tail []byte // of what was said before: a text may come in pieces
	for {
		n, err := l.client.Read(buf)
		if n > 0 {
			p := l.proxy
			p.mu.Lock()
			heard := p.heard
			if p.loss != nil {
				said := append(tail, buf[:n]...)
				if bytes.Contains(said, p.loss.text) {
					l.mu.Lock()
					l.loss, p.loss = p.loss, nil
					l.mu.Unlock()
				} else {
					tail = bytes.Clone(said[max(0, len(said)-len(p.loss.text)):])
				}
			}
			p.mu.Unlock()
			if !l.pause(heard, 0) {
				return
			}
			if _, err := l.server.Write(buf[:n]); err != nil {
				l.reset()
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = l.server.CloseWrite()
			return
		case err != nil:
			_ = l.server.CloseWrite() // it was reset, and the server shall still read what it was sent
			return
		}
	}
}

// answers passes on what the server says.
func (l *line) answers() {
	p := l.proxy
	defer func() {
		p.mu.Lock()
		delete(p.lines, l)
		p.mu.Unlock()
		l.reset()
	}()
	buf := make([]byte, piece)
	for {
		n, err := l.server.Read(buf)
		if n > 0 {
			l.mu.Lock()
			lost := l.loss
			l.mu.Unlock()
			if lost != nil {
				abort(l.client)
				_ = l.server.CloseWrite()
				_, _ = io.Copy(io.Discard, l.server)
				close(lost.done)
				return
			}
			p.mu.Lock()
			heard, delay := p.heard, p.delay
			p.mu.Unlock()
			if !l.pause(heard, delay) {
				return
			}
			if _, err := l.client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
