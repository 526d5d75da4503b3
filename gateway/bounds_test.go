//go:build unix

package gateway_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// A request's header has a longest length on every listener and in every version of HTTP.
func TestHeadersHaveALongestLength(t *testing.T) { // C11
	for _, c := range []struct {
		name       string
		set, most  int
		h2c, admin bool
	}{
		{name: "HTTP/1.1", set: 20_000, most: 20_000},
		{name: "HTTP/1.1, default", most: 64 << 10},
		{name: "HTTP/2", set: 20_000, most: 20_000, h2c: true},
		{name: "HTTP/2, default", most: 64 << 10, h2c: true},
		{name: "admin", set: 1 << 20, most: gateway.AdminHeaderBytes, admin: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := run(t, gateway.ServerConfig{Handler: ok, H2C: c.h2c, Admin: "127.0.0.1:0", AdminHandler: ok, MaxHeaderBytes: c.set})
			tr := &http.Transport{Protocols: new(http.Protocols)}
			tr.Protocols.SetHTTP1(!c.h2c)
			tr.Protocols.SetUnencryptedHTTP2(c.h2c)
			defer tr.CloseIdleConnections()
			addr := s.Addr()
			if c.admin {
				addr = s.AdminAddr()
			}
			for size, want := range map[int]int{c.most - 1000: 200, c.most + 5<<10: 431} {
				for _, where := range []string{"a field", "the target"} {
					req := must(http.NewRequest("GET", "http://"+addr+"/", nil))
					if where == "a field" {
						req.Header.Set("X-Long", strings.Repeat("x", size))
					} else {
						req.URL.RawQuery = strings.Repeat("x", size)
					}
					res, err := tr.RoundTrip(req)
					if err != nil && want == 431 && c.h2c {
						continue // the client heeds what the server has announced, or the server ends the connection
					}
					if err != nil {
						t.Errorf("%d bytes in %s: %v, want %d", size, where, err, want)
						continue
					}
					if res.Body.Close(); res.StatusCode != want {
						t.Errorf("%d bytes in %s: %s, want %d", size, where, res.Status, want)
					}
				}
			}
		})
	}
}

// siege is a server under clients who mean harm, and what its memory may be.
type siege struct {
	*testing.T
	limits        *stethttp.Limits
	addr, notices string
	client        *http.Client
	conns         []net.Conn
	peak          int64
	heap          uint64 // before
}

const (
	wholeMemory = 4 << 20
	largeBody   = 1 << 20
	crowd       = 16 // of each kind: four times what there is room for
)

// besieged is what the two faces guard.
func besieged(release <-chan struct{}) http.Handler {
	page := make([]byte, largeBody)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusCreated)
		switch r.URL.Path {
		case "/big":
			_, _ = w.Write(page)
		case "/over":
			for range 4 {
				_, _ = w.Write(page)
			}
		case "/slow":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		default:
			_, _ = io.WriteString(w, "done")
		}
	})
}

func TestHostileClients(t *testing.T) { // C11
	for _, face := range []string{"middleware", "gateway"} {
		t.Run(face, func(t *testing.T) {
			release := make(chan struct{})
			letGo := sync.OnceFunc(func() { close(release) })
			handler := besieged(release)
			s := &siege{T: t, limits: stethttp.NewLimits(stethttp.LimitsConfig{MaxBufferedBytes: wholeMemory})}
			engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
			if err != nil {
				t.Fatal(err)
			}
			cfg := stethttp.Config{Limits: s.limits, MaxBody: largeBody, MaxResponse: largeBody, Waiting: stethttp.Wait}
			scope := stethttp.HeaderScope("X-Tenant")
			var front http.Handler
			if face == "middleware" {
				front = stethttp.Middleware(engine, scope, cfg)(handler)
			} else {
				upstream := httptest.NewServer(handler)
				t.Cleanup(upstream.Close)
				t.Cleanup(letGo)
				g, err := gateway.New(engine, gateway.Config{Upstream: must(url.Parse(upstream.URL)), Default: cfg, Scope: scope})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(g.CloseIdle)
				front = g
			}
			secret := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24))
			server := run(t, gateway.ServerConfig{Handler: front, Admin: "127.0.0.1:0", MaxHeaderBytes: 16 << 10,
				AdminHandler: reconcile.Webhook{Engine: engine, Secrets: []string{secret}}})
			s.addr, s.notices = server.Addr(), server.AdminAddr()
			s.client = &http.Client{Transport: &http.Transport{}, Timeout: patience}
			t.Cleanup(s.client.CloseIdleConnections)
			t.Cleanup(letGo)
			s.run(engine, letGo)
		})
	}
}

