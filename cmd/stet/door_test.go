package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stet-dev/stet/store/memstore"
)

// What the file says of targets, methods and proxies is what the gateway does.
func TestTheDoorOfTheFile(t *testing.T) { // C03, C04, C13
	var seen http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header }))
	t.Cleanup(upstream.Close)
	h := front(t, memstore.New(memstore.Config{}), upstream.URL, `
store: { dsn: "memory:" }
trusted_proxies: [192.0.2.0/24]
limits: { max_target_bytes: 40 }
policy: { method_override: refuse }
routes:
- { match: POST /v1/payments, mode: required, match_encoded: true }
- { match: /, mode: optional }
`)
	for _, c := range []struct {
		method, target string
		header         http.Header
		want           int
	}{
		{"POST", "/v1%2Fpayments", nil, 400},
		{"POST", "/v1%2Fpayouts", nil, 200},
		{"GET", "/?0123456789012345678901234567890123456", nil, 200},
		{"GET", "/?0123456789012345678901234567890123456xxxx", nil, 400},
		{"GET", "/?_method=POST", nil, 400},
		{"GET", "/", http.Header{"X-Http-Method": {"PATCH"}}, 400},
		{"GET", "/", http.Header{"X-Forwarded-For": {"203.0.113.9"}}, 200},
	} {
		r := httptest.NewRequest(c.method, "/", nil) // from 192.0.2.1
		u, err := url.ParseRequestURI(c.target)
		if err != nil {
			t.Fatal(err)
		}
		r.URL, r.RequestURI = u, c.target
		for name, v := range c.header {
			r.Header[name] = v
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %s: %d %s", c.method, c.target, w.Code, w.Body)
		}
	}
	if got := seen.Get("X-Forwarded-For"); got != "203.0.113.9, 192.0.2.1" {
		t.Errorf("X-Forwarded-For: %s", got)
	}
}
