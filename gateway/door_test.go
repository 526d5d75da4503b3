package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// face is a gateway as clients of one version of HTTP see it.
type face struct {
	*rig
	name string
	send func(method, target string, fields ...string) answer // as it is: net/http's client makes nothing of them
}

// faces runs a test by HTTP/1.1, HTTP/2 with TLS and HTTP/2 without, on a real listener each.
func faces(t *testing.T, upstream string, adjust func(*gateway.Config), test func(*face)) {
	t.Helper()
	server, client := certificate(t)
	for _, name := range []string{"http/1.1", "h2", "h2c"} {
		t.Run(name, func(t *testing.T) {
			f := &face{rig: newRig(t, upstream, adjust), name: name}
			c, tr := gateway.ServerConfig{Handler: f.gw}, &http.Transport{Protocols: new(http.Protocols)}
			scheme := "http"
			switch name {
			case "http/1.1":
				tr.Protocols.SetHTTP1(true)
			case "h2":
				scheme, c.TLS, tr.TLSClientConfig = "https", server, client
				tr.Protocols.SetHTTP2(true)
			case "h2c":
				c.H2C = true
				tr.Protocols.SetUnencryptedHTTP2(true)
			}
			s := run(t, c)
			t.Cleanup(func() { tr.CloseIdleConnections(); f.gw.CloseIdle() })
			f.send = func(method, target string, fields ...string) answer {
				t.Helper()
				req := must(http.NewRequestWithContext(t.Context(), "GET", scheme+"://"+s.Addr(), nil))
				path, query, _ := strings.Cut(target, "?")
				req.Method, req.URL = method, &url.URL{Scheme: scheme, Host: s.Addr(), Opaque: path, RawQuery: query}
				for i := 0; i < len(fields); i += 2 {
					req.Header[fields[i]] = append(req.Header[fields[i]], fields[i+1])
				}
				res, err := tr.RoundTrip(req)
				if err != nil {
					return answer{err: err}
				}
				defer res.Body.Close()
				if (res.ProtoMajor == 2) != (name != "http/1.1") {
					t.Fatalf("the answer came by %s", res.Proto)
				}
				b, err := io.ReadAll(res.Body)
				return answer{res, string(b), err}
			}
			test(f)
		})
	}
}

// counted is an upstream that counts what reaches it.
func counted(t *testing.T) (string, *atomic.Int64) {
	n := new(atomic.Int64)
	return upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.WriteHeader(http.StatusCreated)
	}), n
}

// TestSpellingsThatLeaveTheirRoute: none of them gets by the policy of the route that the upstream
// would take them to.
func TestSpellingsThatLeaveTheirRoute(t *testing.T) { // C03
	up, n := counted(t)
	for _, strict := range []bool{false, true} {
		faces(t, up, func(c *gateway.Config) {
			c.StrictCoverage = strict
			c.Default.Mode = stethttp.ModeOff
			c.Routes = []gateway.Route{{Match: "/public/", Config: stethttp.Config{Mode: stethttp.ModeOff}}, {Match: "/v1/", Config: stethttp.Config{Mode: stethttp.ModeRequired}}}
		}, func(f *face) {
			for _, target := range []string{"/public/%2e%2e/v1/payments", "/public/..%2fv1/payments", "/public/..;/v1/payments", "/public/%252e%252e/v1/payments",
				"/public/..%5Cv1%5Cpayments", `/public\..\v1\payments`, "/public/;/../v1/payments", "/v1%2F/../public/", "/v1//../payments", "/v1/payments#/../../public", "/public/%00"} {
				for _, method := range []string{"POST", "GET"} {
					p := f.problem(f.send(method, target), stethttp.InvalidTarget)
					if p.Retryable || p.KeyAction != "stop" {
						t.Errorf("%+v", p)
					}
				}
			}
			// Plain dot segments are matched in clean form, by the rules of where they lead.
			f.problem(f.send("POST", "/public/../v1/payments"), stethttp.MissingKey)
		})
	}
	if n.Load() != 0 {
		t.Errorf("%d requests reached the upstream", n.Load())
	}
}

