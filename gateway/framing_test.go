package gateway_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/stethttp"
)

// dials are the ways to a server: without TLS, and with it, each for a protocol.
func dials(t *testing.T, c gateway.ServerConfig) map[string]func() net.Conn {
	t.Helper()
	checkLeaks(t)
	clear := start(t, c)
	server, trust := certificate(t)
	c.TLS = server
	secure := start(t, c)
	open := func(dial func() (net.Conn, error)) func() net.Conn {
		return func() net.Conn {
			t.Helper()
			conn, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.SetDeadline(time.Now().Add(patience))
			return conn
		}
	}
	overTLS := func(protocols ...string) func() net.Conn {
		config := trust.Clone()
		config.NextProtos = protocols
		return open(func() (net.Conn, error) { return tls.Dial("tcp", secure.Addr(), config) })
	}
	return map[string]func() net.Conn{
		"clear":        open(func() (net.Conn, error) { return net.Dial("tcp", clear.Addr()) }),
		"raw":          open(func() (net.Conn, error) { return net.Dial("tcp", secure.Addr()) }),
		"TLS":          overTLS(),
		"TLS http/1.1": overTLS("http/1.1"),
		"TLS h2":       overTLS("h2"),
	}
}

// C05: net/http hides that a request says twice where its body ends; RFC 9112 section 6.1 wants it
// known.
func TestUncertainEndsAreMarked(t *testing.T) {
	ways := dials(t, gateway.ServerConfig{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %s %v tls=%v", len(r.Header[door.BadFrame]), b, err, r.TLS != nil)
	})})
	for _, way := range []string{"clear", "TLS", "TLS http/1.1"} {
		c := ways[way]()
		in := bufio.NewReader(c)
		for _, x := range []struct{ request, want string }{
			{"POST / HTTP/1.1\nHost: x\nContent-Length: 2\n\nok", "0 ok"},
			{"POST / HTTP/1.1\nHost: x\nContent-Length: 6\nTransfer-Encoding: chunked\n\n2\nok\n0\n\n", "1 ok"},
			{"POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\nContent-Length: 6\n\n2\nok\n0\n\n", "1 ok"},
			{"POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n2\nok\n0\n\n", "0 ok"},
			{"POST / HTTP/1.0\nConnection: keep-alive\nTransfer-Encoding: chunked\nContent-Length: 2\n\nok", "1 ok"},
			{"GET / HTTP/1.1\nHost: x\n\n", "0 "},
		} {
			for _, b := range []byte(strings.ReplaceAll(x.request, "\n", "\r\n")) {
				if _, err := c.Write([]byte{b}); err != nil {
					t.Fatal(err)
				}
			}
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s %q: %v", way, x.request, err)
			}
			got, _ := io.ReadAll(res.Body)
			if want := fmt.Sprintf("%s <nil> tls=%v", x.want, way != "clear"); string(got) != want {
				t.Errorf("%s %q: %q, want %q", way, x.request, got, want)
			}
		}
	}
}

// What follows on a connection that was taken over is not HTTP, whatever it looks like.
func TestNothingIsMarkedAfterASwitch(t *testing.T) {
	ways := dials(t, gateway.ServerConfig{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.CopyN(c, rw, int64(len(tunnelled)))
	})})
	for _, way := range []string{"clear", "TLS http/1.1"} {
		c := ways[way]()
		in := bufio.NewReader(c)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
			t.Fatal(res, err)
		}
		_, _ = io.WriteString(c, tunnelled)
		if got, err := io.ReadAll(in); string(got) != tunnelled {
			t.Errorf("%s: %q, %v", way, got, err)
		}
	}
}

const tunnelled = "POST / HTTP/1.1\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"

const (
	hello    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	begun    = "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82" // HEADERS without END_HEADERS
	more     = "\x00\x00\x00\x09\x00\x00\x00\x00\x01"     // CONTINUATION, also without
)

