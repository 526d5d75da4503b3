package gateway_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// running is a Server that Run serves.
type running struct {
	*gateway.Server
	t    testing.TB
	stop context.CancelFunc
	done chan error
}

func run(t testing.TB, c gateway.ServerConfig) *running {
	t.Helper()
	checkLeaks(t)
	return start(t, c)
}

// start is run where several servers run: goroutines are counted once, before the first has any.
func start(t testing.TB, c gateway.ServerConfig) *running {
	t.Helper()
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	s, err := gateway.NewServer(c)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Server: s, t: t, done: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if r.done != nil {
			r.wait()
		}
	})
	return r
}

func (r *running) wait() {
	r.t.Helper()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("Run: %v", err)
		}
	case <-time.After(patience):
		r.t.Error("Run does not end")
	}
	r.done = nil
}

// drain asks for the end, and returns when the drain has begun: the listener is closed.
func (r *running) drain() {
	r.stop()
	for {
		c, err := net.Dial("tcp", r.Addr())
		if err != nil {
			return
		}
		c.Close()
	}
}

// keptAlive is a connection of a client that keeps it.
type keptAlive struct {
	t  testing.TB
	c  net.Conn
	in *bufio.Reader
}

func connect(t testing.TB, addr string) *keptAlive {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &keptAlive{t, c, bufio.NewReader(c)}
}

func (k *keptAlive) send(text string) { fmt.Fprint(k.c, strings.ReplaceAll(text, "\n", "\r\n")) }

func (k *keptAlive) read() (*http.Response, string) {
	k.t.Helper()
	res, err := http.ReadResponse(k.in, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	return res, string(b)
}

const get = "GET / HTTP/1.1\nHost: x\n\n"

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })

// W32: the listener closes, kept-alive connections are told, what runs finishes, and the admin
// listener is there to the end.
func TestDrain(t *testing.T) {
	entered, goOn := make(chan struct{}), make(chan struct{})
	var s *running
	s = run(t, gateway.ServerConfig{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				entered <- struct{}{}
				<-goOn
			}
			fmt.Fprint(w, "ok")
		}),
		Admin:        "127.0.0.1:0",
		AdminHandler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s.Draining()) }),
	})
	addr := s.Addr()
	slow, idle, admin := connect(t, addr), connect(t, addr), connect(t, s.AdminAddr())
	idle.send(get)
	idle.read()
	admin.send(get)
	if _, b := admin.read(); b != "false" {
		t.Fatalf("draining: %s", b)
	}
	slow.send("GET /slow HTTP/1.1\nHost: x\n\n")
	<-entered
	s.drain()
	idle.send(get)
	res, b := idle.read()
	var doc struct {
		Code      string
		Retryable bool
	}
	if err := json.Unmarshal([]byte(b), &doc); err != nil || res.StatusCode != 503 || !res.Close || res.Header.Get("Retry-After") == "" || !doc.Retryable {
		t.Fatalf("%v %s", res, b)
	}
	if _, err := idle.in.ReadByte(); err != io.EOF {
		t.Fatalf("the connection stays open: %v", err)
	}
	admin.send(get)
	if _, b := admin.read(); b != "true" {
		t.Fatalf("draining: %s", b)
	}
	select {
	case err := <-s.done:
		t.Fatalf("Run ended before its requests: %v", err)
	default:
	}
	close(goOn)
	if res, b := slow.read(); res.StatusCode != 200 || b != "ok" {
		t.Fatalf("%v %s", res, b)
	}
	s.wait()
	if _, err := net.Dial("tcp", s.AdminAddr()); err == nil {
		t.Fatal("the admin listener is still open")
	}
}

