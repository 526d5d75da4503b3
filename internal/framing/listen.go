package framing

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// These are ALPN names (RFC 7301 section 6), and the name by which net/http is told of HTTP/2 on
// connections that it takes for unencrypted.
const (
	protoHTTP1 = "http/1.1"
	protoHTTP2 = "h2"
	plainHTTP2 = "unencrypted_http2"
)

// Listen returns the listener to give to [http.Server.Serve]: connections of l, watched by this
// package. Call it once for a server, before the server serves and after its other fields are set.
// Listen sets srv.ConnState to a hook that calls the previous one.
//
// If srv.TLSConfig is set, the listener serves TLS as [http.Server.ServeTLS] would, and the config
// needs a certificate. In this case Listen also sets srv.Protocols, and replaces ConnContext and
// Handler by functions that call the previous ones.
func Listen(srv *http.Server, l net.Listener) net.Listener {
	f := &listener{Listener: l, srv: srv, headerTimeout: cmp.Or(srv.ReadHeaderTimeout, srv.ReadTimeout),
		config: func() (*tls.Config, error) { return nil, nil }}
	const buffers = 2 * 4096 // what net/http may read of a head without counting it
	f.maxHeld = cmp.Or(max(0, srv.MaxHeaderBytes), http.DefaultMaxHeaderBytes) + buffers
	hook := srv.ConnState
	srv.ConnState = func(nc net.Conn, s http.ConnState) {
		if c, ok := nc.(*conn); ok && s == http.StateHijacked {
			c.plain.Store(true)
		}
		if hook != nil {
			hook(nc, s)
		}
	}
	if srv.TLSConfig != nil {
		f.secure()
	}
	return f
}

type listener struct {
	net.Listener
	srv           *http.Server
	maxHeld       int
	headerTimeout time.Duration

	// config gives nil if srv had no TLSConfig in Listen: later net/http gives it one in any case.
	config    func() (*tls.Config, error)
	protocols http.Protocols // over TLS
}

type connKey struct{}

// secure prepares for TLS. net/http speaks HTTP/2 only over a *tls.Conn, or over what it takes for
// an unencrypted connection. It is made to take these connections for unencrypted ones, and
// requests get their TLS state here.
func (l *listener) secure() {
	srv := l.srv
	l.config = sync.OnceValues(l.configure)
	if srv.Protocols == nil { // net/http's own default
		srv.Protocols = new(http.Protocols)
		srv.Protocols.SetHTTP1(true)
		srv.Protocols.SetHTTP2(srv.TLSNextProto == nil || srv.TLSNextProto[protoHTTP2] != nil)
	}
	l.protocols = *srv.Protocols
	own := l.protocols
	own.SetUnencryptedHTTP2(l.protocols.HTTP2())
	srv.Protocols = &own

	connContext := srv.ConnContext
	srv.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if connContext != nil {
			ctx = connContext(ctx, nc)
		}
		return context.WithValue(ctx, connKey{}, nc)
	}
	next := cmp.Or[http.Handler](srv.Handler, http.DefaultServeMux)
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok && r.TLS == nil {
			r.TLS = c.tls
		}
		next.ServeHTTP(w, r)
	})
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	config, err := l.config()
	if err != nil {
		return nil, err
	}
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if config != nil {
		nc = tls.Server(nc, config)
	}
	return &conn{Conn: nc, server: l}, nil
}

// configure makes the TLS configuration. Unlike [Listen], it knows which protocols net/http can
// speak.
func (l *listener) configure() (*tls.Config, error) {
	c := l.srv.TLSConfig.Clone()
	if len(c.Certificates) == 0 && c.GetCertificate == nil && c.GetConfigForClient == nil {
		return nil, errors.New("framing: the TLS configuration has no certificate")
	}
	c.NextProtos = slices.DeleteFunc(slices.Clone(c.NextProtos), func(p string) bool { return p == protoHTTP1 || p == protoHTTP2 })
	if l.protocols.HTTP2() && l.srv.TLSNextProto[plainHTTP2] != nil {
		c.NextProtos = append(c.NextProtos, protoHTTP2)
	}
	if l.protocols.HTTP1() {
		c.NextProtos = append(c.NextProtos, protoHTTP1)
	}
	return c, nil
}
