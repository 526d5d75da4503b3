package gateway

import (
	"bufio"
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

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/framing"
	"github.com/stet-dev/stet/internal/quiet"
)

// ServerConfig says where and how a [Server] listens. Handler is required.
type ServerConfig struct {
	Listen string // host:port of the public listener; port 0 picks a free one
	Admin  string // host:port of the listener for AdminHandler; default: none
	// AdminSocket is the path of a Unix socket for AdminHandler, besides Admin or instead of it;
	// default: none. Its mode is 0600. A socket that exists there is replaced if no process listens
	// on it.
	AdminSocket string
	AdminTLS    *tls.Config // TLS of Admin, with a certificate; default: no TLS
	TLS         *tls.Config // TLS of Listen, with a certificate, and HTTP/2; default: no TLS
	H2C         bool        // accept HTTP/2 without TLS, by prior knowledge (RFC 9113 section 3.3)

	ReadHeaderTimeout time.Duration // for a request header, or a TLS handshake, to arrive; default 10 s
	ReadTimeout       time.Duration // for a whole request body to arrive; default 30 s; [stet.Never]: no limit
	WriteTimeout      time.Duration // for a client to read the next 64 KiB of an answer; default 30 s; [stet.Never]: no limit
	IdleTimeout       time.Duration // of a connection between requests; default 2 min
	// DrainTimeout bounds how long running requests may go on after the end was asked for. Then
	// their connections are closed. Default 1 min.
	DrainTimeout time.Duration
	// DrainDelay is how long requests are still served after the end was asked for, while
	// [Server.Draining] is true already. It gives load balancers time to notice. Default none.
	DrainDelay time.Duration
	// MaxHeaderBytes bounds a request's line and header, to which net/http adds up to 4 KiB; a
	// longer one gets 431. Default 64 KiB. For the admin listener it is [AdminHeaderBytes].
	MaxHeaderBytes int

	Handler      http.Handler // serves Listen; required; [Server.SetHandler] swaps it
	AdminHandler http.Handler // serves Admin and AdminSocket; required with either
	Log          *slog.Logger // receives failures of connections; default: nothing is logged
}

var serverBounds = bounds.For[ServerConfig](
	bounds.Duration("ReadHeaderTimeout", bounds.Short, bounds.Long).OrDefault(),
	bounds.Duration("ReadTimeout", bounds.Short, bounds.Long).OrDefault().Or("stet.Never", stet.Never),
	bounds.Duration("WriteTimeout", bounds.Short, bounds.Long).OrDefault().Or("stet.Never", stet.Never),
	bounds.Duration("IdleTimeout", bounds.Short, bounds.Long).OrDefault(),
	bounds.Duration("DrainTimeout", bounds.Short, bounds.Long).OrDefault(),
	bounds.Duration("DrainDelay", bounds.Short, bounds.Long).Or("0 for none", 0),
	bounds.Number("MaxHeaderBytes", 1, bounds.Many).OrDefault(),
)

// AdminHeaderBytes bounds the header of a request to the admin listener, in bytes.
const AdminHeaderBytes = 16 << 10

// Server serves the public listener and the admin listener. It is safe for concurrent use; Run may
// be called once.
type Server struct {
	handler  atomic.Pointer[http.Handler]
	timeouts atomic.Pointer[ServerConfig] // those of [Server.SetTimeouts]
	drain    drain
	ending   atomic.Bool // the end was asked for
	public   listener
	admin    listener           // zero: none
	socket   listener           // likewise
	base     context.Context    // of all requests
	cut      context.CancelFunc // ends base
}

type listener struct {
	net.Listener
	srv *http.Server
}

// limit is a duration that may change while it is in use.
type limit func() time.Duration

// forever stands for no limit.
const forever = 100 * 365 * 24 * time.Hour

