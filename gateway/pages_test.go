package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// A problem's type is an address where its page is, if problem_base is one of the gateway's own.
func TestProblemPages(t *testing.T) {
	var asked []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked = append(asked, r.Method+" "+r.URL.Path) }))
	defer upstream.Close()
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(e, gateway.Config{Upstream: to, Default: stethttp.Config{ProblemBase: "https://API.example/stet/problems/"}, Scope: stethttp.SingleTenant})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(g)
	defer srv.Close()
	ask := func(method, host, path string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	if status, body := ask("GET", "api.example", "/stet/problems/missing-key"); status != 200 || !strings.Contains(body, "<h1>missing-key</h1>") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := ask("GET", "api.example", "/stet/problems/none"); status != 404 {
		t.Errorf("a page that is not there: %d", status)
	}
	if len(asked) > 0 {
		t.Errorf("the upstream was asked: %q", asked)
	}
	ask("GET", "other.example", "/stet/problems/missing-key")
	ask("GET", "api.example", "/problems/missing-key")
	ask("DELETE", "api.example", "/stet/problems/missing-key")
	if len(asked) != 3 {
		t.Errorf("what is not for a page did not pass: %q", asked)
	}
}
