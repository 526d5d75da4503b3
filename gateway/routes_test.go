package gateway_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// The most specific pattern's rules hold, and nothing is ever redirected.
func TestRoutes(t *testing.T) {
	hits := 0
	r := newRig(t, upstream(t, func(w http.ResponseWriter, _ *http.Request) { hits++ }), func(c *gateway.Config) {
		off := stethttp.Config{Mode: stethttp.ModeOff}
		required := stethttp.Config{Mode: stethttp.ModeRequired}
		c.Default.RequiredMethods = []string{}
		c.Routes = []gateway.Route{
			{Match: "/v1/", Config: required},
			{Match: "POST /v1/search", Config: off},
			{Match: "/v1/things/{id}", Config: off},
			{Match: "PUT /v1/things/{id}", Config: required},
			{Match: "Files.example./", Config: required},
			{Match: "[2001:db8:0::1]/", Config: required},
		}
	})
	for _, row := range []struct {
		method, path, host string
		required           bool
	}{
		{"POST", "/v1/payments", "", true},
		{"POST", "/v1", "", true}, // as ServeMux would redirect it
		{"POST", "//v1//payments", "", true},
		{"POST", "/v2/../v1/payments", "", true},
		{"POST", "/v1/search/../payments", "", true},
		{"POST", "/v1/search", "", false},
		{"POST", "/v1/./search", "", false},
		{"PUT", "/v1/search", "", true},
		{"POST", "/v1/things/a%2Fb", "", false},
		{"PUT", "/v1/things/a%2Fb", "", true},
		{"POST", "/v1/things/a/b", "", true},
		{"POST", "/v2", "", false},
		{"POST", "/v2", "files.example", true},
		{"POST", "/v2", "files.example:99", true},
		{"POST", "/v2", "FILES.example.", true}, // H02
		{"POST", "/v2", "Files.Example.:80", true},
		{"POST", "/v2", "[2001:DB8::0:1]", true},
		{"POST", "/v2", "[2001:db8::1]:8080", true},
		{"POST", "/v2", "[2001:db8::2]:8080", false},
		{"GET", "/v1/payments", "", false},
	} {
		req := must(http.NewRequest(row.method, r.url, nil))
		req.URL.Opaque, req.Host = row.path, row.host
		if strings.HasPrefix(row.path, "//") {
			req.URL.Opaque = "//" + req.URL.Host + row.path
		}
		before := hits
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		switch {
		case row.required && (res.StatusCode != 400 || hits != before):
			t.Errorf("%+v: %s, want a key to be required", row, res.Status)
		case !row.required && (res.StatusCode != 200 || hits != before+1):
			t.Errorf("%+v: %s, want it to pass", row, res.Status)
		}
	}
}

// With strict coverage, what changes something needs a route.
func TestStrictCoverage(t *testing.T) {
	hits := 0
	r := newRig(t, upstream(t, func(w http.ResponseWriter, _ *http.Request) { hits++ }), func(c *gateway.Config) {
		c.StrictCoverage = true
		c.Routes = []gateway.Route{{Match: "POST /covered"}}
	})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "PURGE"} {
		p := r.problem(r.do(method, "/other", "", header{"idempotency-key": "k"}), "route-not-covered")
		if p.Status != 400 || p.Retryable || p.KeyAction != "stop" {
			t.Errorf("%+v", p)
		}
	}
	r.absent("k")
	if hits != 0 {
		t.Fatal("an uncovered request reached the upstream")
	}
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		r.status(r.do(method, "/other", "", nil), 200)
	}
	r.status(r.post("k", "/covered", ""), 200)
}

// The records and events of a route carry its pattern, those of unmatched requests "default".
func TestRouteNames(t *testing.T) {
	r := newRig(t, upstream(t, func(http.ResponseWriter, *http.Request) {}), func(c *gateway.Config) {
		c.Routes = []gateway.Route{{Match: "POST /a"}, {Match: "/b", Config: stethttp.Config{Route: "bee"}}}
	})
	for path, want := range map[string]string{"/a": "POST /a", "/b": "bee", "/c": "default"} {
		key := "k" + path[1:]
		r.status(r.post(key, path, ""), 200)
		rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(key)})
		if err != nil || rec.Route != want {
			t.Errorf("%s: route %q, %v", path, rec.Route, err)
		}
	}
	routes := r.gw.Routes()
	if len(routes) != 3 || routes[0].Match != "POST /a" || routes[2].Match != "" || routes[2].Config.MaxBody != 1<<20 {
		t.Errorf("%+v", routes)
	}
}

