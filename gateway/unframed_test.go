package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
)

// ending is an upstream that writes an answer and ends its connection, as the system does for a
// process that was killed.
func ending(t *testing.T, effects *atomic.Int64, text string) string {
	return tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		if readRequest(in) != nil {
			effects.Add(1)
			_, _ = io.WriteString(c, text)
		}
	})
}

const unframed = "neither a length nor chunks has ended with its connection"

// An answer that ends with its connection looks the same if it was cut off. JSON shows which it is.
func TestUnframedAnswers(t *testing.T) { // R06
	const problems, coded = "application/problem+json; charset=utf-8", "application/json\r\nContent-Encoding: gzip"
	for name, row := range map[string]struct {
		status, mediaType, body string
		state                   stet.State
		open                    bool // it is not known where it ends
	}{
		"cut off":         {"1.1 200 OK", "application/json", `{"id":1`, stet.Unknown, false},
		"cut off at once": {"1.1 200 OK", "application/json", "", stet.Unknown, false},
		"half a problem":  {"1.1 402 No", problems, `{"title":"No mo`, stet.Unknown, false},
		"of HTTP/1.0":     {"1.0 200 OK", "application/json", `{"id":1`, stet.Unknown, false},
		"outcome stated":  {"1.1 200 OK", "application/json\r\nStet-Outcome: not-executed", `{"id":1`, stet.Unknown, false}, // as of any answer that broke off
		"whole":           {"1.1 200 OK", "application/json", `{"id":1}`, stet.Completed, false},
		"whole, 1.0":      {"1.0 200 OK", "application/json", `{"id":1}`, stet.Completed, false},
		"with a mark":     {"1.1 200 OK", "application/json", "\xef\xbb\xbf{}\n", stet.Completed, false},
		"a problem":       {"1.1 402 No", problems, `{"title":"No money"}`, stet.Completed, false},
		"text":            {"1.1 200 OK", "text/plain", `{"id":1`, stet.Completed, true},
		"text, 1.0":       {"1.0 201 OK", "text/plain", `{"id":1`, stet.Completed, true},
		"nothing":         {"1.1 200 OK", "text/plain", "", stet.Completed, true},
		"long":            {"1.1 200 OK", "text/plain", strings.Repeat("x", 100_000), stet.Completed, true},
		"compressed":      {"1.1 200 OK", coded, "\x1f\x8b", stet.Completed, true},
		"of no type":      {"1.1 200 OK\r\nX-A", "b", `{"id":1`, stet.Completed, true},
	} {
		for way, h := range plainly {
			t.Run(name+", "+way, func(t *testing.T) {
				checkLeaks(t)
				var effects atomic.Int64
				status, field, _ := strings.Cut(row.status, "\r\n")
				if field == "" {
					field = "Content-Type"
				}
				r := newRig(t, ending(t, &effects, "HTTP/"+status+"\r\nConnection: close\r\n"+field+": "+row.mediaType+"\r\n\r\n"+row.body), nil)
				first := r.do("POST", "/", "{}", keyed("k", h))
				if row.state == stet.Unknown {
					if p := r.problem(first, "upstream-failed"); p.Status != 502 || first.Header.Get("Stet-Outcome") != "unknown" {
						t.Errorf("%+v %v", p, first.Header)
					}
					r.state("k", stet.Unknown, "truncated-response")
					if rec := r.get("k"); rec.Response != nil {
						t.Errorf("half an answer is stored: %+v", rec.Response)
					}
					r.problem(r.do("POST", "/", "{}", keyed("k", h)), "outcome-unknown")
				} else {
					r.state("k", stet.Completed, "")
					r.isOpen(first, row.body, row.open)
					again := r.do("POST", "/", "{}", keyed("k", h))
					r.isOpen(again, row.body, row.open)
					if again.Header.Get("Idempotent-Replayed") != "true" || again.StatusCode != first.StatusCode {
						t.Errorf("the retry is not a replay: %+v", again)
					}
				}
				if n := effects.Load(); n != 1 {
					t.Errorf("%d effects", n)
				}
				if said := strings.Contains(r.log.String(), unframed); said != row.open {
					t.Errorf("warned: %t\n%s", said, r.log)
				}
			})
		}
	}
}