func (s *siege) run(engine *stet.Engine, release func()) {
	stop, watched := make(chan struct{}), sync.WaitGroup{}
	end := sync.OnceFunc(func() { close(stop); watched.Wait() })
	defer end()
	watched.Go(func() {
		tick := time.NewTicker(100 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				s.peak = max(s.peak, s.limits.Buffered())
			}
		}
	})
	s.honest("/known", "known", 201)
	s.honest("/big", "big", 201)
	s.heap = liveHeap()

	body := strings.Repeat("x", largeBody-1)
	announced := fmt.Sprintf("Content-Length: %d\n", largeBody)
	for i := range crowd { // by one scope, and by many
		s.send(post("/", "greedy", fmt.Sprint("k", i), announced) + body)
		s.send(post("/", fmt.Sprint("greedy", i), "k", announced) + body)
	}
	s.until("the memory is taken", func() bool { return s.limits.Buffered() > wholeMemory/2 })
	s.check("stalled bodies", 0)
	for i := range crowd { // chunks that trickle, and chunks that pour
		s.send(post("/", fmt.Sprint("trickle", i), "k", "Transfer-Encoding: chunked\n") + "1\nx\n")
		s.send(post("/", fmt.Sprint("pour", i), "k", "Transfer-Encoding: chunked\n") + fmt.Sprintf("%x\n%s\n", len(body), body))
	}
	s.check("chunks", 0)
	for i := range crowd { // answers that are not read: replayed, and such as are too large to hold
		s.send(post("/big", "honest", "big", "Content-Length: 4\n") + "body")
		s.send(post("/over", fmt.Sprint("over", i), "k", "Content-Length: 4\n") + "body")
	}
	s.check("answers", 0)
	for i := range crowd { // clients that wait for a run that goes on
		s.send(post("/slow", "patient", "k", "Content-Length: 4\n") + "body")
		s.send(post("/slow", fmt.Sprint("patient", i), "k", "Content-Length: 4\n") + "body")
	}
	s.check("waiters", 0)
	for i := range 4 { // long names for things
		s.answers(post("/", strings.Repeat("s", 10_000), fmt.Sprint("k", i), "Content-Length: 0\n"), 401)
		s.answers(post("/"+strings.Repeat("t", 30_000), "tall", fmt.Sprint("k", i), "Content-Length: 0\n"), 431)
		s.answers(post("/", "tall", fmt.Sprint("k", i), "X-Long: "+strings.Repeat("h", 30_000)+"\nContent-Length: 0\n"), 431)
		s.answers(post("/", "tall", strings.Repeat("k", 10_000), "Content-Length: 0\n"), 400)
	}
	if n, err := engine.Operator().Count(s.Context(), stet.Query{Scope: "tall"}); n != 0 || err != nil {
		s.Errorf("%d records of what was refused, %v", n, err)
	}
	s.flood()
	s.check("notices", 8<<20)

	for _, c := range s.conns {
		_ = c.Close()
	}
	release()
	s.until("everything comes back", func() bool { return s.limits.Buffered() == 0 })
	s.honest("/known", "known", 201)
	s.until("nothing is held", func() bool { return s.limits.Buffered() == 0 })
	end()
	if s.peak > wholeMemory || s.peak < wholeMemory/2 {
		s.Errorf("up to %d bytes were held, of at most %d", s.peak, wholeMemory)
	}
}