// TestMatchEncoded: for an upstream to which an encoded slash is one.
func TestMatchEncoded(t *testing.T) { // C03
	off, required := stethttp.Config{Mode: stethttp.ModeOff}, stethttp.Config{Mode: stethttp.ModeRequired}
	up, _ := counted(t)
	r := newRig(t, up, func(c *gateway.Config) {
		c.Default = off
		c.Routes = []gateway.Route{
			{Match: "POST /v1/payments", Config: required, MatchEncoded: true},
			{Match: "/v1/plain", Config: required},
			{Match: "/files/", Config: required, MatchEncoded: true},
			{Match: "/files/open/", Config: off},
			{Match: "/{word}", Config: off},
		}
	})
	for target, guarded := range map[string]bool{
		"/v1/payments": true, "/v1%2Fpayments": true, "/v1%2fpayments": true, "/v1%252Fpayments": true, "/v1/%70ayments": true, "/v1%2F%70ayments": true,
		"/v1/payments%2F": false, "/v1/payments/": false, "/V1/payments": false, "/v1/payments;x=1": false, "/v1%2Fpayments;x=1": false,
		"/v1/plain": true, "/v1%2Fplain": false, "/v1/plai%6E": true, "/v1/plai%256E": false,
		"/files%2Fa": true, "/files/a%2Fb": true, "/files%2Fopen%2Fa": false, "/files/open%2Fa": true, "/word": false,
	} {
		a := r.do("POST", target, "", nil)
		if a.err != nil || (a.StatusCode == 400) != guarded {
			t.Errorf("%s: %+v, want it guarded: %v", target, a, guarded)
		}
	}
	r.status(r.do("GET", "/v1%2Fpayments", "", nil), 201)
}

// TestMethodsOfAllRoutes: what no route enables may be spelled as it likes.
func TestMethodsOfAllRoutes(t *testing.T) { // C04, C14
	up, n := counted(t)
	faces(t, up, func(c *gateway.Config) {
		c.Default.EnabledMethods = []string{"POST"}
		c.Routes = []gateway.Route{{Match: "/a", Config: stethttp.Config{EnabledMethods: []string{"PATCH"}}},
			{Match: "/b", Config: stethttp.Config{Mode: stethttp.ModeShadow, EnabledMethods: []string{"DELETE"}}}}
	}, func(f *face) {
		before := n.Load()
		for _, method := range []string{"post", "Patch", "PRI"} {
			p := f.problem(f.send(method, "/x"), stethttp.InvalidMethod)
			if want := strings.ToUpper(method); !strings.Contains(p.Detail, want) {
				t.Errorf("%s: %q names no %s", method, p.Detail, want)
			}
		}
		if n.Load() != before {
			t.Error("one reached the upstream")
		}
		f.status(f.send("delete", "/b"), 201)
		f.status(f.send("get", "/x"), 201)
	})
}

// TestOverridesAreTheRoutes: the policy is that of the route which the request has as it was sent.
func TestOverridesAreTheRoutes(t *testing.T) { // C04
	up, _ := counted(t)
	r := newRig(t, up, func(c *gateway.Config) {
		c.Default.RefuseOverride = true
		c.Routes = []gateway.Route{{Match: "/free"}}
	})
	r.problem(r.do("GET", "/x", "", header{"X-HTTP-Method-Override": "POST"}), stethttp.InvalidMethod)
	r.problem(r.do("GET", "/x?_method=PUT", "", nil), stethttp.InvalidMethod)
	r.status(r.do("GET", "/free", "", header{"X-HTTP-Method-Override": "POST"}), 201)
}

// TestWhitespaceMakesNoOtherScope, nor another key, and upstreams see none of it.
func TestWhitespaceMakesNoOtherScope(t *testing.T) { // C02
	var n atomic.Int64
	up := upstream(t, func(w http.ResponseWriter, req *http.Request) {
		n.Add(1)
		fmt.Fprintf(w, "%q %q", req.Header["X-Tenant-Id"], req.Header["Idempotency-Key"])
	})
	faces(t, up, func(c *gateway.Config) {
		c.Scope, c.KeepHeaders = func(r *http.Request) (stet.Scope, error) { return stet.Scope(r.Header.Get("X-Tenant-Id")), nil }, []string{"X-Tenant-Id"}
		c.Routes = []gateway.Route{{Match: "/off", Config: stethttp.Config{Mode: stethttp.ModeOff}}}
	}, func(f *face) {
		before := n.Load()
		for _, scope := range []string{"sec", "sec ", " sec", "\tsec "} {
			for _, key := range []string{"k", " k", "k\t"} {
				if a := f.status(f.send("POST", "/", "X-Tenant-Id", scope, "Idempotency-Key", key), 200); a.body != `["sec"] ["\"k\""]` {
					t.Errorf("%s: the upstream saw %s", f.name, a.body)
				}
			}
		}
		if n.Load() != before+1 {
			t.Errorf("%s: %d executions", f.name, n.Load()-before)
		}
		if a := f.status(f.send("POST", "/off", "X-Tenant-Id", " sec ", "Idempotency-Key", " k "), 200); a.body != `["sec"] ["k"]` {
			t.Errorf("%s: the upstream saw %s", f.name, a.body)
		}
	})
}

