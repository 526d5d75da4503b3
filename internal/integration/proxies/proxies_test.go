// Package proxies tests the gateway with the proxies that stand between it and an API.
package proxies

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// api takes each effect, and then leaves the connection without an answer. GET has an answer, and
// keeps the connection.
type api struct {
	*httptest.Server
	effects atomic.Int64
}

func newAPI(t *testing.T) *api {
	a := &api{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		a.effects.Add(1)
		panic(http.ErrAbortHandler)
	}))
	a.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	a.Start()
	t.Cleanup(a.Close)
	return a
}

// door is a gateway before an upstream.
type door struct {
	*httptest.Server
	engine *stet.Engine
}

func newDoor(t *testing.T, upstream string) *door {
	t.Helper()
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Pepper: []byte("pepper")})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(engine, gateway.Config{Upstream: &url.URL{Scheme: "http", Host: upstream}})
	if err != nil {
		t.Fatal(err)
	}
	d := &door{httptest.NewServer(g), engine}
	t.Cleanup(func() { d.Close(); g.CloseIdle() })
	return d
}

func (d *door) send(t *testing.T, method, key, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, d.URL+"/v1/charges", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header["idempotency-key"] = []string{key} // spelled so that this test's own client does not send it again
	}
	res, err := d.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res
}

func (d *door) state(t *testing.T, key stet.Key) stet.State {
	t.Helper()
	r, err := d.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return r.State
}

// The API takes the effect and breaks a connection that was used before: no proxy in between sends
// the request again, with a body or without one, and what it says instead is no result.
func TestAnswersThatProxiesLose(t *testing.T) { // R01, R02
	for _, name := range testserver.Proxies {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			d := newDoor(t, testserver.Proxy(t, name, a.Listener.Addr().String()).Addr)
			for i, method := range []string{"POST", "PUT", "DELETE", "POST"} {
				body := strings.Repeat(`{"amount":1}`, i/3) // the last one has a body
				key := stet.Key(method + "-" + string(rune('a'+i)))
				for range 3 {
					d.send(t, "GET", "", "")
				}
				before := a.effects.Load()
				res := d.send(t, method, string(key), body)
				if n := a.effects.Load() - before; n != 1 {
					t.Errorf("%s with %d bytes: the effect was made %d times", method, len(body), n)
				}
				if is := d.state(t, key); is != stet.Unknown {
					t.Errorf("%s with %d bytes: %d, and the record is %v", method, len(body), res.StatusCode, is)
				}
			}
		})
	}
}

// While the API is away, as during a deploy, a proxy answers for it: no key is burned by that.
func TestAnswersOfProxiesWithoutAnAPI(t *testing.T) { // R02
	for _, name := range testserver.Proxies {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			away := l.Addr().String()
			_ = l.Close()
			d := newDoor(t, testserver.Proxy(t, name, away).Addr)
			res := d.send(t, "POST", "k", "{}")
			if is := d.state(t, "k"); res.StatusCode < 500 || is != stet.Unknown {
				t.Errorf("%d, and the record is %v", res.StatusCode, is)
			}
		})
	}
}