// A request that comes while the server drains is refused in the form of the gateway's configuration
// and counted, and the upstream does not get it.
func TestRefusalsWhileDraining(t *testing.T) { // X01
	stripe := must(stethttp.Profile("stripe"))
	for name, c := range map[string]struct {
		form        stethttp.Config
		media, body string
		wrap        func(*gateway.Gateway) http.Handler // nil: it serves by itself
	}{
		"a problem base":  {stethttp.Config{ProblemBase: "https://errors.example/"}, "application/problem+json", `{"type":"https://errors.example/shutting-down",`, nil},
		"a profile":       {stripe, "application/json", `{"error":{"type":"api_error","code":"shutting-down",`, nil},
		"a form of one's": {stethttp.Config{Render: ownForm}, "text/x", "shutting-down, as we say it", nil},
		"embedded": {stethttp.Config{Errors: stethttp.PlainErrors}, "application/json", `{"error":"The gateway is shutting down"}`,
			func(g *gateway.Gateway) http.Handler { return struct{ *gateway.Gateway }{g} }},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			entered, goOn := make(chan struct{}), make(chan struct{})
			var asked atomic.Int64
			up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				if r.URL.Path == "/slow" {
					close(entered)
					<-goOn
				}
				fmt.Fprint(w, "ok")
			})
			counted := make(chan stet.Event, 10)
			e := must(stet.New(memstore.New(memstore.Config{}), stet.Config{Observe: func(e stet.Event) {
				if e.Kind == stet.Answer {
					counted <- e
				}
			}}))
			c.form.AllowOrigins = []string{"https://shop.example"}
			gw := must(gateway.New(e, gateway.Config{Upstream: must(url.Parse(up)), Default: c.form, Scope: stethttp.SingleTenant}))
			defer gw.CloseIdle()
			h := http.Handler(gw)
			if c.wrap != nil {
				h = c.wrap(gw)
			}
			s := start(t, gateway.ServerConfig{Handler: h})
			slow, idle := connect(t, s.Addr()), connect(t, s.Addr())
			idle.send(get)
			idle.read()
			<-counted
			slow.send("GET /slow HTTP/1.1\nHost: x\n\n")
			<-entered
			s.drain()
			idle.send("POST / HTTP/1.1\nHost: x\nOrigin: https://shop.example\nIdempotency-Key: \"k\"\nContent-Length: 2\n\n{}")
			res, body := idle.read()
			if got := res.Header; res.StatusCode != 503 || !res.Close || got.Get("Retry-After") != "1" || got.Get("Content-Type") != c.media ||
				got.Get("Access-Control-Allow-Origin") != "https://shop.example" || got.Get("Stet-Outcome") != "not-executed" || !strings.HasPrefix(body, c.body) {
				t.Errorf("%v %s", res, body)
			}
			select {
			case got := <-counted:
				if got.Result != "limited" || got.Status != 503 || got.Route != "default" {
					t.Errorf("it counts as %+v", got)
				}
			default:
				t.Error("it is not counted")
			}
			close(goOn)
			slow.read()
			s.wait()
			if got := asked.Load(); got != 2 {
				t.Errorf("the upstream got %d requests, want 2", got)
			}
		})
	}
}

func ownForm(w http.ResponseWriter, _ *http.Request, p *stethttp.Problem) {
	w.Header().Set("Content-Type", "text/x")
	w.WriteHeader(p.Status)
	fmt.Fprint(w, p.Code, ", as we say it")
}

// With nothing running there is nothing to wait for, whatever connections are open; upgraded ones
// are closed.
func TestDrainIdle(t *testing.T) {
	s := run(t, gateway.ServerConfig{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(w, "ok")
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: line\r\n\r\n")
		rw.Flush()
		<-r.Context().Done()
	})})
	idle, fresh, up := connect(t, s.Addr()), connect(t, s.Addr()), connect(t, s.Addr())
	idle.send(get)
	idle.read()
	up.send("GET / HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: line\n\n")
	if res, err := http.ReadResponse(up.in, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("%v %v", res, err)
	}
	fresh.send("GET") // http.Server.Shutdown would wait 5 s for more
	began := time.Now()
	s.stop()
	s.wait()
	tier.Took(t, "the end", time.Since(began), 3*time.Second)
	if _, err := up.in.ReadByte(); err == nil {
		t.Fatal("the upgraded connection is still open")
	}
}

// A request that does not end in time is cut off, and Run says so.
func TestDrainTimeout(t *testing.T) {
	entered, gone := make(chan struct{}), make(chan struct{})
	s := run(t, gateway.ServerConfig{DrainTimeout: 50 * time.Millisecond, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(gone)
	})})
	k := connect(t, s.Addr())
	k.send(get)
	<-entered
	s.stop()
	if err := <-s.done; err == nil || !strings.Contains(err.Error(), "1 requests") {
		t.Fatalf("%v", err)
	}
	s.done = nil
	<-gone
}

