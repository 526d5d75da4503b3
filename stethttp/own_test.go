package stethttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// The scope of Stet's own records belongs to no client: no header can say it, and a function that
// does is not believed.
func TestOwnScopeIsNobodys(t *testing.T) {
	for name, scope := range map[string]stethttp.ScopeFunc{
		"header":   stethttp.HeaderScope("X-Tenant-Id"),
		"function": func(*http.Request) (stet.Scope, error) { return stet.OwnScope, nil },
	} {
		t.Run(name, func(t *testing.T) {
			e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
			if err != nil {
				t.Fatal(err)
			}
			ran := false
			h := stethttp.Middleware(e, scope, stethttp.Config{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))
			r := httptest.NewRequest("POST", "/v1/payments", strings.NewReader("{}"))
			r.Header["Idempotency-Key"] = []string{"k"}
			r.Header["X-Tenant-Id"] = []string{string(stet.OwnScope)} // as HTTP/2 hands it over
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if name == "function" && (w.Code != 401 || ran) {
				t.Errorf("%d, ran: %v", w.Code, ran)
			}
			if heads, _, err := e.Operator().List(t.Context(), stet.Query{Scope: stet.OwnScope}); err != nil || len(heads) != 0 {
				t.Errorf("%d records are Stet's own, %v", len(heads), err)
			}
		})
	}
}