// An error names the route and what is wrong with it.
func TestConfigErrors(t *testing.T) {
	e := must(stet.New(memstore.New(memstore.Config{}), stet.Config{}))
	good := must(url.Parse("http://127.0.0.1:3000"))
	routes := func(patterns ...string) gateway.Config {
		c := gateway.Config{Upstream: good}
		for _, p := range patterns {
			c.Routes = append(c.Routes, gateway.Route{Match: p})
		}
		return c
	}
	badPolicy := routes("/a", "POST /bad")
	badPolicy.Routes[1].Config.MaxBody = -1
	badKey := routes("/a")
	badKey.Routes[0].UpstreamKey = 9
	badDefault := routes()
	badDefault.Default.MaxBody = -1
	for _, row := range []struct {
		config gateway.Config
		want   []string
	}{
		{gateway.Config{}, []string{"Upstream"}},
		{gateway.Config{Upstream: must(url.Parse("ftp://x"))}, []string{"ftp://x"}},
		{gateway.Config{Upstream: must(url.Parse("http:///x"))}, []string{"Upstream"}},
		{gateway.Config{Upstream: must(url.Parse("http://x/base"))}, []string{"http://x/base", "path"}},
		{gateway.Config{Upstream: must(url.Parse("http://u:secret@x"))}, []string{"password"}},
		{gateway.Config{Upstream: good, UpstreamKey: 9}, []string{"UpstreamKey"}},
		{routes("/a", "/b", "/a"), []string{`"/a"`, "conflicts"}},
		{routes("/a/{x}", "/a/{y}"), []string{`"/a/{y}"`, `"/a/{x}"`, "conflicts"}},
		{routes("/{x}/b", "/c", "/a/{y}"), []string{`"/a/{y}"`, `"/{x}/b"`, "conflicts"}},
		{routes("/a", "GET  /{"), []string{`"GET  /{"`}},
		{routes(""), []string{`""`}},
		{badPolicy, []string{`"POST /bad"`, "MaxBody"}},
		{badKey, []string{`"/a"`, "UpstreamKey"}},
		{badDefault, []string{"MaxBody"}},
	} {
		_, err := gateway.New(e, row.config)
		if err == nil {
			t.Errorf("want an error about %v", row.want)
			continue
		}
		for _, want := range row.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: want it to name %s", err, want)
			}
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), ".go:") {
			t.Errorf("%v", err)
		}
	}
	if _, err := gateway.New(nil, gateway.Config{Upstream: good}); err == nil {
		t.Error("want an error without an engine")
	}
}

// With the route in the scope, a key is one of each route (D08).
func TestScopeByRoute(t *testing.T) {
	for byRoute, want := range map[bool]int{true: 200, false: 422} {
		r := newRig(t, upstream(t, func(http.ResponseWriter, *http.Request) {}), func(c *gateway.Config) {
			c.ScopeByRoute, c.Scope = byRoute, stethttp.HeaderScope("X-Tenant")
			c.Routes = []gateway.Route{{Match: "POST /v1/pay"}}
		})
		tenant := func(key string) header { return header{"Idempotency-Key": key, "X-Tenant": "a/b"} }
		r.status(r.do("POST", "/v1/pay", "one", tenant("k")), 200)
		r.status(r.do("POST", "/elsewhere", "one", tenant("k")), want)
		if !byRoute {
			continue
		}
		for _, scope := range []stet.Scope{"a/b/POST%20%2Fv1%2Fpay", "a/b/default"} {
			if _, err := r.store.Get(t.Context(), stet.ID{Scope: scope, Key: "k"}); err != nil {
				t.Errorf("%s: %v", scope, err)
			}
		}
		r.problem(r.do("POST", "/v1/pay", "one", header{"Idempotency-Key": "k"}), stethttp.Unauthenticated)
	}
}

// With the host in the scope, a key is one of each host in whatever spelling.
func TestScopeByHost(t *testing.T) { // H02, H07
	hits := 0
	r := newRig(t, upstream(t, func(http.ResponseWriter, *http.Request) { hits++ }), func(c *gateway.Config) {
		c.ScopeByHost, c.ScopeByRoute = true, true
		c.Routes = []gateway.Route{{Match: "POST /v1/pay"}}
	})
	for _, host := range []string{"a.example", "A.EXAMPLE.:80", "b.example:8443", "B.example:08443", "[::1]:8080"} {
		req := must(http.NewRequest("POST", r.url+"/v1/pay", strings.NewReader("{}")))
		req.Host, req.Header["Idempotency-Key"] = host, []string{"k"}
		res, err := r.client.Do(req)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %v, %v", host, res, err)
		}
		res.Body.Close()
	}
	if hits != 3 {
		t.Errorf("three hosts ran %d times", hits)
	}
	for _, host := range []string{"a.example", "b.example:8443", "%5B::1%5D:8080"} {
		if _, err := r.store.Get(t.Context(), stet.ID{Scope: stet.Scope("default/" + host + "/POST%20%2Fv1%2Fpay"), Key: "k"}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}
