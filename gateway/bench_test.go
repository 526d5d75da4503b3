package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// BenchmarkGateway compares, in one run and interleaved, a bare ReverseProxy with the same
// transport and buffers, the least that a proxy on net/http can do (see floor), nginx where it is
// installed, and the gateway over memstore: new keys, and replays of one. 64 connections, a request
// of 100 B or 1 KiB, an answer of 200 B. The figures are rates, and medians of the ratios of
// neighbouring turns.
func BenchmarkGateway(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(strconv.Itoa(size), func(b *testing.B) { compareWithBare(b, size) })
	}
}

const (
	benchConns = 64
	benchBurst = 10 // requests per connection and slice
)

func compareWithBare(b *testing.B, size int) {
	answer := bytes.Repeat([]byte("0123456789"), 20)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{"application/json"}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(answer)
	}))
	defer up.Close()
	target, err := url.Parse(up.URL)
	if err != nil {
		b.Fatal(err)
	}
	bare := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() },
		Transport:  &http.Transport{MaxIdleConns: maxIdleConns, MaxIdleConnsPerHost: maxIdleConns, DisableCompression: true},
		BufferPool: &copyBuffers,
		ErrorLog:   slog.NewLogLogger(slog.DiscardHandler, 0),
	})
	defer bare.Close()
	engine, err := stet.New(memstore.New(memstore.Config{MaxKeys: 100 << 20}), stet.Config{})
	if err != nil {
		b.Fatal(err)
	}
	g, err := New(engine, Config{Upstream: target})
	if err != nil {
		b.Fatal(err)
	}
	guarded := httptest.NewServer(g)
	defer guarded.Close()
	gOff, err := New(engine, Config{Upstream: target, Default: stethttp.Config{Mode: stethttp.ModeOff}})
	if err != nil {
		b.Fatal(err)
	}
	unguarded := httptest.NewServer(gOff)
	defer unguarded.Close()

	least := httptest.NewServer(&floor{upstream: target.Host})
	defer least.Close()

	body := `{"amount":1099,"currency":"eur","description":"` + string(bytes.Repeat([]byte("x"), size-49)) + `"}`
	dial := func(s *httptest.Server) []*benchConn { return dialAll(b, s.Listener.Addr().String(), body) }
	fresh := dial(guarded)
	n := 0
	key := func() string { n++; return fmt.Sprintf("8e03978e-40d5-43e8-%017d", n) }
	known := func() string { return "8e03978e-40d5-43e8-bc93-known-key-01" }
	type role struct {
		name   string
		conns  []*benchConn
		key    func() string
		took   time.Duration
		ratios map[string][]float64 // to the roles before it
	}
	roles := []*role{
		{name: "bare", conns: dial(bare), key: key}, {name: "floor", conns: dial(least), key: key},
		{name: "off", conns: dial(unguarded), key: key}, {name: "new", conns: fresh, key: key}, {name: "replay", conns: fresh, key: known},
	}
	if addr := startNginx(b, target.Host); addr != "" {
		roles = slices.Insert(roles, 2, &role{name: "nginx", conns: dialAll(b, addr, body), key: key})
	}
	if err := fresh[0].ask(known()); err != nil {
		b.Fatal(err)
	}
	for _, r := range roles { // warm
		r.ratios = map[string][]float64{}
		burst(b, r.conns, r.key)
	}
	rounds := 0
	for b.Loop() {
		rounds++
		turn := map[string]time.Duration{}
		for _, r := range roles {
			took := burst(b, r.conns, r.key)
			r.took += took
			for name, t := range turn {
				r.ratios[name] = append(r.ratios[name], float64(t)/float64(took))
			}
			turn[r.name] = took
		}
	}
	requests := float64(rounds * benchConns * benchBurst)
	for _, r := range roles {
		b.ReportMetric(requests/r.took.Seconds(), r.name+"/s")
		for name, ratios := range r.ratios { // the median: bursts are short, and a machine has other things to do
			if name == "bare" || r.name == "new" && name != "off" {
				slices.Sort(ratios)
				b.ReportMetric(ratios[len(ratios)/2], r.name+"/"+name)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// burst sends benchBurst requests on each connection, and returns how long all of them took.
func burst(b *testing.B, conns []*benchConn, key func() string) time.Duration {
	keys := make([]string, len(conns)*benchBurst)
	for i := range keys {
		keys[i] = key()
	}
	var all sync.WaitGroup
	var failed atomic.Value
	began := time.Now()
	for i, c := range conns {
		all.Go(func() {
			for _, k := range keys[i*benchBurst : (i+1)*benchBurst] {
				if err := c.ask(k); err != nil {
					failed.CompareAndSwap(nil, fmt.Sprint(err))
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if err := failed.Load(); err != nil {
		b.Fatal(err)
	}
	return took
}

// benchConn is a client that costs next to nothing.
type benchConn struct {
	c   net.Conn
	in  *bufio.Reader
	req []byte
	at  int // where the key is in req
}

func dialAll(b *testing.B, addr, body string) []*benchConn {
	conns := make([]*benchConn, benchConns)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		head := "POST /v1/charges HTTP/1.1\r\nHost: api.example\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n" +
			"Authorization: Bearer 0123456789abcdef\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n" +
			"Content-Type: application/json\r\nIdempotency-Key: \""
		req := fmt.Sprintf("%s%36s\"\r\nContent-Length: %d\r\n\r\n%s", head, "", len(body), body)
		conns[i] = &benchConn{c, bufio.NewReader(c), []byte(req), len(head)}
	}
	return conns
}

var errAnswer = errors.New("not the upstream's answer")

func (c *benchConn) ask(key string) error {
	if len(key) != 36 {
		return errors.New("a key of another length")
	}
	copy(c.req[c.at:], key)
	if _, err := c.c.Write(c.req); err != nil {
		return err
	}
	length := -1
	for line := 0; ; line++ {
		l, err := c.in.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case line == 0 && !bytes.HasPrefix(l, []byte("HTTP/1.1 201 ")):
			return fmt.Errorf("%w: %s", errAnswer, l)
		case len(l) == 2:
			if length != 200 {
				return fmt.Errorf("%w: %d bytes", errAnswer, length)
			}
			_, err := c.in.Discard(length)
			return err
		case bytes.HasPrefix(l, []byte("Content-Length: ")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(l[16:]))); err != nil {
				return err
			}
		}
	}
}
