package gateway_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// patience bounds everything that a test waits for.
const patience = time.Minute

// rig is a gateway on a real listener.
type rig struct {
	testing.TB
	engine   *stet.Engine
	store    *memstore.Store
	gw       *gateway.Gateway
	url      string
	upstream string
	client   *http.Client
	log      *logBuffer
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newRig puts a gateway in front of an upstream. What it started is gone when the test ends:
// goroutines included.
func newRig(t testing.TB, upstream string, adjust func(*gateway.Config)) *rig {
	t.Helper()
	checkLeaks(t)
	r := &rig{TB: t, upstream: upstream, log: &logBuffer{}, store: memstore.New(memstore.Config{})}
	var err error
	if r.engine, err = stet.New(r.store, stet.Config{Pepper: []byte("pepper")}); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	c := gateway.Config{Upstream: u, Log: slog.New(slog.NewJSONHandler(r.log, nil))}
	if adjust != nil {
		adjust(&c)
	}
	if r.gw, err = gateway.New(r.engine, c); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(r.gw)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv.Config.DisableGeneralOptionsHandler = true
	srv.Start()
	r.url = srv.URL
	r.client = &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		srv.Close()
		r.gw.CloseIdle()
	})
	return r
}

// checkLeaks fails a test that leaves goroutines behind. Cleanups run last to first: call it before
// anything is started.
func checkLeaks(t testing.TB) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(patience)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<20)
				t.Errorf("%d goroutines, there were %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
				return
			}
			runtime.Gosched()
		}
	})
}

// answer is a response, read to its end.
type answer struct {
	*http.Response
	body string
	err  error // of reading the body, or of the whole exchange
}

type header map[string]string

func (r *rig) do(method, path, body string, h header) answer {
	r.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, r.url+path, rd)
	if err != nil {
		r.Fatal(err)
	}
	req.GetBody = nil
	for name, v := range h {
		req.Header[name] = []string{v} // spelled as the client's transport does not know it, or it would repeat requests itself
	}
	res, err := r.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res, string(b), err}
}

// post sends a keyed request.
func (r *rig) post(key, path, body string) answer {
	r.Helper()
	return r.do("POST", path, body, header{"idempotency-key": key, "Content-Type": "application/json"})
}

func (r *rig) status(a answer, want int) answer {
	r.Helper()
	if a.err != nil || a.StatusCode != want {
		r.Fatalf("want %d, got %+v", want, a)
	}
	return a
}

// problem demands a problem document of that code.
func (r *rig) problem(a answer, code stethttp.Code) *stethttp.Problem {
	r.Helper()
	if a.err != nil {
		r.Fatalf("want the problem %s: %v", code, a.err)
	}
	var p stethttp.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Code != code || p.Status != a.StatusCode ||
		a.Header.Get("Content-Type") != "application/problem+json" || a.Header.Get("Link") == "" {
		r.Fatalf("want the problem %s: %d %q %v", code, a.StatusCode, a.body, a.Header)
	}
	if (p.RetryAfter > 0) != (a.Header.Get("Retry-After") != "") {
		r.Fatalf("Retry-After %q, retry_after %d", a.Header.Get("Retry-After"), p.RetryAfter)
	}
	return &p
}

// state demands that the key's record is in a state, for a cause.
func (r *rig) state(key string, want stet.State, cause string) {
	r.Helper()
	rec, err := r.engine.Get(r.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(key)})
	if err != nil || rec.State != want || rec.Cause != cause {
		r.Fatalf("%s: %s (%s) %v, want %s (%s)", key, rec.State, rec.Cause, err, want, cause)
	}
}

// absent demands that nothing was stored for the key.
func (r *rig) absent(key string) {
	r.Helper()
	if _, err := r.engine.Get(r.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(key)}); !errors.Is(err, stet.ErrNotFound) {
		r.Fatalf("%s: a record is stored (%v)", key, err)
	}
}

// raw sends bytes on a connection of its own, and returns a reader of what comes back.
func (r *rig) raw(text string) (net.Conn, *bufio.Reader) {
	r.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		r.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

// upstream serves h, and returns its URL.
func upstream(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // handlers panic on purpose
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

// tcpUpstream gives each connection to serve, which owns it.
func tcpUpstream(t testing.TB, serve func(net.Conn, *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + serveTCP(t, l, serve)
}

func serveTCP(t testing.TB, l net.Listener, serve func(net.Conn, *bufio.Reader)) string {
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				serve(c, bufio.NewReader(c))
			})
		}
	})
	return l.Addr().String()
}

// readRequest reads one request with its body; nil where the connection ended.
func readRequest(in *bufio.Reader) *http.Request {
	req, err := http.ReadRequest(in)
	if err != nil {
		return nil
	}
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil
	}
	req.Body = io.NopCloser(bytes.NewReader(b))
	return req
}

const created = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"

// certificate is one that a client with the returned configuration trusts.
func certificate(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.StartTLS()
	defer srv.Close()
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return &tls.Config{Certificates: srv.TLS.Certificates}, &tls.Config{RootCAs: pool, ServerName: "example.com"}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("%v", err))
	}
	return v
}
