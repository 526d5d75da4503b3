package gateway_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
)

// What a proxy in between may have said is no result; an API can still say what its own means, and
// a setting that all of it is.
func TestAnswersOfProxies(t *testing.T) { // R02, N02
	for name, row := range map[string]struct {
		route  stethttp.Config
		status int
		says   string
		state  stet.State
	}{
		"502":                     {stethttp.Config{}, 502, "", stet.Unknown},
		"503":                     {stethttp.Config{}, 503, "", stet.Unknown},
		"504":                     {stethttp.Config{}, 504, "", stet.Unknown},
		"500":                     {stethttp.Config{}, 500, "", stet.Completed},
		"the API's own":           {stethttp.Config{}, 503, "not-executed", stet.Retryable},
		"they are the API's":      {stethttp.Config{StatusOutcome: map[int]stet.State{}}, 502, "", stet.Completed},
		"on_5xx is release":       {stethttp.Config{On5xx: stethttp.ReleaseFailure}, 503, "", stet.Retryable},
		"the API marks its own":   {stethttp.Config{TrustHeader: "X-Api"}, 404, "", stet.Unknown},
		"another one is named":    {stethttp.Config{StatusOutcome: map[int]stet.State{500: stet.Unknown}}, 500, "", stet.Unknown},
		"and 502 no more with it": {stethttp.Config{StatusOutcome: map[int]stet.State{500: stet.Unknown}}, 502, "", stet.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, upstream(t, func(w http.ResponseWriter, _ *http.Request) {
				if row.says != "" {
					w.Header().Set("Stet-Outcome", row.says)
				}
				w.WriteHeader(row.status)
			}), func(c *gateway.Config) { c.Default = row.route })
			r.status(r.post("k", "/", `{}`), row.status)
			cause := map[stet.State]string{stet.Unknown: "status", stet.Retryable: "status"}[row.state]
			if row.says != "" {
				cause = "stated"
			}
			r.state("k", row.state, cause)
		})
	}
}

// A guarded request without a body has one on the wire, of no length, so that a proxy in between
// that is made with net/http does not send it again when the API breaks the connection under it.
func TestNoProxySendsAgain(t *testing.T) { // R01
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		for _, transport := range []string{"plain", "net/http"} {
			t.Run(method+" "+transport, func(t *testing.T) {
				var effects atomic.Int64
				api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == "GET" {
						return
					}
					effects.Add(1)
					panic(http.ErrAbortHandler) // the effect was made, and the connection ends without an answer
				}))
				t.Cleanup(api.Close)
				api.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
				behind := httputil.NewSingleHostReverseProxy(must(url.Parse(api.URL)))
				behind.ErrorLog = api.Config.ErrorLog
				r := newRig(t, upstream(t, behind.ServeHTTP), nil)
				h := header{"idempotency-key": `"k"`}
				if transport == "net/http" {
					h["Te"] = "trailers" // which is not plain
				}
				r.status(r.do("GET", "/", "", nil), 200) // net/http sends again where a connection was used before
				r.status(r.do(method, "/", "", h), 502)
				if n := effects.Load(); n != 1 {
					t.Errorf("the effect was made %d times", n)
				}
				r.state("k", stet.Unknown, "status")
			})
		}
	}
}
