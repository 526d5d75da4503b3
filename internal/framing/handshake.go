package framing

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"time"
)

// handshake does the TLS handshake before the first byte is read. By then net/http has a goroutine
// for the connection and has set the deadline for its first header. The client and the log get what
// net/http would give them if the handshake fails.
func (c *conn) handshake() error {
	t, ok := c.Conn.(*tls.Conn)
	if !ok || c.tls != nil {
		return nil
	}
	if d := c.server.headerTimeout; d > 0 { // net/http sets no write deadline here
		_ = t.SetWriteDeadline(time.Now().Add(d))
	}
	if err := t.Handshake(); err != nil {
		plain, ok := errors.AsType[tls.RecordHeaderError](err)
		if ok = ok && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader); ok {
			err = errors.New("client sent an HTTP request to an HTTPS server")
		}
		cmp.Or(c.server.srv.ErrorLog, log.Default()).Printf("http: TLS handshake error from %v: %v", c.RemoteAddr(), err)
		if ok {
			_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
			_ = plain.Conn.Close()
		}
		return io.EOF
	}
	_ = t.SetWriteDeadline(time.Time{})
	state := t.ConnectionState()
	if state.NegotiatedProtocol == protoHTTP2 && state.Version < tls.VersionTLS12 { // RFC 9113 section 9.2
		return io.EOF
	}
	c.tls = &state
	return nil
}

// looksLikeHTTP reports whether what was no TLS record is the beginning of a request, by the rule
// of net/http.
func looksLikeHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}
