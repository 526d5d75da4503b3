package gateway_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
)

// TestShadowKnowsWhatTheUpstreamDid: the client of a route in shadow mode is told what it would be
// told without the layer, and the record what a guarded request's would say.
func TestShadowKnowsWhatTheUpstreamDid(t *testing.T) { // C15
	closed := must(net.Listen("tcp", "127.0.0.1:0"))
	addr := closed.Addr().String()
	closed.Close()
	silent := tcpUpstream(t, func(_ net.Conn, in *bufio.Reader) { readRequest(in) })
	stating := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Stet-Outcome", r.URL.Path[1:])
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(stating.Close)
	for _, c := range []struct {
		upstream, path, body string
		status               int
		state                stet.State
	}{
		{"http://" + addr, "/", "", 502, stet.Retryable},
		{"http://" + addr, "/", "{}", 502, stet.Retryable},
		{"http://" + addr, "/", strings.Repeat("x", 20_000), 502, 0}, // the body was not read: there is nothing to count
		{silent, "/", "{}", 502, stet.Unknown},
		{stating.URL, "/not-executed", "{}", 201, stet.Retryable},
		{stating.URL, "/unknown", "{}", 201, stet.Unknown},
		{stating.URL, "/completed", "{}", 201, stet.Completed},
	} {
		r := newRig(t, c.upstream, func(c *gateway.Config) { c.Default.Mode = stethttp.ModeShadow })
		a := r.post("k", c.path, c.body)
		if a.StatusCode != c.status || a.StatusCode == 201 && a.Header.Get("Stet-Outcome") != "" || a.Header.Get("Idempotency-Key") != "" {
			t.Errorf("%s: %d with %v", c.path, a.StatusCode, a.Header)
		}
		if err := r.engine.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
		if rec.State != c.state || err != nil && c.state != 0 {
			t.Errorf("%s%s: the record is %v: %v", c.upstream, c.path, rec.State, err)
		}
	}
}