func TestSetHandler(t *testing.T) {
	s := run(t, gateway.ServerConfig{Handler: ok})
	k := connect(t, s.Addr())
	k.send(get)
	if _, b := k.read(); b != "ok" {
		t.Fatal(b)
	}
	s.SetHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "new") }))
	k.send(get)
	if _, b := k.read(); b != "new" {
		t.Fatal(b)
	}
}

// SM-08: HTTP/1.0, 1.1, 2 and, where wanted, 2 without TLS.
func TestProtocols(t *testing.T) {
	proto := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
	server, trust := certificate(t)
	ask := func(s *running, scheme string, p func(*http.Protocols)) string {
		t.Helper()
		tr := &http.Transport{TLSClientConfig: trust.Clone(), Protocols: new(http.Protocols)}
		p(tr.Protocols)
		defer tr.CloseIdleConnections()
		res, err := (&http.Client{Transport: tr, Timeout: patience}).Get(scheme + "://" + s.Addr())
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return string(b)
	}
	h1 := func(p *http.Protocols) { p.SetHTTP1(true) }
	h2 := func(p *http.Protocols) { p.SetHTTP2(true) }
	h2c := func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }
	secure := run(t, gateway.ServerConfig{Handler: proto, TLS: server})
	if got := ask(secure, "https", h1) + ask(secure, "https", h2); got != "HTTP/1.1HTTP/2.0" {
		t.Error(got)
	}
	clear := run(t, gateway.ServerConfig{Handler: proto, H2C: true})
	if got := ask(clear, "http", h1) + ask(clear, "http", h2c); got != "HTTP/1.1HTTP/2.0" {
		t.Error(got)
	}
	plain := run(t, gateway.ServerConfig{Handler: proto})
	if got := ask(plain, "http", h2c); strings.HasPrefix(got, "HTTP/") {
		t.Errorf("h2c was not asked for: %s", got)
	}
	k := connect(t, plain.Addr())
	k.send("GET / HTTP/1.0\n\n")
	if res, b := k.read(); b != "HTTP/1.0" || !res.Close {
		t.Errorf("%v %s", res, b)
	}
}

// W26: a body that does not arrive is given up, and a handler that takes long to answer is not.
func TestReadTimeout(t *testing.T) {
	var slow atomic.Bool
	const limit = time.Second
	s := run(t, gateway.ServerConfig{ReadTimeout: limit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		if slow.Load() {
			select {
			case <-r.Context().Done():
				err = r.Context().Err()
			case <-time.After(3 * limit):
			}
		}
		fmt.Fprint(w, err)
	})})
	k := connect(t, s.Addr())
	k.send("POST / HTTP/1.1\nHost: x\nContent-Length: 10\n\nhalf")
	if _, b := k.read(); !strings.Contains(b, "timeout") {
		t.Fatal(b)
	}
	slow.Store(true)
	k = connect(t, s.Addr())
	for range 2 {
		k.send("POST / HTTP/1.1\nHost: x\nContent-Length: 4\n\nbody")
		if _, b := k.read(); b != "<nil>" {
			t.Fatal(b)
		}
	}
}

// The error names the address, and a failed start leaves nothing bound.
func TestListenErrors(t *testing.T) {
	taken := must(net.Listen("tcp", "127.0.0.1:0"))
	defer taken.Close()
	for _, c := range []gateway.ServerConfig{
		{Listen: taken.Addr().String(), Handler: ok},
		{Listen: "127.0.0.1:0", Admin: taken.Addr().String(), Handler: ok, AdminHandler: ok},
	} {
		if _, err := gateway.NewServer(c); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
			t.Errorf("%v", err)
		}
	}
	for _, c := range []gateway.ServerConfig{
		{Listen: "127.0.0.1:0"}, {Listen: "127.0.0.1:0", Handler: ok, AdminHandler: ok}, {Listen: "127.0.0.1:0", Handler: ok, Admin: "127.0.0.1:0"},
	} {
		if _, err := gateway.NewServer(c); err == nil {
			t.Errorf("%+v: want an error", c)
		}
	}
	s := run(t, gateway.ServerConfig{Handler: ok, TLS: &tls.Config{}}) // cannot serve: no certificate
	if err := <-s.done; err == nil {
		t.Error("want an error from Run")
	}
	s.done = nil
}