// C14: a client of HTTP/2 that does not complete what it has begun is not waited for until the
// connection counts as idle.
func TestReadHeaderTimeout(t *testing.T) {
	const limit, soon = 2 * time.Second, 5 * time.Second
	ways := dials(t, gateway.ServerConfig{Handler: ok, H2C: true, ReadHeaderTimeout: limit, IdleTimeout: time.Hour, Log: slog.New(slog.DiscardHandler)})
	for _, c := range []struct{ name, way, sent, trickle string }{
		{"nothing", "clear", "", ""},
		{"no handshake", "raw", "", ""},
		{"half a handshake", "raw", "\x16\x03\x01\x02\x00\x01", ""},
		{"nothing", "TLS", "", ""},
		{"nothing", "TLS h2", "", ""},
		{"half a request", "TLS http/1.1", "GET / HTTP/1.1\r\nHost: x\r\nContent-Le", ""},
		{"half a preface", "clear", hello[:20], ""},
		{"half a preface", "TLS h2", hello[:20], ""},
		{"a preface", "clear", hello, ""},
		{"a preface", "TLS h2", hello, ""},
		{"half a frame", "clear", hello + settings + settings[:8], ""},
		{"half a block", "clear", hello + settings + begun, ""},
		{"half a block", "TLS h2", hello + settings + begun, ""},
		{"half a block in pieces", "clear", hello + settings + begun, more},
		{"half a block in pieces", "TLS h2", hello + settings + begun, more},
	} {
		t.Run(c.name+" "+c.way, func(t *testing.T) {
			t.Parallel()
			conn := ways[c.way]()
			began := time.Now()
			_, _ = io.WriteString(conn, c.sent)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_, _ = io.Copy(io.Discard, conn)
			}()
			for tick := time.NewTicker(limit / 10); ; {
				select {
				case <-gone:
					tick.Stop()
					tier.Took(t, "the end", time.Since(began), soon)
					return
				case <-tick.C:
					_, _ = io.WriteString(conn, c.trickle)
				}
			}
		})
	}
}

// What TLS has agreed on is spoken, and nothing else (RFC 9113 section 3.2).
func TestTheOtherProtocol(t *testing.T) {
	reached := make(chan string, 9)
	ways := dials(t, gateway.ServerConfig{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.Proto + r.Method })})
	for way, sent := range map[string]string{
		"TLS h2": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "TLS http/1.1": hello + settings + "\x00\x00\x06\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41\x01x",
	} {
		c := ways[way]()
		_, _ = io.WriteString(c, sent)
		got, _ := io.ReadAll(c)
		select {
		case p := <-reached:
			if p != "HTTP/2.0PRI" { // as a request of HTTP/1, which every handler refuses
				t.Errorf("%s: %s reached the handler; %q", way, p, got)
			}
		default:
		}
	}
}

// C07: what net/http's server has to say ends in the log, as lines of JSON, and without what
// clients sent or handlers held.
func TestServersLogHoldsNoContent(t *testing.T) {
	log := &logBuffer{}
	ways := dials(t, gateway.ServerConfig{H2C: true, Log: slog.New(slog.NewJSONHandler(log, nil)), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("canary: " + r.URL.RawQuery)
		}
		w.WriteHeader(200)
		w.WriteHeader(201) // a mistake that net/http logs
	})})
	for _, x := range []struct{ way, sent, said string }{
		{"raw", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "TLS handshake error from"},
		{"raw", "canary canary canary", "TLS handshake error from"},
		{"clear", "GET /panic?canary HTTP/1.1\r\nHost: x\r\n\r\n", "panic serving 127.0.0.1"},
		{"clear", "GET /?canary HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "superfluous"},
		{"clear", "GET /canary canary HTTP/1.1\r\nX: canary\r\n\r\n", ""},
		{"clear", hello + settings + "\x00\x00\x06\x01\x05\x00\x00\x00\x02canary", "http2: server connection error"},
	} {
		c := ways[x.way]()
		_, _ = io.WriteString(c, x.sent)
		got, _ := io.ReadAll(c)
		if x.way == "raw" && strings.HasPrefix(x.sent, "GET") && !strings.Contains(string(got), "400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.") {
			t.Errorf("plain HTTP over TLS was answered with %q", got)
		}
		if !strings.Contains(log.String(), x.said) {
			t.Errorf("%q: no line says %q:\n%s", x.sent, x.said, log)
		}
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "canary") || !json.Valid([]byte(line)) {
			t.Error(line)
		}
	}
}

