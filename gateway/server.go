package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet/internal/framing"
	"github.com/stet-dev/stet/internal/quiet"
	"github.com/stet-dev/stet/internal/upgrade"
)

// ServerConfig is where and how a [Server] listens. Handler is required.
type ServerConfig struct {
	Listen string // host:port; port 0 picks a free one
	Admin  string // the same for AdminHandler; empty: no such listener
	// AdminSocket is the path of a Unix socket for AdminHandler, besides Admin or instead of it; empty: none. Its mode is 0600. One
	// that is there already is replaced if nobody listens on it.
	AdminSocket string
	AdminTLS    *tls.Config // of Admin, with a certificate; nil: none
	TLS         *tls.Config // of the public listener, with a certificate; nil: none. HTTP/2 comes with it
	H2C         bool        // HTTP/2 without TLS, by prior knowledge (RFC 9113 section 3.3)

	ReadHeaderTimeout time.Duration // for a request's header, and a TLS handshake, to arrive; default 10 s
	ReadTimeout       time.Duration // for a request's whole body to arrive; default 30 s; negative: no limit
	WriteTimeout      time.Duration // for a client to take the next 64 KiB of an answer; default 30 s; negative: no limit
	IdleTimeout       time.Duration // of a connection between requests; default 2 min
	// DrainTimeout bounds how long requests that run may go on after the end was asked for; then their connections are closed.
	// Default 1 min.
	DrainTimeout time.Duration
	// MaxHeaderBytes bounds a request's line and header, to which net/http adds up to 4 KiB; over it: 431. Default 64 KiB. For the
	// admin listener it is [AdminHeaderBytes].
	MaxHeaderBytes int

	Handler      http.Handler // [Server.SetHandler] swaps it
	AdminHandler http.Handler
	Log          *slog.Logger // what goes wrong with connections; nil logs nothing
}

// Defaults of [ServerConfig].
const (
	DefaultReadHeaderTimeout = 10 * time.Second
	DefaultReadTimeout       = 30 * time.Second
	DefaultWriteTimeout      = 30 * time.Second
	DefaultIdleTimeout       = 2 * time.Minute
	DefaultDrainTimeout      = time.Minute
	DefaultMaxHeaderBytes    = 64 << 10
)

// AdminHeaderBytes bounds the header of an operator's request.
const AdminHeaderBytes = 16 << 10

// Server serves the public listener and the admin listener. Its methods are safe for concurrent use; Run may be called once.
type Server struct {
	handler atomic.Pointer[http.Handler]
	drain   drain
	timeout time.Duration
	public  listener
	admin   listener           // zero: none
	socket  listener           // likewise
	base    context.Context    // of all requests
	cut     context.CancelFunc // ends base
}

type listener struct {
	net.Listener
	srv *http.Server
}

