package gateway

import (
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// deadlineListener gives clients a time limit to read what is sent to them.
// [http.Server.WriteTimeout] counts from the request's header on and would end long executions;
// this limit counts while a write waits for the client, and begins anew with every piece that the
// client reads. Without it, clients that read nothing would keep their answers in memory.
type deadlineListener struct {
	net.Listener
	limit limit
}

func (l deadlineListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &deadlineConn{Conn: c, limit: l.limit}, nil
}

type deadlineConn struct {
	net.Conn
	limit limit

	mu    sync.Mutex
	until time.Time // a deadline set by another, such as package tls for its last record; zero: none
}

// piece is how many bytes a client has to read within the limit.
const piece = 64 << 10

func (c *deadlineConn) Write(p []byte) (int, error) { return inPieces(c.Conn, p, c.restart) }

// inPieces writes p to w, and calls restart before each piece.
func inPieces(w io.Writer, p []byte, restart func() error) (n int, err error) {
	for {
		if err := restart(); err != nil {
			return n, err
		}
		k, err := w.Write(p[:min(len(p), piece)])
		if n += k; err != nil || k == len(p) {
			return n, err
		}
		p = p[k:]
	}
}

// restart begins the limit anew. An earlier deadline that was set by another counts instead.
func (c *deadlineConn) restart() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := time.Now().Add(c.limit())
	if !c.until.IsZero() && c.until.Before(end) {
		end = c.until
	}
	return c.Conn.SetWriteDeadline(end)
}

// SetWriteDeadline implements [net.Conn].
func (c *deadlineConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	c.until = t
	c.mu.Unlock()
	return c.restart()
}

// SetDeadline implements [net.Conn].
func (c *deadlineConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// CloseWrite lets net/http end a connection without cutting off what is on its way.
func (c *deadlineConn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// limitStreams gives clients of HTTP/2 the same limit for each stream. A client may read what the
// connection sends and, through the stream's window, nothing of an answer (RFC 9113 section 5.2);
// the connection then never waits for it.
func limitStreams(limit limit, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		s := &deadlineStream{w, http.NewResponseController(w), limit()}
		defer func() { // the server sends what is buffered after the handler has returned
			if r.Context().Err() == nil {
				_ = s.control.SetWriteDeadline(time.Now().Add(s.limit))
			}
		}()
		next.ServeHTTP(s, r)
	})
}

type deadlineStream struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

// Unwrap is for [http.ResponseController].
func (s *deadlineStream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *deadlineStream) Write(p []byte) (int, error) {
	t := s.restart()
	defer t.Stop()
	return inPieces(s.ResponseWriter, p, func() error { t.Reset(s.limit); return nil })
}

// FlushError implements what [http.ResponseController] looks for.
func (s *deadlineStream) FlushError() error {
	defer s.restart().Stop()
	return s.control.Flush()
}

// Flush implements [http.Flusher].
func (s *deadlineStream) Flush() { _ = s.FlushError() }

// restart starts a timer that ends the stream when the limit is over. A deadline of the stream's
// own would also end it while no write waits for the client.
func (s *deadlineStream) restart() *time.Timer {
	return time.AfterFunc(s.limit, func() { _ = s.control.SetWriteDeadline(time.Unix(1, 0)) })
}
