package stethttp

import (
	"net"
	"net/http"

	"github.com/stet-dev/stet/internal/framing"
)

// StrictFraming makes a server of one's own refuse what net/http hides: requests that have Content-Length and Transfer-Encoding, or
// Transfer-Encoding in HTTP/1.0. A proxy in front that takes the other one of the two for the truth sees other requests on the
// connection than the server does, and somebody may hide one from it (RFC 9112 sections 6.1 and 11.2). Guarded handlers answer them
// with [BadFraming] and close the connection; other handlers see them with the header Stet-Bad-Frame.
//
// It returns the listener to give to [http.Server.Serve], and is called once for a server, when its other fields are set:
//
//	srv := &http.Server{Addr: ":8080", Handler: idempotent(api)}
//	l, err := net.Listen("tcp", srv.Addr)
//	…
//	err = srv.Serve(stethttp.StrictFraming(srv, l))
//
// Where srv.TLSConfig is set, it serves TLS by it: call Serve, not ServeTLS. The config needs a certificate, and l is the listener
// below TLS. HTTP/2 is served as ServeTLS would; it has no such doubt, but header blocks have to be complete within
// srv.ReadHeaderTimeout (else ReadTimeout). It sets srv's ConnState, and for TLS ConnContext, Handler and Protocols; hooks that were
// there are called. The [net.Conn] of hooks and hijacked connections is neither a *net.TCPConn nor a *tls.Conn.
func StrictFraming(srv *http.Server, l net.Listener) net.Listener { return framing.Listen(srv, l) }
