package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// way is a gateway with an upstream of its own, which gives one answer to each connection.
type way struct {
	engine  *stet.Engine
	gw      *Gateway
	addr    string
	running sync.RWMutex // held for reading by requests

	mu     sync.Mutex
	answer string
	split  int // the answer is sent in two pieces
	got    bytes.Buffer
}

// newWay returns a way for plain exchanges or, if long, one on which none counts as plain.
func newWay(t testing.TB, long bool) *way {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &way{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go x.serve(c)
		}
	}()
	if x.engine, err = stet.New(memstore.New(memstore.Config{}), stet.Config{}); err != nil {
		t.Fatal(err)
	}
	upstream := &url.URL{Scheme: "http", Host: l.Addr().String()}
	rules := stethttp.Config{EnabledMethods: []string{"POST", "DELETE"}, RequiredMethods: []string{}}
	if x.gw, err = New(x.engine, Config{Upstream: upstream, Default: rules, KeepHeaders: []string{"X-Kept"},
		Routes:         []Route{{Match: "/bare", Config: rules, UpstreamKey: ForwardBare}, {Match: "/trusting", Config: rules, UpstreamKey: ForwardNothing}},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}); err != nil {
		t.Fatal(err)
	}
	x.gw.transport.plain = !long
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.running.RLock()
		defer x.running.RUnlock()
		r.RemoteAddr = "127.0.0.1:1"
		if r.URL.Path == "/trusting" {
			r.RemoteAddr = "127.0.0.2:1"
		}
		x.gw.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv.Start()
	x.addr = srv.Listener.Addr().String()
	t.Cleanup(func() { srv.Close(); l.Close() })
	return x
}

// serve notes one request, answers it and hangs up.
func (x *way) serve(c net.Conn) {
	defer c.Close()
	x.mu.Lock()
	defer x.mu.Unlock()
	_ = c.SetDeadline(time.Now().Add(testPatience))
	r, err := http.ReadRequest(bufio.NewReader(io.TeeReader(c, &x.got)))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	split := min(x.split, len(x.answer))
	_, _ = io.WriteString(c, x.answer[:split])
	_, _ = io.WriteString(c, x.answer[split:])
}

const testPatience = time.Minute

// outcome is all that a request leaves behind.
type outcome struct {
	client, upstream string
	record           stet.Record
}

// own matches the lines that no two requests have in common.
var own = regexp.MustCompile(`(?m)^(Date|Idempotency-Expires|Stet-Fence|Stet-Downstream-Key): .*\r\n`)

func (x *way) ask(t testing.TB, request, key, answer string, split int) (o outcome) {
	x.mu.Lock()
	x.answer, x.split = answer, split
	x.got.Reset()
	x.mu.Unlock()
	c, err := net.Dial("tcp", x.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testPatience))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Errorf("no end of the answer to %q", request)
	}
	x.running.Lock()
	x.gw.CloseIdle()
	x.running.Unlock()
	if err := x.engine.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	o.client, o.upstream = own.ReplaceAllString(string(got), ""), own.ReplaceAllString(x.got.String(), "")
	o.record, _ = x.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(key)})
	r, none := &o.record, time.Time{}
	r.Version = 0
	r.DueAt, r.CreatedAt, r.UpdatedAt, r.CompletedAt, r.AsOf, r.DueIn, r.Took = none, none, none, none, none, 0, 0
	return o
}

// sameAnswer reports whether a client gets the same. An answer without a length is chunked or not
// depending on whether it ends before the timer of ReverseProxy flushes its head; and of one that
// breaks off, what was not flushed is lost.
func sameAnswer(a, b string) bool {
	const chunked = "Transfer-Encoding: chunked\r\n"
	x, y := unframed(a), unframed(b)
	switch {
	case a == b:
		return true
	case strings.HasSuffix(x, brokeOff) && strings.HasSuffix(y, brokeOff):
		return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
	}
	return strings.Contains(a, chunked) != strings.Contains(b, chunked) && x == y
}

const brokeOff = "unexpected EOF\n"

func unframed(answers string) (s string) {
	for in := bufio.NewReader(strings.NewReader(answers)); ; {
		res, err := http.ReadResponse(in, nil)
		switch {
		case err == io.EOF:
			return s
		case err != nil:
			return s + brokeOff
		}
		body, err := io.ReadAll(res.Body)
		delete(res.Header, "Content-Length")
		s += fmt.Sprintf("%s %v %q %v %v\n", res.Status, res.Header, body, res.Trailer, err)
	}
}