// TestUpgradesOfOtherMethodsAreGuarded, and reach the upstream without the offer, on whichever
// route.
func TestUpgradesOfOtherMethodsAreGuarded(t *testing.T) { // C01
	var n atomic.Int64
	up := upstream(t, func(w http.ResponseWriter, req *http.Request) {
		n.Add(1)
		if req.Header["Upgrade"] != nil || req.Header["Connection"] != nil {
			t.Errorf("%s reached the upstream with %v", req.Method, req.Header)
		}
		w.WriteHeader(http.StatusCreated)
	})
	r := newRig(t, up, func(c *gateway.Config) {
		c.StrictCoverage = true
		c.Routes = []gateway.Route{{Match: "/"}, {Match: "/required", Config: stethttp.Config{Mode: stethttp.ModeRequired}},
			{Match: "/optional", Config: stethttp.Config{Mode: stethttp.ModeOptional}}, {Match: "/off", Config: stethttp.Config{Mode: stethttp.ModeOff}}}
	})
	ask := func(target, key string) answer {
		return r.refused("POST " + target + " HTTP/1.1\nHost: x\nConnection: keep-alive, Upgrade\nUpgrade: websocket\n" + key + "Content-Length: 0\n\n")
	}
	for i, target := range []string{"/", "/required", "/optional"} {
		for range 3 {
			r.status(ask(target, "Idempotency-Key: k"+strconv.Itoa(i)+"\n"), 201)
		}
		r.state("k"+strconv.Itoa(i), stet.Completed, "")
		if n.Load() != int64(i)+1 {
			t.Fatalf("%s: %d executions", target, n.Load()-int64(i))
		}
	}
	r.problem(ask("/", ""), stethttp.MissingKey)
	r.problem(ask("/required", ""), stethttp.MissingKey)
	r.status(ask("/off", ""), 201)
}

// TestBadFramesGoNoFurther: the mark is made by what reads the connection, below net/http.
func TestBadFramesGoNoFurther(t *testing.T) { // C05
	r := newRig(t, echo(t), nil)
	a := r.refused("GET / HTTP/1.1\nHost: x\nStet-Bad-Frame: 3\n\n")
	r.problem(a, stethttp.BadFraming)
	if !a.Close {
		t.Error("the connection stays open")
	}
	for _, mode := range []stethttp.Mode{stethttp.ModeOff, stethttp.ModeShadow} {
		r := newRig(t, echo(t), func(c *gateway.Config) { c.Default.Mode = mode })
		if _, h := r.sent("GET / HTTP/1.1\nHost: x\nStet-Bad-Frame: 3\n\n"); h["Stet-Bad-Frame"] != nil {
			t.Errorf("mode %d: the upstream got %v", mode, h)
		}
	}
}

// TestLongTargets: what can be stored of them is bounded.
func TestLongTargets(t *testing.T) { // C11
	up, _ := counted(t)
	limits := stethttp.NewLimits(stethttp.LimitsConfig{MaxTargetBytes: 100})
	faces(t, up, func(c *gateway.Config) { c.Default.Limits = limits }, func(f *face) {
		f.status(f.send("GET", "/?"+strings.Repeat("x", 98)), 201)
		f.problem(f.send("GET", "/?"+strings.Repeat("x", 99)), stethttp.InvalidTarget)
	})
}

// TestStrangersByAddress: requests without a scope are bounded by where they come from; of what a
// proxy says, the last address that is not a proxy's counts.
func TestStrangersByAddress(t *testing.T) { // E02
	g, err := gateway.New(must(stet.New(memstore.New(memstore.Config{}), stet.Config{})), gateway.Config{
		Upstream: &url.URL{Scheme: "http", Host: "127.0.0.1:1"},
		Scope:    stethttp.HeaderScope("X-Tenant"),
		Default:  stethttp.Config{Limits: stethttp.NewLimits(stethttp.LimitsConfig{UnauthenticatedPerSecond: 0.001})},

		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		peer, said string
		want       int
	}{
		{"192.0.2.1:1", "", 401},
		{"192.0.2.1:2", "192.0.2.9", 429}, // who is not trusted is who it is
		{"10.0.0.1:1", "192.0.2.1", 429},
		{"10.0.0.1:1", "192.0.2.7, 192.0.2.2, 10.9.9.9", 401},
		{"10.0.0.2:1", "192.0.2.8, 192.0.2.2", 429},
		{"10.0.0.1:1", "", 401},
		{"10.0.0.1:1", "unknown", 429},
		{"10.0.0.1:1", "192.0.2.3, unknown, 10.0.0.1", 429}, // the last that can be told
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/charges", strings.NewReader("{}"))
		r.RemoteAddr = c.peer
		r.Header.Set("Idempotency-Key", "k")
		if c.said != "" {
			r.Header.Set("X-Forwarded-For", c.said)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%d, from %s by %q: %d, want %d", i, c.peer, c.said, w.Code, c.want)
		}
	}
}
