package gateway_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/internal/freeport"
)

// upstreamIs fails the test unless the upstream is known to be up, or down.
func (r *rig) upstreamIs(up bool) {
	r.Helper()
	if s := r.gw.UpstreamState(); !s.Known || s.DownSince.IsZero() != up {
		r.Fatalf("%+v; up should be %t", s, up)
	}
}

// The upstream is down after three attempts in a row without a connection, and up after one answer,
// whatever kind of request finds it out. Each change is logged once.
func TestUpstreamGoesAndComesBack(t *testing.T) { // N07
	keys := 0
	for name, send := range map[string]func(r *rig) answer{
		"guarded":   func(r *rig) answer { keys++; return r.post(fmt.Sprint(keys), "/", "{}") },
		"unguarded": func(r *rig) answer { return r.do("GET", "/", "", nil) },
		"not plain": func(r *rig) answer { return r.do("PUT", "/", strings.Repeat("x", 20_000), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			addr := fmt.Sprint("127.0.0.1:", freeport.Of(t, 1)[0])
			r := newRig(t, "http://"+addr, nil)
			fail := func(times int) {
				t.Helper()
				for range times {
					r.status(send(r), http.StatusBadGateway)
				}
			}
			if fail(2); r.gw.UpstreamState() != (gateway.UpstreamState{Address: addr}) {
				t.Errorf("after two attempts: %+v", r.gw.UpstreamState())
			}
			fail(2)
			r.upstreamIs(false)
			since := r.gw.UpstreamState().DownSince

			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				w.WriteHeader(http.StatusServiceUnavailable) // an answer like any
			})}
			done := make(chan struct{})
			go func() { defer close(done); _ = srv.Serve(l) }()
			t.Cleanup(func() { _ = srv.Close(); <-done })
			r.status(send(r), http.StatusServiceUnavailable)
			r.upstreamIs(true)

			_ = srv.Close()
			fail(2)
			r.upstreamIs(true)
			fail(2)
			if r.upstreamIs(false); !r.gw.UpstreamState().DownSince.After(since) {
				t.Errorf("down since %s, as before", since)
			}
			if text := r.log.String(); strings.Count(text, "the upstream cannot be connected to") != 2 ||
				strings.Count(text, "the upstream answers again") != 1 || !strings.Contains(text, `"upstream":"`+addr+`"`) {
				t.Error(text)
			}
		})
	}
}

// What speaks no TLS that the gateway trusts cannot be connected to.
func TestUpstreamWhoseTLSFails(t *testing.T) { // N07
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	r := newRig(t, srv.URL, nil)
	for range 3 {
		r.status(r.post("k", "/", "{}"), http.StatusBadGateway)
	}
	r.upstreamIs(false)
}