// FuzzPlain: a plain exchange leaves the same behind as it would on the long way: the bytes that
// the upstream gets, the bytes that the client gets, and the record.
func FuzzPlain(f *testing.F) {
	const ok = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
	long := strings.Repeat("x", 5000)
	for i, answer := range []string{
		ok + "\r\nok", ok + "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nok", ok + "Connection: close\r\n\r\nok",
		ok + "Connection: X-A\r\nX-A: 1\r\n\r\nok", ok + "Via: 1.0 a\r\nVia: 1.1 b\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nset-cookie: c\r\n\r\nok",
		ok + "Stet-Outcome: unknown\r\nStet-Downstream-Id: x\r\n\r\nok", ok + "Pragma: no-cache\r\n\r\nok", ok + "Trailer: X\r\n\r\nok",
		ok + "X: a\rb\r\n\r\nok", ok + "X: \x00\r\n\r\nok", ok + "X : 1\r\n\r\nok", ok + " folded\r\n\r\nok", ok + "X:\t \xff\t\r\nY:\r\n\r\nok", ok + "X\r\n\r\nok",
		ok + "Content-Length: 2\r\n\r\nok", ok + "Content-Length: 3\r\n\r\nok", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		ok + "\r\no", ok + "\r\nok more", ok[:40], "", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", ok + "\nok", ok + "Upgrade: h2c\r\n\r\nok", ok + "te: x\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream\r\nContent-Length: 9\r\n\r\ndata: 1\n\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nok",
		"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 304 No\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + ok + "\r\nok", "HTTP/1.1 101 No\r\nStet-Downstream-Id: a\r\n\r\nok", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 +20 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 500 Sorry\r\nContent-Length: 2\r\n\r\nno", "SSH-2.0\r\n",
		"HTTP/1.1 200 OK\r\nX: " + long + "\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + strings.Repeat(long, 10),
		"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + long, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n" + long,
	} {
		for kind := range byte(6) {
			f.Add(kind, "/?a=%2f&b", "X-A: 1\r\nUser-Agent: t/1", "{}", answer, uint16(i))
		}
	}
	for i, lines := range []string{
		"", "Connection: user-agent\r\nUser-Agent: x/1", "User-Agent:", "User-Agent: a\r\nUser-Agent: b", "X-A: \xe4\tb", "Te: trailers", "Upgrade: h2c", "Connection: X-A, x-kept\r\nX-A: 1\r\nX-Kept: 2",
		"Forwarded: for=a\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: h\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 1\r\nVia: 1.0 a\r\nVia: 1.1 b",
		"Stet-Fence: 7\r\nStet-X: 1\r\nstet_attempt: 3\r\nidempotency_key: x\r\nx_kept: y", "Keep-Alive: 5\r\nProxy-Authorization: x\r\nProxy-Connection: x",
		"Expect: 100-continue", "Trailer: X", "Upgrade: websocket\r\nConnection: upgrade", "Cookie: a\r\nCookie: b\r\naccept: */*\r\nAccept:", "Zz: 1\r\na!b: 2",
		"Stet_Outcome: x", "Idempotency-Key: second",
	} {
		for kind := range byte(6) {
			for _, path := range []string{"/", "/bare", "/trusting", "//x/%41?q", "/\xe4?\xf6", "*", "/a%0a"} {
				f.Add(kind, path, lines, long[:i*len(long)/24], ok+"\r\nok", uint16(0))
			}
		}
	}
	log.SetOutput(io.Discard) // for what Transport says of surplus bytes
	f.Cleanup(func() { log.SetOutput(os.Stderr) })
	short, way := newWay(f, false), newWay(f, true)
	n := 0
	f.Fuzz(func(t *testing.T, kind byte, target, lines, body, answer string, split uint16) {
		for _, taken := range []string{"content-length", "transfer-encoding", "\r\n\r\n", "\n\n", "\n\r\n"} {
			if strings.Contains(strings.ToLower(lines), taken) {
				t.Skip("the test's own framing")
			}
		}
		if strings.ContainsAny(target, " \r\n") || len(lines) > 10_000 || len(body) > 100_000 {
			t.Skip("no request")
		}
		if kind %= 6; kind == 1 || kind == 2 {
			body = ""
		}
		guarded := kind == 0 || kind == 5
		if !guarded && strings.Contains(strings.ToLower(lines), "expect") {
			t.Skip("Transport waits a second for the upstream's 100 Continue")
		}
		n++
		key := fmt.Sprint("k", n)
		request := []string{"POST", "GET", "HEAD", "POST", "PUT", "DELETE"}[kind] + " " + target + " HTTP/1.1\r\nHost: api.example:80\r\nConnection: close\r\n"
		if guarded {
			request += "Idempotency-Key: \"" + key + "\"\r\n"
		}
		if lines = strings.Trim(lines, "\r\n"); lines != "" {
			request += lines + "\r\n"
		}
		if kind != 1 && kind != 2 {
			request += fmt.Sprintf("Content-Length: %d\r\n", len(body))
		}
		request += "\r\n" + body
		want := way.ask(t, request, key, answer, int(split))
		got := short.ask(t, request, key, answer, int(split))
		if !sameAnswer(got.client, want.client) {
			t.Errorf("%.300q answered by %.300q\nthe client got  %.900q\nthe long way is %.900q", request, answer, got.client, want.client)
		}
		if got.upstream != want.upstream {
			t.Errorf("%.300q\nthe upstream got %.900q\nthe long way is  %.900q", request, got.upstream, want.upstream)
		}
		if !reflect.DeepEqual(got.record, want.record) {
			t.Errorf("%.300q answered by %.300q\nthe record is    %+v\non the long way %+v", request, answer, got.record, want.record)
		}
	})
}
