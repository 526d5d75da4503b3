package main

import (
	"crypto/tls"
	"net/http"
	"sync/atomic"
)

// exchanged is a handler that can be exchanged while it serves. Requests that run stay with the one
// they began with.
type exchanged struct{ now atomic.Pointer[http.Handler] }

func (x *exchanged) set(h http.Handler) { x.now.Store(&h) }

// ServeHTTP implements [http.Handler].
func (x *exchanged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := *x.now.Load(); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// certificates are what new connections are shown, and what their clients' are checked against.
// They can be exchanged while a listener uses them.
type certificates struct{ now atomic.Pointer[tls.Config] }

// set takes certificates for a listener that speaks these protocols of ALPN; nil is none.
func (c *certificates) set(t *tls.Config, protocols ...string) {
	if t != nil {
		t.NextProtos = protocols
	}
	c.now.Store(t)
}

// config is for the listener; nil: it has no TLS.
func (c *certificates) config() *tls.Config {
	if c.now.Load() == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return c.now.Load(), nil
	}}
}