// isOpen demands an answer with that body, whose end is not invented if it is open.
func (r *rig) isOpen(a answer, body string, open bool) {
	r.Helper()
	if a.err != nil || a.body != body {
		r.Errorf("%q, %v, want %q", a.body, a.err, body)
	}
	if _, length := a.Header["Content-Length"]; length == open {
		r.Errorf("Content-Length %v, length known: %t", a.Header["Content-Length"], !open)
	}
}

// The warning says what to do, once for each route. What is not guarded, and what has a length or
// chunks, is not warned of.
func TestUnframedAnswersAreWarnedOfOnce(t *testing.T) { // R06
	var effects atomic.Int64
	r := newRig(t, ending(t, &effects, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nok"), func(c *gateway.Config) {
		c.Routes = []gateway.Route{{Match: "/a"}, {Match: "/b"}}
	})
	r.isOpen(r.do("PUT", "/a", "{}", nil), "ok", true)
	if strings.Contains(r.log.String(), unframed) {
		t.Error("what is not guarded is warned of")
	}
	for _, path := range []string{"/a", "/b"} {
		for _, key := range []string{"k1", "k2", "k3"} {
			r.status(r.post(path[1:]+key, path, "{}"), 200)
		}
	}
	if n := strings.Count(r.log.String(), unframed); n != 2 || !strings.Contains(r.log.String(), "Content-Length or chunks") ||
		!strings.Contains(r.log.String(), `"route":"/a"`) || !strings.Contains(r.log.String(), `"route":"/b"`) {
		t.Errorf("it was said %d times:\n%s", n, r.log)
	}
	for name, text := range map[string]string{
		"a length":  "200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 1\r\n\r\n{",
		"chunks":    "200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n\r\n",
		"a HEAD":    "200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
		"no body":   "204 No\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
		"no answer": "304 No\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
	} {
		r := newRig(t, ending(t, &effects, "HTTP/1.1 "+text), func(c *gateway.Config) { c.Default.EnabledMethods = []string{"POST", "HEAD"} })
		method := "POST"
		if name == "a HEAD" {
			method = "HEAD"
		}
		r.do(method, "/", "", header{"idempotency-key": "k"})
		r.state("k", stet.Completed, "")
		if strings.Contains(r.log.String(), unframed) {
			t.Errorf("%s: %s", name, r.log)
		}
	}
}

// An answer over HTTP/2 has an end of its own, with or without a length (RFC 9113 section 8.1).
func TestAnswersOfHTTP2HaveAnEnd(t *testing.T) { // R06
	checkLeaks(t)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "[1")
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	r := newRig(t, srv.URL, func(c *gateway.Config) { c.UpstreamTLS = srv.Client().Transport.(*http.Transport).TLSClientConfig })
	a := r.status(r.post("k", "/", "{}"), 200)
	if r.isOpen(a, "[1", false); a.Header.Get("Via") != "2.0 stet" {
		t.Error(a.Header)
	}
	r.state("k", stet.Completed, "")
}

// To a client over HTTP/2 nothing is invented either. An answer too long to hold is a result as before, JSON or
// not.
func TestUnframedAnswersElsewhere(t *testing.T) { // R06
	var effects atomic.Int64
	r := newRig(t, ending(t, &effects, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nok"), nil)
	tr, url := r.overH2C()
	for range 2 {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader("{}"))
		req.Header.Set("Idempotency-Key", "k")
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		r.isOpen(answer{res, string(b), err}, "ok", true)
	}
	long := newRig(t, ending(t, &effects, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[1,2,3,4,5,6"), func(c *gateway.Config) { c.Default.MaxResponse = 8 })
	long.isOpen(long.post("k", "/", "{}"), "[1,2,3,4,5,6", true)
	long.state("k", stet.Completed, "")
	long.problem(long.post("k", "/", "{}"), stethttp.ResultNotRetained)
}
