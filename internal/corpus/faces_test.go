package corpus_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// setup is what a case stands on. The zero value is what most do.
type setup struct {
	tls  bool              // it is also asked over TLS
	with map[string]string // scope HEADER: whose request it is; key SYNTAX; early-data; max-body N; methods LIST: those that are guarded; strict: coverage of the gateway
	mode stethttp.Mode     // of everything but what a case switches off

	handler http.Handler // instead of the recorder
}

// config are the rules of both faces.
func (s *setup) config() stethttp.Config {
	c := stethttp.Config{Mode: s.mode}
	_, c.EarlyData = s.with["early-data"]
	c.Key.Syntax = map[string]stet.Syntax{"": 0, "opaque": stet.Opaque, "sf-string": stet.SFString}[s.with["key"]]
	if methods := s.with["methods"]; methods != "" {
		c.EnabledMethods = strings.Split(methods, ",")
	}
	if n, err := strconv.ParseInt(s.with["max-body"], 10, 64); err == nil {
		c.MaxBody = n
	}
	return c
}

func (s *setup) scope() stethttp.ScopeFunc {
	if h := s.with["scope"]; h != "" {
		return stethttp.HeaderScope(h)
	}
	return stethttp.SingleTenant
}

// face is a server that is asked, and what is behind it.
type face struct {
	addr, tlsAddr string
	rec           *recorder
	store         stet.Store
	engine        *stet.Engine
	proxy         bool
	stop          func()
}

func (s *script) setup() setup {
	return setup{with: s.with, tls: slices.ContainsFunc(s.conns, func(d *dialogue) bool { return d.tls })}
}

// faces are how to set them up, by name.
var faces = map[string]func(s setup) *face{"middleware": newMiddleware, "gateway": newGateway}

func newFace(s *setup) *face {
	f := &face{rec: &recorder{instead: s.handler}, store: memstore.New(memstore.Config{})}
	var err error
	if f.engine, err = stet.New(f.store, stet.Config{}); err != nil {
		panic(err)
	}
	return f
}

// newMiddleware guards the recorder itself, in servers such as a careful owner has them.
func newMiddleware(s setup) *face {
	f := newFace(&s)
	guarded := stethttp.Middleware(f.engine, s.scope(), s.config())(f.rec)
	plain := newServer(guarded, nil)
	f.addr, f.stop = serve(plain), func() { _ = plain.Close() }
	if s.tls {
		secure := newServer(guarded, serverTLS())
		f.tlsAddr, f.stop = serve(secure), func() { _, _ = plain.Close(), secure.Close() }
	}
	return f
}

func serve(srv *http.Server) (addr string) {
	l := listen()
	go func() { _ = srv.Serve(stethttp.StrictFraming(srv, l)) }()
	return l.Addr().String()
}

func newServer(h http.Handler, t *tls.Config) *http.Server {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: h, TLSConfig: t, Protocols: p, DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0)}
}

// newGateway puts the recorder behind one.
func newGateway(s setup) *face {
	f := newFace(&s)
	f.proxy = true
	ul := listen()
	upstream := newServer(f.rec, nil)
	upstream.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateActive { // a request's first byte: also of those that net/http refuses
			f.rec.received.Add(1)
		}
	}
	go func() { _ = upstream.Serve(ul) }()
	_, strict := s.with["strict"]
	off := s.config()
	off.Mode = stethttp.ModeOff
	gw, err := gateway.New(f.engine, gateway.Config{
		Upstream: &url.URL{Scheme: "http", Host: ul.Addr().String()}, Scope: s.scope(), StrictCoverage: strict,
		KeepHeaders: slices.DeleteFunc([]string{s.with["scope"]}, func(h string) bool { return h == "" }),
		Default:     s.config(),
		Routes: []gateway.Route{{Match: "/public/", Config: off}, {Match: "POST /v1/pay", Config: s.config()},
			{Match: "POST Pay.Example./hosted", Config: s.config()},
			{Match: "GET " + probe, Config: off}},
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	start := func(c gateway.ServerConfig) string {
		c.Listen, c.Handler = "127.0.0.1:0", gw
		srv, err := gateway.NewServer(c)
		if err != nil {
			panic(err)
		}
		serving.Go(func() { _ = srv.Run(ctx) })
		return srv.Addr()
	}
	f.addr = start(gateway.ServerConfig{H2C: true})
	if s.tls {
		f.tlsAddr = start(gateway.ServerConfig{TLS: serverTLS()})
	}
	f.stop = func() {
		cancel()
		serving.Wait()
		gw.CloseIdle()
		_ = upstream.Close()
	}
	return f
}

func listen() net.Listener {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return l
}

// serverTLS is a configuration with the certificate of package httptest.
var serverTLS = func() func() *tls.Config {
	certificate := sync.OnceValue(func() tls.Certificate {
		s := httptest.NewTLSServer(http.NotFoundHandler())
		defer s.Close()
		return s.TLS.Certificates[0]
	})
	return func() *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	}
}()

