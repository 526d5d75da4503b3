package stethttp

import (
	"net"
	"net/http"

	"github.com/stet-dev/stet/internal/framing"
)

// StrictFraming returns a listener that detects what net/http hides: requests with both
// Content-Length and Transfer-Encoding, or with Transfer-Encoding in HTTP/1.0. A proxy in front
// that believes the other field sees other requests on the connection than the server, and an
// attacker can hide a request from it (RFC 9112 sections 6.1 and 11.2). Guarded handlers answer
// such requests with [BadFraming] and close the connection; other handlers see them with the header
// Stet-Bad-Frame.
//
// Give the listener to [http.Server.Serve]. Call StrictFraming once for a server, after the
// server's other fields are set:
//
//	srv := &http.Server{Addr: ":8080", Handler: idempotent(api)}
//	l, err := net.Listen("tcp", srv.Addr)
//	…
//	err = srv.Serve(stethttp.StrictFraming(srv, l))
//
// If srv.TLSConfig is set, the listener serves TLS: call Serve, not ServeTLS, and give
// StrictFraming the listener below TLS. The config needs a certificate. HTTP/2 is offered as by
// ServeTLS. HTTP/2 has no doubt about framing, but a header block that has begun has to be complete
// within srv.ReadHeaderTimeout, or ReadTimeout if that is zero.
//
// StrictFraming sets srv.ConnState and, for TLS, also ConnContext, Handler and Protocols; the
// functions that were set before are called as well. The [net.Conn] of hooks and hijacked
// connections is neither a *net.TCPConn nor a *tls.Conn.
func StrictFraming(srv *http.Server, l net.Listener) net.Listener { return framing.Listen(srv, l) }
