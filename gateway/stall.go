package gateway

import (
	"net"
	"time"
)

// takingWithin gives the clients of a listener a time limit to take what is sent to them. http.Server.WriteTimeout counts from the
// request's header on, and would end long executions; this counts while somebody waits for the client, and begins anew with every
// piece it takes. Without it clients that read nothing would hold their answers in memory for as long as they like.
type takingWithin struct {
	net.Listener
	limit time.Duration
}

func (l takingWithin) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &takingConn{c, l.limit}, nil
}

type takingConn struct {
	net.Conn
	limit time.Duration
}

// piece is what a client has to take within the limit.
const piece = 64 << 10

func (c *takingConn) Write(p []byte) (n int, err error) {
	for {
		if err := c.SetWriteDeadline(time.Now().Add(c.limit)); err != nil {
			return n, err
		}
		k, err := c.Conn.Write(p[:min(len(p), piece)])
		if n += k; err != nil || k == len(p) {
			return n, err
		}
		p = p[k:]
	}
}

// CloseWrite lets net/http end a connection without cutting off what is on its way.
func (c *takingConn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}