// recorder is the handler, and the upstream: it takes down what it gets. What it answers is for the
// path to say.
type recorder struct {
	received atomic.Int64 // by an upstream: how many requests began
	probes   atomic.Int64
	instead  http.Handler
	mu       sync.Mutex
	requests []recorded
	news     chan struct{} // closed when there is more
}

type recorded struct {
	method, target, host string
	length               int64
	header, trailer      http.Header
	body                 string
	broken               bool // the body
}

// probe is what a client asks for to find out whether its connection serves another request.
const (
	probe      = "/probe"
	probeField = "X-Probe" // of its answer
)

// ServeHTTP implements [http.Handler].
func (rec *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.RequestURI == probe {
		rec.probes.Add(1)
		w.Header().Set(probeField, "1")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if rec.instead != nil {
		rec.instead.ServeHTTP(w, r)
		return
	}
	got := recorded{method: r.Method, target: r.RequestURI, host: r.Host, length: r.ContentLength, header: r.Header.Clone()}
	got.header["Host"] = []string{r.Host} // where net/http keeps it from those who look for a field
	n := rec.note(-1, got)
	body, err := io.ReadAll(r.Body)
	got.body, got.broken, got.trailer = string(body), err != nil, r.Trailer.Clone()
	rec.note(n, got)
	answerBy(w, r, n+1)
}

// note takes down a request, the nth or another one.
func (rec *recorder) note(n int, r recorded) int {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if n < 0 {
		n = len(rec.requests)
		rec.requests = append(rec.requests, r)
	}
	rec.requests[n] = r
	if rec.news != nil {
		close(rec.news)
		rec.news = nil
	}
	return n
}

func (rec *recorder) changed() <-chan struct{} {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.news == nil {
		rec.news = make(chan struct{})
	}
	return rec.news
}

// answerBy answers as the last part of the path says.
func answerBy(w http.ResponseWriter, r *http.Request, n int) {
	h := w.Header()
	switch what := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]; what {
	case "empty":
		w.WriteHeader(http.StatusNoContent)
	case "implicit": // net/http finds status and type
	case "sniffed":
		_, _ = io.WriteString(w, "<html><body>hello")
	case "copied": // by io.ReaderFrom, where there is one: the framing depends on it
		_, _ = io.Copy(w, strings.NewReader(strings.Repeat("0123456789", 100)))
	case "large":
		_, _ = io.WriteString(w, strings.Repeat("0123456789", 10_000))
	case "flushed":
		h.Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	case "hints":
		h.Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
	case "trailers":
		h.Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "summed")
		h.Set("X-Sum", "7")
		h.Set(http.TrailerPrefix+"X-Late", "yes")
	case "aliases":
		h["Stet.Outcome"], h["Idempotent_Replayed"] = []string{"unknown"}, []string{"true"}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "done")
	case "alias-trailers":
		h.Set("Trailer", "Stet.Outcome, X-Sum, Idempotency.Key")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "done")
		h["Stet.outcome"], h["X-Sum"], h["Idempotency.key"] = []string{"unknown"}, []string{"7"}, []string{"other"}
	case "outcome-trailer":
		h.Set("Trailer", "Stet-Outcome")
		_, _ = io.WriteString(w, "who knows")
		h.Set("Stet-Outcome", "unknown")
	case "short":
		h.Set("Content-Length", "100")
		_, _ = io.WriteString(w, "not that long")
	case "abort":
		panic(http.ErrAbortHandler)
	case "close":
		h.Set("Connection", "close")
		w.WriteHeader(http.StatusCreated)
	case "untyped":
		h["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html>")
	case "ws":
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_ = conn.Close()
		}
	default:
		if word, ok := strings.CutPrefix(what, "says-"); ok {
			h.Set("Stet-Outcome", word)
		}
		status, err := strconv.Atoi(what)
		h.Set("Content-Type", "text/plain")
		w.WriteHeader(map[bool]int{true: status, false: http.StatusCreated}[err == nil])
		_, _ = fmt.Fprintf(w, "run %d", n)
	}
}

// seen returns what was recorded.
func (rec *recorder) seen() []recorded {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return slices.Clone(rec.requests)
}

// stored lists the records as lines.
func (f *face) stored() []string {
	lister, ok := stet.As[stet.Lister](f.store)
	if !ok {
		panic("corpus: the store cannot list")
	}
	heads, _, err := lister.List(context.Background(), stet.Query{Limit: stet.MaxLimit})
	if err != nil {
		panic(err)
	}
	lines := make([]string, 0, len(heads))
	for _, h := range heads {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", string(h.Scope), string(h.Key), cmp.Or(h.Path, "-"), h.State))
	}
	slices.Sort(lines)
	return lines
}