// A body may take longer than a header, in a single frame, too.
func TestASlowFrame(t *testing.T) {
	const limit = 3 * time.Second
	ways := dials(t, gateway.ServerConfig{H2C: true, ReadHeaderTimeout: limit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "got %s %v tls=%v", b, err, r.TLS != nil)
	})})
	for _, way := range []string{"clear", "TLS h2"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			c := ways[way]()
			_, _ = io.WriteString(c, hello+settings+"\x00\x00\x06\x01\x04\x00\x00\x00\x01\x83\x86\x84\x41\x01x"+"\x00\x00\x04\x00\x01\x00\x00\x00\x01sl")
			<-time.NewTimer(2 * limit).C
			_, _ = io.WriteString(c, "ow")
			want := fmt.Sprintf("got slow <nil> tls=%v", way != "clear")
			var got bytes.Buffer
			for b := make([]byte, 1024); !strings.Contains(got.String(), want); {
				n, err := c.Read(b)
				if got.Write(b[:n]); err != nil {
					t.Fatalf("%q, %v", got.String(), err)
				}
			}
		})
	}
}

// C14: broken chunks are the client's mistake, whether the request is guarded or passes by. A
// client that is slow has made none.
func TestBrokenUploads(t *testing.T) {
	const limit = time.Second
	got := make(chan error, 9)
	r := newRig(t, upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		got <- err
	}), func(g *gateway.Config) { g.Default.BodyTimeout = limit })
	s := run(t, gateway.ServerConfig{Handler: r.gw, ReadTimeout: limit})
	const passing, guarded = "PUT / HTTP/1.1\nHost: x\n", "POST / HTTP/1.1\nHost: x\nIdempotency-Key: k\n"
	for _, x := range []struct {
		sent string
		want stethttp.Code
	}{
		{guarded + "Transfer-Encoding: chunked\n\n5\nhello, world\n0\n\n", stethttp.BadFraming},
		{passing + "Transfer-Encoding: chunked\n\n5\nhello, world\n0\n\n", stethttp.BadFraming},
		{passing + "Transfer-Encoding: chunked\n\n5\nhello\nfive\n", stethttp.BadFraming},
		{passing + "Transfer-Encoding: chunked\n\n5\nhel", stethttp.RequestTimeout},
		{passing + "Content-Length: 5\n\nhel", stethttp.RequestTimeout},
		{guarded + "Content-Length: 5\n\nhel", stethttp.RequestTimeout},
	} {
		k := connect(t, s.Addr())
		k.send(x.sent)
		res, body := k.read()
		p := r.problem(answer{Response: res, body: body}, x.want)
		passes := strings.HasPrefix(x.sent, passing)
		if (p.KeyAction == "") != passes || x.want == stethttp.BadFraming && (p.Retryable || !res.Close || p.Status != 400) {
			t.Errorf("%q: %+v, close=%v", x.sent, p, res.Close)
		}
		if _, err := k.in.ReadByte(); err == nil {
			t.Errorf("%q: the connection stays open", x.sent)
		}
		if passes {
			if err := <-got; err == nil {
				t.Errorf("%q: the upstream saw a whole request", x.sent)
			}
		}
	}
	r.absent("k")
	if s := r.log.String(); s != "" {
		t.Errorf("it was not the upstream that failed: %s", s)
	}
}

// C14: the same over HTTP/2, where a body is not as long as it was said to be.
func TestShortUploadsOverHTTP2(t *testing.T) {
	r := newRig(t, upstream(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }), nil)
	s := run(t, gateway.ServerConfig{Handler: r.gw, H2C: true})
	c := connect(t, s.Addr()).c
	// PUT http / x, content-length: 10 (RFC 7541), and four bytes of it.
	_, _ = io.WriteString(c, hello+settings+"\x00\x00\x0f\x01\x04\x00\x00\x00\x01\x42\x03PUT\x86\x84\x41\x01x\x0f\x0d\x0210"+"\x00\x00\x04\x00\x01\x00\x00\x00\x01half")
	code := fmt.Sprintf(`"code":%q`, stethttp.BadFraming)
	for got, b := "", make([]byte, 1024); !strings.Contains(got, code); {
		n, err := c.Read(b)
		if got += string(b[:n]); err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
}