// flood sends unsigned notices: without the headers, and with what looks like them.
func (s *siege) flood() {
	const size = 256 << 10 // the longest notice
	head := fmt.Sprintf("POST /hooks/reconcile HTTP/1.1\nHost: x\nContent-Length: %d\n", size)
	seal := fmt.Sprintf("Webhook-Id: m\nWebhook-Timestamp: %d\nWebhook-Signature: v1,%s\n", time.Now().Unix(),
		base64.StdEncoding.EncodeToString(make([]byte, sha256.Size)))
	for range 4 {
		s.answersAt(s.notices, head+"\n", 401)
	}
	s.answersAt(s.notices, strings.Replace(head, fmt.Sprint(size), fmt.Sprint(size+1), 1)+seal+"\n", 413)
	for range 60 { // 15 MiB in all
		s.sendTo(s.notices, head+seal+"\n"+strings.Repeat("x", size-1))
	}
	s.answersAt(s.notices, strings.Replace(head, fmt.Sprint(size), "4", 1)+seal+"\n"+"{}{}", 401) // and a short one is read all the same
}

// check asks what has to go on, and looks how much memory there is in use. besides is what has
// memory of its own.
func (s *siege) check(when string, besides int) {
	s.Helper()
	for i := range 10 {
		s.honest("/new", fmt.Sprint(when, i), 201)
		s.honest("/known", "known", 201)
	}
	if s.Failed() {
		s.Fatalf("while there were %s; %d bytes are held", when, s.limits.Buffered())
	}
	// Both ends of a connection are here: 24 KiB with all that net/http, a proxy and a header need.
	// The store holds a large answer.
	most := uint64(wholeMemory + besides + len(s.conns)*(24<<10) + 3<<20)
	heap := liveHeap()
	for end := time.Now().Add(patience); heap > s.heap+most && time.Now().Before(end); heap = liveHeap() {
		runtime.Gosched() // what a request leaves behind while it ends is in use for a moment more
	}
	if heap > s.heap+most {
		s.Errorf("%s: %d KiB are in use, which is %d KiB more than before; at most %d KiB may be", when, heap>>10, (heap-s.heap)>>10, most>>10)
	} else {
		s.Logf("%s: %d KiB more than before, at most %d KiB", when, (int64(heap)-int64(s.heap))>>10, most>>10)
	}
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (s *siege) honest(path, key string, want int) {
	s.Helper()
	req := must(http.NewRequestWithContext(s.Context(), http.MethodPost, "http://"+s.addr+path, strings.NewReader(`{"amount":1999}`)))
	req.Header.Set("X-Tenant", "honest")
	req.Header.Set("Idempotency-Key", strings.ReplaceAll(key, " ", "-"))
	res, err := s.client.Do(req)
	if err != nil {
		s.Error(path, err)
		return
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); res.StatusCode != want || err != nil {
		s.Errorf("an honest request for %s: %s %.300s %v", path, res.Status, b, err)
	}
}

func post(path, scope, key, more string) string {
	return "POST " + path + " HTTP/1.1\nHost: x\nX-Tenant: " + scope + "\nIdempotency-Key: " + key + "\n" + more + "\n"
}

// send is a client that says something, and nothing more. It reads nothing, and has little room for
// what comes.
func (s *siege) send(text string) net.Conn { return s.sendTo(s.addr, text) }

func (s *siege) sendTo(addr, text string) net.Conn {
	s.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}}
	c, err := d.DialContext(s.Context(), "tcp", addr)
	if err != nil {
		s.Fatal(err)
	}
	s.conns = append(s.conns, c)
	s.Cleanup(func() { _ = c.Close() })
	head, body, _ := strings.Cut(text, "\n\n")
	sent := make(chan struct{})
	go func() { // a server that has refused the request may read no more of it
		defer close(sent)
		_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second))
		if _, err := io.WriteString(c, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"); err == nil {
			_, _ = io.WriteString(c, body)
		}
	}()
	s.Cleanup(func() { <-sent })
	return c
}

// answers sends a whole request, and looks at the status.
func (s *siege) answers(text string, want int) {
	s.Helper()
	s.answersAt(s.addr, text, want)
}

func (s *siege) answersAt(addr, text string, want int) {
	s.Helper()
	c := s.sendTo(addr, text)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	var line [len("HTTP/1.1 200")]byte
	if _, err := io.ReadFull(c, line[:]); err != nil || string(line[9:]) != fmt.Sprint(want) {
		s.Errorf("%.60q: %q, %v, want %d", text, line, err, want)
	}
	_ = c.Close()
}

func (s *siege) until(what string, is func() bool) {
	s.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(end) {
			s.Fatalf("%s: not after %s; %d bytes are held", what, patience, s.limits.Buffered())
		}
	}
}
