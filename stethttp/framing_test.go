package stethttp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// patience bounds everything that a test waits for.
const patience = time.Minute

// socket serves the rig's handler, and returns a connection to it.
func (r *rig) socket() *net.TCPConn {
	r.t.Helper()
	srv := httptest.NewUnstartedServer(r.handler)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	r.t.Cleanup(srv.Close)
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

// untouched demands that a request has left nothing: no run, no record.
func (r *rig) untouched(key stet.Key) {
	r.t.Helper()
	if _, err := r.engine.Get(r.t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: key}); err == nil || r.runs.Load() != 0 {
		r.t.Errorf("%d runs, %v", r.runs.Load(), err)
	}
}

// brokenChunks are bodies of HTTP/1 that a reader cannot find the end of.
var brokenChunks = map[string]string{
	"no size":                 "\r\nhello\r\n0\r\n\r\n",
	"no number":               "five\r\nhello\r\n0\r\n\r\n",
	"a size of 68 bits":       "00000000000000005\r\nhello\r\n0\r\n\r\n",
	"a bare LF":               "5\nhello\r\n0\r\n\r\n",
	"a CR in the line":        "5;a\rb\r\nhello\r\n0\r\n\r\n",
	"no CR LF after the data": "5\r\nhello, world\r\n0\r\n\r\n",
	"a long line":             "5;" + strings.Repeat("x", 5000) + "\r\nhello\r\n0\r\n\r\n",
	"little in long lines":    strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\nh\r\n", 30) + "0\r\n\r\n",
	"trailers without names":  "5\r\nhello\r\n0\r\nhello\r\n\r\n",
	"long trailers":           "5\r\nhello\r\n0\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n",
}

const chunked = "POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n"

// C14: it is the client's mistake, and comes again with every retry.
func TestBrokenChunks(t *testing.T) {
	for name, body := range brokenChunks {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, stethttp.Config{}, created)
			c := r.socket()
			_, _ = io.WriteString(c, chunked+body)
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.want(res, 400, stethttp.BadFraming)
			if _, err := in.ReadByte(); !res.Close || err == nil {
				t.Errorf("close=%v, %v: the connection stays open", res.Close, err)
			}
			r.untouched("k")
		})
	}
}