// NewServer binds the listeners; they are served by [Server.Run]. The error names the address that cannot be used.
func NewServer(c ServerConfig) (*Server, error) {
	if c.Handler == nil || (c.Admin != "" || c.AdminSocket != "") != (c.AdminHandler != nil) {
		return nil, errors.New("gateway: NewServer needs a Handler, and an AdminHandler exactly if there is an Admin address or socket")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{timeout: cmp.Or(c.DrainTimeout, DefaultDrainTimeout)}
	s.base, s.cut = context.WithCancel(context.WithValue(context.Background(), drainKey{}, &s.drain))
	s.SetHandler(c.Handler)
	var err error
	if s.public.Listener, err = net.Listen("tcp", c.Listen); err != nil {
		return nil, fmt.Errorf("gateway: cannot listen on %s: %w", c.Listen, err)
	}
	if err := s.listenAdmin(c); err != nil {
		_ = s.public.Close()
		return nil, err
	}
	var public http.Handler = http.HandlerFunc(s.serve)
	if limit := cmp.Or(c.WriteTimeout, DefaultWriteTimeout); limit > 0 {
		s.public.Listener = takingWithin{s.public.Listener, limit}
		public = streamsWithin(limit, public)
	}
	s.public.srv = newHTTPServer(c, public)
	s.public.srv.MaxHeaderBytes = cmp.Or(c.MaxHeaderBytes, DefaultMaxHeaderBytes)
	s.public.srv.Protocols = protocols(c)
	s.public.srv.DisableGeneralOptionsHandler = true // OPTIONS * is the upstream's to answer
	s.public.srv.BaseContext = func(net.Listener) context.Context { return s.base }
	s.public.srv.TLSConfig = c.TLS
	s.public.Listener = framing.Listen(s.public.srv, s.public.Listener)
	return s, nil
}

// listenAdmin binds what operators connect to.
func (s *Server) listenAdmin(c ServerConfig) (err error) {
	if c.Admin != "" {
		if s.admin.Listener, err = net.Listen("tcp", c.Admin); err != nil {
			return fmt.Errorf("gateway: cannot listen on %s (admin): %w", c.Admin, err)
		}
		if c.AdminTLS != nil {
			s.admin.Listener = tls.NewListener(s.admin.Listener, c.AdminTLS)
		}
		s.admin.srv = newAdminServer(c)
	}
	if c.AdminSocket != "" {
		if s.socket.Listener, err = listenUnix(c.AdminSocket); err != nil {
			if s.admin.Listener != nil {
				_ = s.admin.Close()
			}
			return fmt.Errorf("gateway: cannot listen on %s (admin): %w", c.AdminSocket, err)
		}
		s.socket.srv = newAdminServer(c)
	}
	return nil
}

func newAdminServer(c ServerConfig) *http.Server {
	srv := newHTTPServer(c, c.AdminHandler)
	srv.MaxHeaderBytes = AdminHeaderBytes
	srv.DisableGeneralOptionsHandler = true // every answer is the handler's
	return srv
}

func newHTTPServer(c ServerConfig, h http.Handler) *http.Server {
	if limit := cmp.Or(c.ReadTimeout, DefaultReadTimeout); limit > 0 {
		h = arriveWithin(limit, h)
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: cmp.Or(c.ReadHeaderTimeout, DefaultReadHeaderTimeout),
		IdleTimeout:       cmp.Or(c.IdleTimeout, DefaultIdleTimeout),
		ErrorLog:          quiet.Logger(c.Log),
	}
}

func protocols(c ServerConfig) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(c.TLS != nil)
	p.SetUnencryptedHTTP2(c.H2C && c.TLS == nil)
	return p
}

// Addr is the address of the public listener.
func (s *Server) Addr() string { return s.public.Addr().String() }

// AdminAddr is the address of the admin listener, or empty.
func (s *Server) AdminAddr() string {
	if s.admin.Listener == nil {
		return ""
	}
	return s.admin.Addr().String()
}

// SetHandler replaces the public handler. Requests that run stay with the one they started with.
func (s *Server) SetHandler(h http.Handler) { s.handler.Store(&h) }

// Draining reports whether the end was asked for: the server is not ready for new requests.
func (s *Server) Draining() bool {
	_, begun := s.drain.begun()
	return begun
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.drain.enter() {
		refuseDraining(w, r)
		return
	}
	if upgrade.Asked(r) { // it may last for days; it ends when all others have
		s.drain.leave()
	} else {
		defer s.drain.leave()
	}
	(*s.handler.Load()).ServeHTTP(w, r)
}

// Run serves until ctx ends, then drains: the listener closes, requests on kept-alive connections are answered with 503 and
// Connection: close, and Run returns when what was running has finished. The admin listener stays open until then. An error
// means that a listener failed, or that requests were cut off after DrainTimeout. Upgraded connections are not waited for but closed.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 3)
	var serving sync.WaitGroup
	for _, l := range []*listener{&s.public, &s.admin, &s.socket} {
		if l.srv != nil {
			serving.Go(func() { failed <- l.srv.Serve(l) })
		}
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("gateway: %w", err)
	}
	if left := s.stop(); left > 0 && err == nil {
		err = fmt.Errorf("gateway: %d requests did not end within %s and were cut off", left, s.timeout)
	}
	serving.Wait()
	return err
}

// lastWords is how long answers may take to get from the server's buffers to the clients. Connections that have not said
// anything yet get no more of it: http.Server.Shutdown would wait 5 s for them.
const lastWords = time.Second

// stop ends both servers and returns how many requests had to be cut off. http.Server.Shutdown comes last: it closes
// kept-alive connections without a word, and a client whose request is just on its way could not tell what became of it.
func (s *Server) stop() (left int) {
	idle := s.drain.begin()
	_ = s.public.Close()
	limit := time.NewTimer(s.timeout)
	defer limit.Stop()
	select {
	case <-idle:
	case <-limit.C:
		left = s.drain.running()
	}
	s.cut()
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	for _, l := range []*listener{&s.public, &s.admin, &s.socket} {
		if l.srv != nil && (left > 0 || l.srv.Shutdown(ctx) != nil) {
			_ = l.srv.Close()
		}
	}
	return left
}
