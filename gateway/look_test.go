package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// internalRig is a gateway without a listener.
func internalRig(t *testing.T, upstream string, execution time.Duration) (*stet.Engine, *Gateway) {
	t.Helper()
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Policy: stet.Policy{Execution: execution}})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(e, Config{Upstream: u})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.CloseIdle)
	return e, g
}

func ask(g *Gateway) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

// Where no connection came about, nothing was sent: the client is told so, and a retry runs.
func TestAConnectThatHangs(t *testing.T) { // H12
	for _, scheme := range []string{"http", "https"} {
		e, g := internalRig(t, scheme+"://127.0.0.1:1", 50*time.Millisecond)
		g.transport.dialer.ControlContext = func(ctx context.Context, _, _ string, _ syscall.RawConn) error {
			<-ctx.Done()
			return ctx.Err()
		}
		w := ask(g)
		if w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), string(stethttp.UpstreamUnreachable)) || w.Header().Get("Stet-Outcome") != "not-executed" {
			t.Errorf("%s: %d %s", scheme, w.Code, w.Body)
		}
		have, err := e.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
		if err != nil || have.State != stet.Retryable {
			t.Errorf("%s: %v, %v", scheme, have.State, err)
		}
	}
}

// A client that goes away while the gateway connects says nothing of the upstream. Time that
// connecting has used up does.
func TestWhoseConnectCounts(t *testing.T) { // N07
	for _, te := range []string{"", "trailers"} { // the second is no plain request
		for _, leaves := range []bool{true, false} {
			_, g := internalRig(t, "http://127.0.0.1:1", 20*time.Millisecond)
			for dials := 0; dials < downAfter; { // on a busy machine, the time may be over before
				ctx, leave := context.WithCancel(t.Context())
				g.transport.dialer.ControlContext = func(ctx context.Context, _, _ string, _ syscall.RawConn) error {
					if dials++; leaves {
						leave()
					}
					<-ctx.Done()
					return ctx.Err()
				}
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
				if !leaves { // a guarded request has 20 ms
					r = httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("{}"))
					r.Header.Set("Idempotency-Key", "k")
				}
				if te != "" {
					r.Header.Set("Te", te)
				}
				w := httptest.NewRecorder()
				if g.ServeHTTP(w, r); w.Code != http.StatusBadGateway {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				leave()
			}
			if s := g.UpstreamState(); s.Known == leaves {
				t.Errorf("%q, the client leaves: %t: %+v", te, leaves, s)
			}
		}
	}
}

// What is in the socket when the time is over is read before anybody is told: of a process that was
// stopped, the timeout and the answer come together.
func TestAnswersInTheSocketCount(t *testing.T) { // K14
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there := make(chan net.Conn)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok")
		}
		there <- c
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := newDirectConn(nc, new(pool[*directConn]))
	upstream := <-there
	defer upstream.Close()
	c.patient = true
	c.lookLast()
	head, err := c.peekHead()
	if err != nil || !strings.HasPrefix(string(head), "HTTP/1.1 201") {
		t.Errorf("%q, %v", head, err)
	}
	_, _ = c.in.Discard(c.in.Buffered())
	if _, err := c.in.ReadByte(); !c.interrupted(err) {
		t.Errorf("there is nothing more: %v", err)
	}
	c.unwatch = func() bool { return false }
	c.unpause()
	go func() { _, _ = io.WriteString(upstream, "x") }()
	if b, err := c.in.ReadByte(); b != 'x' || err != nil || c.interrupted(errors.New("x")) {
		t.Errorf("%q, %v", b, err)
	}
}

// There is a bound on what is read on, and beyond it an exchange ends with its time.
func TestFewAnswersAreWaitedFor(t *testing.T) {
	left := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		close(left)
	}))
	defer srv.Close()
	e, g := internalRig(t, srv.URL, time.Second) // it has reached its upstream by then
	g.late.Store(maxLate)
	if w := ask(g); w.Code != http.StatusGatewayTimeout {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	<-left
	have, err := e.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
	if err != nil || have.State != stet.Unknown || have.Attended() || g.late.Load() != maxLate {
		t.Errorf("%v, attended: %t, %v; %d are read on", have.State, have.Attended(), err, g.late.Load())
	}
}
