package gateway

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// deadlineListener gives the clients of a listener a time limit to take what is sent to them. http.Server.WriteTimeout counts from the
// request's header on, and would end long executions; this counts while somebody waits for the client, and begins anew with every
// piece it takes. Without it clients that read nothing would hold their answers in memory for as long as they like.
type deadlineListener struct {
	net.Listener
	limit *limit
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
	limit *limit

	mu    sync.Mutex
	until time.Time // as others have set it, such as package tls for its last words; zero: not at all
}

// piece is what a client has to take within the limit.
const piece = 64 << 10

func (c *deadlineConn) Write(p []byte) (n int, err error) {
	for {
		if err := c.restart(); err != nil {
			return n, err
		}
		k, err := c.Conn.Write(p[:min(len(p), piece)])
		if n += k; err != nil || k == len(p) {
			return n, err
		}
		p = p[k:]
	}
}

// restart begins the limit anew. A deadline that somebody has set counts where it is earlier.
func (c *deadlineConn) restart() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := time.Now().Add(c.limit.get())
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

// limitStreams gives clients of HTTP/2 the same limit for each stream. They may take what the connection has to say and, by the
// stream's window, nothing of an answer (RFC 9113 section 5.2): the connection never waits for them then.
func limitStreams(limit *limit, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		s := &deadlineStream{w, http.NewResponseController(w), limit.get()}
		defer func() { // what is buffered goes out when the handler has returned
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

func (s *deadlineStream) Write(p []byte) (n int, err error) {
	t := s.restart()
	defer t.Stop()
	for {
		t.Reset(s.limit)
		k, err := s.ResponseWriter.Write(p[:min(len(p), piece)])
		if n += k; err != nil || k == len(p) {
			return n, err
		}
		p = p[k:]
	}
}

// FlushError is for [http.ResponseController], and Flush for those who do not know it.
func (s *deadlineStream) FlushError() error {
	defer s.restart().Stop()
	return s.control.Flush()
}

// Flush implements [http.Flusher].
func (s *deadlineStream) Flush() { _ = s.FlushError() }

// restart ends the stream when the limit is over. A deadline of the stream's own would do so while nobody waits for the client, too.
func (s *deadlineStream) restart() *time.Timer {
	return time.AfterFunc(s.limit, func() { _ = s.control.SetWriteDeadline(time.Unix(1, 0)) })
}