// NewServer binds the listeners; [Server.Run] serves them. The error names the address that cannot
// be used.
func NewServer(c ServerConfig) (*Server, error) {
	if c.Handler == nil || (c.Admin != "" || c.AdminSocket != "") != (c.AdminHandler != nil) {
		return nil, errors.New("gateway: NewServer needs a Handler, and an AdminHandler if and only if Admin or AdminSocket is set")
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	s := &Server{}
	if err := s.SetTimeouts(c); err != nil {
		return nil, err
	}
	s.base, s.cut = context.WithCancel(context.WithValue(context.Background(), drainKey{}, &s.drain))
	s.drain.over = s.base.Done()
	s.SetHandler(c.Handler)
	var err error
	if s.public.Listener, err = net.Listen("tcp", c.Listen); err != nil {
		return nil, fmt.Errorf("gateway: cannot listen on %s: %w", c.Listen, err)
	}
	if err := s.listenAdmin(c); err != nil {
		_ = s.public.Close()
		return nil, err
	}
	write := func() time.Duration { return s.timeouts.Load().WriteTimeout }
	s.public.Listener = deadlineListener{s.public.Listener, write}
	s.public.srv = s.newHTTPServer(c, limitStreams(write, http.HandlerFunc(s.serve)))
	s.public.srv.MaxHeaderBytes = cmp.Or(c.MaxHeaderBytes, 64<<10)
	s.public.srv.Protocols = protocols(c)
	s.public.srv.DisableGeneralOptionsHandler = true // the upstream answers OPTIONS *
	s.public.srv.BaseContext = func(net.Listener) context.Context { return s.base }
	s.public.srv.TLSConfig = c.TLS
	s.public.Listener = framing.Listen(s.public.srv, s.public.Listener)
	return s, nil
}

// listenAdmin binds the listeners for operators.
func (s *Server) listenAdmin(c ServerConfig) (err error) {
	if c.Admin != "" {
		if s.admin.Listener, err = net.Listen("tcp", c.Admin); err != nil {
			return fmt.Errorf("gateway: cannot listen on %s (admin): %w", c.Admin, err)
		}
		if c.AdminTLS != nil {
			s.admin.Listener = tls.NewListener(s.admin.Listener, c.AdminTLS)
		}
		s.admin.srv = s.newAdminServer(c)
	}
	if c.AdminSocket != "" {
		if s.socket.Listener, err = listenUnix(c.AdminSocket); err != nil {
			if s.admin.Listener != nil {
				_ = s.admin.Close()
			}
			return fmt.Errorf("gateway: cannot listen on %s (admin): %w", c.AdminSocket, err)
		}
		s.socket.srv = s.newAdminServer(c)
	}
	return nil
}

func (s *Server) newAdminServer(c ServerConfig) *http.Server {
	srv := s.newHTTPServer(c, c.AdminHandler)
	srv.MaxHeaderBytes = AdminHeaderBytes
	srv.DisableGeneralOptionsHandler = true // every answer is the handler's
	return srv
}

func (s *Server) newHTTPServer(c ServerConfig, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           limitBodies(func() time.Duration { return s.timeouts.Load().ReadTimeout }, h),
		ReadHeaderTimeout: cmp.Or(c.ReadHeaderTimeout, 10*time.Second),
		IdleTimeout:       cmp.Or(c.IdleTimeout, 2*time.Minute),
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

// Addr returns the address of the public listener.
func (s *Server) Addr() string { return s.public.Addr().String() }

// AdminAddr returns the address of the admin listener, or an empty string if there is none.
func (s *Server) AdminAddr() string {
	if s.admin.Listener == nil {
		return ""
	}
	return s.admin.Addr().String()
}

// SetHandler replaces the public handler. Running requests stay with the one that they started
// with.
func (s *Server) SetHandler(h http.Handler) { s.handler.Store(&h) }

// SetTimeouts puts ReadTimeout, WriteTimeout, DrainTimeout and DrainDelay of c in force for
// requests and answers that begin from now on. It uses no other field of c. If a number of c is out
// of bounds, nothing changes, and the error says which.
func (s *Server) SetTimeouts(c ServerConfig) error {
	if err := serverBounds.Check(&c); err != nil {
		return err
	}
	s.timeouts.Store(&ServerConfig{
		ReadTimeout:  orForever(cmp.Or(c.ReadTimeout, 30*time.Second)),
		WriteTimeout: orForever(cmp.Or(c.WriteTimeout, 30*time.Second)),
		DrainTimeout: cmp.Or(c.DrainTimeout, time.Minute), DrainDelay: c.DrainDelay,
	})
	return nil
}

// Timeouts returns the timeouts in force, in the fields that [Server.SetTimeouts] reads.
func (s *Server) Timeouts() ServerConfig { return *s.timeouts.Load() }

func orForever(d time.Duration) time.Duration {
	if d < 0 {
		return forever
	}
	return d
}

// Draining reports whether the end was asked for, so that new requests are better sent elsewhere.
func (s *Server) Draining() bool { return s.ending.Load() }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	h := *s.handler.Load()
	if !s.drain.enter() {
		refuseDraining(w, r, h)
		return
	}
	leave := s.drain.leave
	if door.Upgrades(r) {
		leave = sync.OnceFunc(leave)
		if w = (&upgrading{w, leave}); r.Method == http.MethodConnect {
			leave()
		}
	}
	defer leave()
	h.ServeHTTP(w, r)
}

// upgrading is the ResponseWriter of a request that may switch its connection to another protocol.
// Such a connection may last for days, and ends when all requests have. A guarded GET is answered
// like any other, whatever it offers, and is waited for.
type upgrading struct {
	http.ResponseWriter
	leave func()
}

// Unwrap is for [http.ResponseController].
func (u *upgrading) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// Hijack implements [http.Hijacker].
func (u *upgrading) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err == nil {
		u.leave()
	}
	return conn, rw, err
}

// Run serves until ctx ends and for DrainDelay more, and then drains: the listener closes, requests
// on kept-alive connections are answered with 503 and Connection: close, and Run returns when the
// running requests have finished. If the handler is a [Gateway], or a type that embeds one, that
// answer has the form of the Gateway's own refusals. The admin listener stays open until then. The error says that a
// listener failed, or that requests were cut off after DrainTimeout. Upgraded connections are
// closed without waiting for them.
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
		s.ending.Store(true)
		select {
		case <-time.After(s.timeouts.Load().DrainDelay):
		case err = <-failed:
		}
	case err = <-failed:
	}
	if err != nil {
		err = fmt.Errorf("gateway: %w", err)
	}
	limit := s.timeouts.Load().DrainTimeout
	if left := s.stop(limit); left > 0 && err == nil {
		err = fmt.Errorf("gateway: %d requests did not end within %s and were cut off", left, limit)
	}
	serving.Wait()
	return err
}

// lastWords is how long answers may take from the server's buffers to the clients. Connections on
// which nothing has arrived yet get no longer either; [http.Server.Shutdown] would wait 5 s for
// them.
const lastWords = time.Second

// stop ends all servers and returns how many requests were cut off. [http.Server.Shutdown] comes
// last: it closes kept-alive connections without an answer, and a client whose request is just on
// its way could not tell what happened to it.
func (s *Server) stop(limit time.Duration) (left int) {
	s.ending.Store(true)
	idle := s.drain.begin()
	_ = s.public.Close()
	select {
	case <-idle:
	case <-time.After(limit):
		left, _ = s.drain.look()
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