// C14: who went away, or was too slow, has sent nothing wrong.
func TestBodiesThatDoNotEnd(t *testing.T) {
	for name, c := range map[string]struct {
		sent string
		gone bool
	}{
		"gone, with a length":    {"POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 10\r\n\r\nhalf", true},
		"gone in a chunk":        {chunked + "5\r\nhe", true},
		"gone before a chunk":    {chunked + "5\r\nhello\r\n", true},
		"gone in a line":         {chunked + "5\r\nhello\r\n1", true},
		"gone before trailers":   {chunked + "0\r\n", true},
		"slow, with a length":    {"POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 10\r\n\r\nhalf", false},
		"slow in a chunk":        {chunked + "5\r\nhe", false},
		"slow before the end":    {chunked + "5\r\nhello\r\n", false},
		"slow before trailers":   {chunked + "0\r\n", false},
		"slow within a trailer":  {chunked + "0\r\nX: y", false},
		"slow between trailers":  {chunked + "0\r\nX: y\r\n", false},
		"slow after announcing":  {chunked, false},
		"slow in a chunk's size": {chunked + "5", false},
	} {
		t.Run(name, func(t *testing.T) {
			within := patience
			if !c.gone {
				within = 100 * time.Millisecond
			}
			r := newRig(t, stethttp.Config{BodyTimeout: within}, created)
			conn := r.socket()
			_, _ = io.WriteString(conn, c.sent)
			if c.gone {
				_ = conn.CloseWrite()
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.want(res, 408, stethttp.RequestTimeout)
			r.untouched("k")
		})
	}
}

// A body that came too slowly is that, whatever words a wrapper of it has for this.
func TestSlowBodyInOtherWords(t *testing.T) {
	r := newRig(t, stethttp.Config{}, created)
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
	req.Header.Set("Idempotency-Key", "k")
	req.Body, req.ContentLength = io.NopCloser(tooSlow{}), -1
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	r.want(w.Result(), 408, stethttp.RequestTimeout)
}

type tooSlow struct{}

func (tooSlow) Read([]byte) (int, error) {
	return 0, fmt.Errorf("proxy: chunked body stalled: %w", os.ErrDeadlineExceeded)
}

// C14, RFC 9113 section 8.1.1: a body has the length that was announced.
func TestBodiesOfHTTP2(t *testing.T) {
	const hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	frame := func(kind, flags byte, payload string) string {
		return string([]byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, 1}) + payload
	}
	// POST http / x, idempotency-key: k, content-length: 10, as RFC 7541 has them.
	headers := hello + frame(1, 4, "\x83\x86\x84\x41\x01x"+"\x00\x0fidempotency-key\x01k"+"\x0f\x0d\x0210")
	const endStream = 1
	for name, c := range map[string]struct {
		sent   string
		gone   bool
		status int
	}{
		"short":       {headers + frame(0, endStream, "half"), false, 400},
		"too long":    {headers + frame(0, 0, "much too long"), false, 400}, // the stream is reset: the answer is not seen
		"reset":       {headers + frame(0, 0, "half") + frame(3, 0, "\x00\x00\x00\x08"), false, 408},
		"gone":        {headers + frame(0, 0, "half"), true, 408},
		"slow":        {headers + frame(0, 0, "half"), false, 408},
		"as it said":  {headers + frame(0, endStream, `{"a":"bc"}`), false, 201},
		"in trailers": {headers + frame(0, 0, "half") + frame(1, 4|endStream, "\x00\x01t\x01v"), false, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, stethttp.Config{BodyTimeout: 3 * time.Second}, created)
			entered, answered := make(chan struct{}), make(chan struct{})
			guarded := r.handler
			r.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				close(entered)
				defer close(answered)
				guarded.ServeHTTP(w, req)
			})
			conn := r.socket()
			_, _ = io.WriteString(conn, c.sent)
			if c.gone {
				<-entered // or the server may see the end first, and begin nothing
				_ = conn.Close()
			}
			<-answered
			r.mu.Lock()
			last := r.events[len(r.events)-1]
			r.mu.Unlock()
			if last.Kind != stet.Answer || last.Status != c.status {
				t.Fatalf("%+v", last)
			}
			if c.status == 201 {
				return
			}
			r.untouched("k")
			if name != "short" {
				return
			}
			code := fmt.Sprintf(`"code":%q`, stethttp.BadFraming)
			for got, b := "", make([]byte, 1<<10); !strings.Contains(got, code); {
				n, err := conn.Read(b)
				if got += string(b[:n]); err != nil {
					t.Fatalf("%q, %v", got, err)
				}
			}
		})
	}
}

// C05: a server of one's own.
func TestStrictFraming(t *testing.T) {
	seen := make(chan http.ConnState, 100)
	marked := make(chan []string, 1)
	srv := &http.Server{ConnState: func(_ net.Conn, s http.ConnState) { seen <- s },
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { marked <- r.Header["Stet-Bad-Frame"] })}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(stethttp.StrictFraming(srv, l)) }()
	defer srv.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG")
	if got := <-marked; len(got) != 1 {
		t.Errorf("marked: %q", got)
	}
	if s := <-seen; s != http.StateNew {
		t.Errorf("the server's own hook saw %v", s)
	}
}

// Over TLS it serves what http.Server.ServeTLS does.
func TestStrictFramingOverTLS(t *testing.T) {
	other := httptest.NewTLSServer(nil) // has a certificate
	defer other.Close()
	for _, h2 := range []bool{true, false} {
		srv := &http.Server{TLSConfig: other.TLS.Clone(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode([]any{r.ProtoMajor, r.TLS != nil && r.TLS.HandshakeComplete})
		})}
		srv.TLSConfig.NextProtos = nil
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = srv.Serve(stethttp.StrictFraming(srv, l)) }()
		defer srv.Close()
		transport := other.Client().Transport.(*http.Transport).Clone()
		transport.ForceAttemptHTTP2, transport.TLSClientConfig.NextProtos = h2, nil
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if want := map[bool]string{true: "[2,true]\n", false: "[1,true]\n"}[h2]; string(got) != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
