package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
)

// framings is an upstream that keeps how each request was framed, and answers 411 to what has no
// length.
type framings struct {
	mu      sync.Mutex
	sent    []string
	always  bool   // 411 to a length as well
	outcome string // Stet-Outcome of a 411
}

func (f *framings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, fmt.Sprint(r.Method, " ", r.Header["Content-Length"], r.TransferEncoding))
	if r.ContentLength < 0 || f.always {
		if f.outcome != "" {
			w.Header().Set("Stet-Outcome", f.outcome)
		}
		w.WriteHeader(http.StatusLengthRequired)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

func (f *framings) want(t *testing.T, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := strings.Join(f.sent, ", "); got != strings.Join(want, ", ") {
		t.Errorf("it got %s, want %s", got, strings.Join(want, ", "))
	}
	f.sent = nil
}

// plainly are the two ways of a request to the upstream: that of the gateway, and that of net/http.
var plainly = map[string]header{"plain": {}, "net/http": {"te": "trailers"}}

func keyed(k string, h header) header {
	h = maps.Clone(h)
	h["idempotency-key"] = `"` + k + `"`
	return h
}

// An upstream that asks for a length gets the request once more, with one, and from then on each
// one that has no body.
func TestAnUpstreamThatAsksForALength(t *testing.T) { // R01
	const chunked, empty = " [] [chunked]", " [0] []"
	for name, h := range plainly {
		t.Run(name, func(t *testing.T) {
			f := &framings{}
			r := newRig(t, upstream(t, f.ServeHTTP), nil)
			r.status(r.do("POST", "/", "", keyed("k1", h)), 201)
			f.want(t, "POST"+chunked, "POST"+empty)
			r.state("k1", stet.Completed, "")
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
				r.status(r.do(method, "/", "", keyed(method, h)), 201)
				f.want(t, method+empty)
			}
			if n := strings.Count(r.log.String(), "empty_body: length"); n != 1 {
				t.Errorf("it was said %d times:\n%s", n, r.log)
			}
		})
	}
}

// One that refuses a length as well is not believed, and one that states an outcome has looked at
// the request: neither gets it again.
func TestA411ThatIsAnAnswer(t *testing.T) { // R01
	for name, h := range plainly {
		for outcome, state := range map[string]stet.State{"": stet.Completed, "unknown": stet.Unknown, "completed": stet.Completed} {
			t.Run(name+" "+outcome, func(t *testing.T) {
				f := &framings{always: true, outcome: outcome}
				r := newRig(t, upstream(t, f.ServeHTTP), nil)
				for i := range 2 {
					key := fmt.Sprint("k", i)
					r.status(r.do("POST", "/", "", keyed(key, h)), 411)
					if rec := r.get(key); rec.State != state {
						t.Errorf("%+v", rec)
					}
					if outcome == "" {
						f.want(t, "POST [] [chunked]", "POST [0] []")
					} else {
						f.want(t, "POST [] [chunked]")
					}
				}
			})
		}
	}
}

// Where the upstream is gone when it has asked for a length, nothing has happened.
func TestASecondTryThatCannotBeMade(t *testing.T) { // R01
	for name, h := range plainly {
		t.Run(name, func(t *testing.T) {
			l := must(net.Listen("tcp", "127.0.0.1:0"))
			addr := serveTCP(t, l, func(c net.Conn, in *bufio.Reader) {
				if readRequest(in) != nil {
					l.Close()
					_, _ = io.WriteString(c, "HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				}
			})
			r := newRig(t, "http://"+addr, nil)
			r.problem(r.do("POST", "/", "", keyed("k", h)), "upstream-unreachable")
			r.state("k", stet.Retryable, "upstream-unreachable")
		})
	}
}

// What is sent with a length has evidence of its own, and is not sent a third time.
func TestASecondTryThatBreaks(t *testing.T) { // R01
	for name, h := range plainly {
		t.Run(name, func(t *testing.T) {
			f := &framings{}
			r := newRig(t, upstream(t, func(w http.ResponseWriter, r *http.Request) {
				if f.ServeHTTP(w, r); r.ContentLength == 0 {
					panic(http.ErrAbortHandler)
				}
			}), nil)
			r.status(r.do("POST", "/", "", keyed("k", h)), 502)
			f.want(t, "POST [] [chunked]", "POST [0] []")
			r.state("k", stet.Unknown, "upstream-failed")
		})
	}
}

func TestEmptyLength(t *testing.T) { // R01
	for name, h := range plainly {
		t.Run(name, func(t *testing.T) {
			f := &framings{}
			r := newRig(t, upstream(t, f.ServeHTTP), func(c *gateway.Config) { c.EmptyBody = gateway.EmptyLength })
			for _, method := range []string{"POST", "DELETE"} {
				r.status(r.do(method, "/", "", keyed(method, h)), 201)
				f.want(t, method+" [0] []")
			}
			r.status(r.do("POST", "/", "{}", keyed("k", h)), 201)
			f.want(t, "POST [2] []")
		})
	}
}
