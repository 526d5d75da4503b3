package gateway_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/stethttp"
)

// overH2C serves the rig's gateway over HTTP/2 as well, and returns a client of it and its URL.
func (r *rig) overH2C() (*http.Transport, string) {
	r.Helper()
	srv := httptest.NewUnstartedServer(r.gw)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	r.Cleanup(srv.Close)
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	r.Cleanup(tr.CloseIdleConnections)
	return tr, srv.URL
}

// answers is an upstream that gives the same bytes for an answer to every request.
func answers(t testing.TB, text string) string {
	return tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		for readRequest(in) != nil {
			_, _ = io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n"))
		}
	})
}

// C06: net/http guesses a type for what has none, and a browser that was told not to guess believes
// it.
func TestUntypedAnswersStayUntyped(t *testing.T) {
	const page = "HTTP/1.1 200 OK\nX-Content-Type-Options: nosniff\nContent-Length: 13\n\n<html></html>"
	large := strings.Repeat("x", 20_000)
	for name, text := range map[string]string{"plain": page, "interim": "HTTP/1.1 103 Early Hints\nContent-Type: text/canary\n\n" + page,
		"chunked": "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nd\n<html></html>\n0\n\n"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, answers(t, text), nil)
			check := func(a answer) {
				t.Helper()
				if r.status(a, 200); a.Header["Content-Type"] != nil || a.body != "<html></html>" {
					t.Errorf("%s: %q %v", a.Proto, a.body, a.Header)
				}
			}
			h2, url := r.overH2C()
			for _, client := range []func(){func() {}, func() { r.client.Transport, r.url = h2, url }} {
				client()
				for _, body := range []string{"{}", large} {
					key := fmt.Sprint(r.url, len(body))
					check(r.post(key, "/", body))
					check(r.post(key, "/", body)) // the replay
					check(r.do("PUT", "/", body, nil))
					rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(key)})
					if err != nil || slices.ContainsFunc(rec.Response.Header, func(f stet.Field) bool { return f.Name == "Content-Type" }) {
						t.Errorf("stored: %v, %v", rec.Response, err)
					}
				}
				check(r.do("GET", "/", "", nil))
			}
		})
	}
}

// C06: the same where the upstream speaks HTTP/2; and the gateway's own answers still have a type.
func TestUntypedAnswersStayUntyped_HTTP2(t *testing.T) {
	r, _ := overTLS(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/lost" {
			panic(http.ErrAbortHandler)
		}
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html></html>")
	}, nil)
	for _, a := range []answer{r.post("k", "/", "{}"), r.post("k", "/", "{}"), r.do("GET", "/", "", nil)} {
		if r.status(a, 200); a.Header["Content-Type"] != nil {
			t.Errorf("%v", a.Header)
		}
	}
	r.problem(r.post("k2", "/lost", "{}"), stethttp.UpstreamFailed)
}

// overTLS is a rig whose upstream speaks HTTP/2.
func overTLS(t testing.TB, h http.HandlerFunc, adjust func(*gateway.Config)) (*rig, *httptest.Server) {
	t.Helper()
	checkLeaks(t)
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return newRig(t, srv.URL, func(c *gateway.Config) {
		c.UpstreamTLS = srv.Client().Transport.(*http.Transport).TLSClientConfig
		if adjust != nil {
			adjust(c)
		}
	}), srv
}

// An upstream that speaks HTTP/2 without TLS is reached by h2c://, with its trailers; where HTTP/1
// was meant, nothing has happened, and the log says what to write.
func TestUpstreamOfHTTP2WithoutTLS(t *testing.T) { // R04
	checkLeaks(t)
	var n atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		w.Header()["Trailer"] = []string{"Grpc-Status"}
		w.Header()["Content-Type"] = []string{"application/grpc"}
		_, _ = fmt.Fprintf(w, "%d %s %d %v", n.Add(1), req.Proto, len(b), err)
		w.Header()["Grpc-Status"] = []string{"0"}
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	host := strings.TrimPrefix(srv.URL, "http://")
	eager := tcpUpstream(t, func(c net.Conn, in *bufio.Reader) { // most servers of HTTP/2 say their settings first
		(&frames{c}).write(frameSettings, 0, 0)
		_, _ = io.Copy(io.Discard, in)
	})
	for i, body := range []string{"", "{}", strings.Repeat("x", 20_000)} {
		r := newRig(t, "h2c://"+host, nil)
		r.client.Transport, r.url = r.overH2C()
		key, want := fmt.Sprint("k", i), fmt.Sprintf("%d HTTP/2.0 %d <nil>", i+1, len(body))
		for range 2 {
			if a := r.status(r.post(key, "/", body), 200); a.body != want || a.Trailer.Get("Grpc-Status") != "0" {
				t.Errorf("%q %v, want %q", a.body, a.Trailer, want)
			}
		}
		r.state(key, stet.Completed, "")

		r = newRig(t, eager, nil)
		r.problem(r.post(key, "/", body), "upstream-unreachable")
		r.state(key, stet.Retryable, "upstream-unreachable")
		if !strings.Contains(r.log.String(), "h2c://") {
			t.Errorf("the log does not say what to write: %s", r.log)
		}
	}
}

// A client of gRPC hears the gateway's own answers as a status of gRPC, over HTTP/2 without messages.
func TestGRPCClientsHearTheGateway(t *testing.T) { // R04
	closed := must(net.Listen("tcp", "127.0.0.1:0"))
	closed.Close()
	r := newRig(t, "h2c://"+closed.Addr().String(), nil)
	r.client.Transport, r.url = r.overH2C()
	for key, want := range map[string]string{"": "3", "k": "14"} {
		h := header{"Content-Type": "application/grpc"}
		if key != "" {
			h["Idempotency-Key"] = key
		}
		a := r.status(r.do("POST", "/pay.Payments/Charge", "\x00\x00\x00\x00\x00", h), 200)
		if a.Header.Get("Grpc-Status") != want || a.Header.Get("Content-Type") != "application/grpc" || a.body != "" || a.Header.Get("Stet-Outcome") != "not-executed" {
			t.Errorf("key %q: %v %q", key, a.Header, a.body)
		}
	}
	r.state("k", stet.Retryable, "upstream-unreachable")
}

// C07: what an upstream sends is not in the log, and what goes the short way is not in the standard
// logger's either.
func TestLogsHoldNoContent(t *testing.T) {
	var std logBuffer
	defer log.SetOutput(log.Writer())
	log.SetOutput(&std)
	texts := map[string]string{
		"surplus":       "HTTP/1.1 200 OK\nContent-Length: 2\n\nokHTTP/1.1 299 canary\nX: canary\n\n",
		"trailer":       "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n0\ncanary\n\n",
		"header":        "HTTP/1.1 200 OK\ncanary\n\n",
		"first header":  "HTTP/1.1 200 OK\n canary\n\n",
		"lengths":       "HTTP/1.1 200 OK\nContent-Length: canary\nContent-Length: 2\n\nok",
		"coding":        "HTTP/1.1 200 OK\nTransfer-Encoding: canary\n\nok",
		"trailer names": "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: Content-Length, canary\n\n2\nok\n0\n\n",
		"downstream":    "HTTP/1.1 200 OK\nStet-Downstream-Id: a canary\nContent-Length: 2\n\nok",
	}
	rigs := map[string]*rig{}
	for name, text := range texts {
		r := newRig(t, answers(t, text), nil)
		for i := range 3 {
			r.post(fmt.Sprint("k", i), "/", "{}")
		}
		if s := std.String(); s != "" {
			t.Errorf("%s: the standard logger got %q", name, s)
		}
		rigs[name] = r
	}
	for name, r := range rigs { // by the Transport, which tells the standard logger, some time after the answer
		r.post("large", "/", strings.Repeat("x", 20_000))
		r.do("PUT", "/", "{}", nil)
		r.do("GET", "/", "", nil)
		if s := r.log.String(); strings.Contains(s, "canary") {
			t.Errorf("%s: the log quotes the answer: %s", name, s)
		}
	}
}

// C16: a connection is closed before the upstream closes it, where that says when it will.
func TestKeepAliveIsHeeded(t *testing.T) {
	for name, body := range map[string]string{"short way": "{}", "transport": strings.Repeat("x", 20_000)} {
		for _, said := range []string{"", "timeout=1", "max=5, Timeout=1"} {
			t.Run(name+" "+said, func(t *testing.T) {
				kept := make(chan time.Duration, 10)
				r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
					if readRequest(in) == nil {
						return
					}
					began := time.Now()
					fmt.Fprintf(c, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\nKeep-Alive: %s\r\n\r\nok", said)
					_, err := in.ReadByte()
					if err == io.EOF {
						kept <- time.Since(began)
					} else {
						t.Error("a second request came, or nobody closed the connection:", err)
					}
				}), func(c *gateway.Config) {
					if said == "" {
						c.UpstreamIdleTimeout = 500 * time.Millisecond
					}
				})
				r.status(r.post("k", "/", body), 201)
				select {
				case d := <-kept:
					tier.Took(t, "the end of an idle connection", d, time.Second)
				case <-time.After(patience):
					t.Error("kept for ever")
				}
			})
		}
	}
}

// C16: an upstream that ends an idle connection reads nothing more from it, some time before the
// other side hears of that. A request that is sent in between would be unknown for good.
func TestNoRequestMeetsAnEndingConnection(t *testing.T) {
	for name, body := range map[string]string{"short way": "{}", "transport": strings.Repeat("x", 20_000)} {
		for _, said := range []string{"Keep-Alive: timeout=4\r\n", ""} {
			t.Run(name+" "+said, func(t *testing.T) {
				t.Parallel()
				ends := make(chan struct{}, 2)
				r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
					readRequest(in)
					fmt.Fprintf(c, "HTTP/1.1 201 Created\r\n%sContent-Length: 2\r\n\r\nok", said)
					_ = c.SetReadDeadline(time.Now().Add(4 * time.Second))
					_, err := in.ReadByte()
					ends <- struct{}{}
					if err != io.EOF {
						<-time.After(200 * time.Millisecond)
					}
				}), func(c *gateway.Config) {
					if said == "" { // then the log has to say so
						c.UpstreamIdleTimeout = 2 * time.Second
					}
				})
				r.status(r.post("k1", "/", body), 201)
				<-ends
				r.status(r.post("k2", "/", body), 201)
			})
		}
	}
}

// C14: a request that passes by ends too, where the upstream does not answer it.
func TestUpstreamTimeout(t *testing.T) {
	left := make(chan error, 10)
	hangs := func(c net.Conn, in *bufio.Reader) {
		if readRequest(in) != nil {
			_, err := in.ReadByte()
			left <- err
		}
	}
	r := newRig(t, tcpUpstream(t, hangs), func(c *gateway.Config) { c.UpstreamTimeout = time.Second })
	for _, method := range []string{"GET", "PUT"} {
		p := r.problem(r.do(method, "/", "", nil), stethttp.ExecutionTimeout)
		if p.Status != 504 || p.KeyAction != "" || p.Retryable != (method == "GET") || strings.Contains(p.Detail, "key") {
			t.Errorf("%s: %+v", method, p)
		}
		if err := <-left; err != io.EOF {
			t.Errorf("the gateway did not hang up: %v", err)
		}
	}
	if !strings.Contains(r.log.String(), "no answer from the upstream") {
		t.Error("nothing is logged:", r.log)
	}
}

// C14: nor does one that takes nothing of a body hold it for ever.
func TestUpstreamTimeoutWhileItIsSent(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) { <-release }), func(c *gateway.Config) { c.UpstreamTimeout = time.Second })
	defer close(release)
	p := r.problem(r.do("PUT", "/", strings.Repeat("x", 32<<20), nil), stethttp.ExecutionTimeout)
	if p.Retryable || p.KeyAction != "" {
		t.Errorf("%+v", p)
	}
}

// C15: what is only watched has the limit, and the answer, of what passes by.
func TestUpstreamTimeoutInShadowMode(t *testing.T) {
	r := newRig(t, tcpUpstream(t, func(_ net.Conn, in *bufio.Reader) {
		readRequest(in)
		_, _ = in.ReadByte()
	}), func(c *gateway.Config) { c.UpstreamTimeout, c.Default.Mode = time.Second, stethttp.ModeShadow })
	if p := r.problem(r.post("k", "/", "{}"), stethttp.ExecutionTimeout); p.KeyAction != "" || p.Retryable {
		t.Errorf("%+v", p)
	}
}

// A guarded request has its execution timeout alone, and an answer that has begun may last.
func TestUpstreamTimeoutEndsNothingElse(t *testing.T) {
	const limit = 3 * time.Second
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		pause := time.NewTicker(3 * limit)
		defer pause.Stop()
		if req.Method == "GET" {
			w.Header().Set("Content-Type", req.URL.Query().Get("type"))
			_ = http.NewResponseController(w).Flush()
		}
		<-pause.C
		_, _ = io.WriteString(w, "late")
	}), func(c *gateway.Config) { c.UpstreamTimeout = limit })
	answers := make(chan answer, 4)
	for _, ask := range []func() answer{
		func() answer { return r.post("k", "/", "{}") },
		func() answer { return r.post("l", "/", strings.Repeat("x", 20_000)) },
		func() answer { return r.do("GET", "/?type=text/event-stream", "", nil) },
		func() answer { return r.do("GET", "/?type=text/plain", "", nil) },
	} {
		go func() { answers <- ask() }()
	}
	for range 4 {
		a := <-answers
		if r.status(a, 200); a.err != nil || a.body != "late" {
			t.Errorf("%q, %v", a.body, a.err)
		}
	}
}

// C14: streams that pass by do not hold the end up.
func TestStreamsDoNotHoldTheDrain(t *testing.T) {
	const limit = 3 * time.Second
	left := make(chan error, 1)
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		readRequest(in)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
		_, err := in.ReadByte()
		left <- err
	}), func(c *gateway.Config) { c.UpstreamTimeout = limit })
	s := run(t, gateway.ServerConfig{Handler: r.gw})
	k := connect(t, s.Addr())
	k.send("GET / HTTP/1.1\nHost: x\n\n")
	res := must(http.ReadResponse(k.in, nil))
	if _, err := io.ReadFull(res.Body, make([]byte, len("data: 1\n\n"))); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.stop()
	s.wait() // without an error, and long before the end of DrainTimeout
	if d := time.Since(began); d < limit {
		t.Errorf("it was cut off after %s", d)
	}
	if err := <-left; err != io.EOF {
		t.Errorf("the gateway did not hang up: %v", err)
	}
}

// C14: the guard has the body whole, so its length is known.
func TestLengthsStayKnown(t *testing.T) {
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		fmt.Fprintf(w, "%d %d %v %v %s", req.ContentLength, len(b), req.TransferEncoding, err, req.Trailer.Get("X-Sum"))
	}), nil)
	h2, h2url := r.overH2C()
	for _, n := range []int{0, 5, 20_000} {
		want := fmt.Sprintf("%d %d [] <nil> ", n, n)
		if n == 0 { // of what is empty, no proxy in between is to know that (R01)
			want = "-1 0 [chunked] <nil> "
		}
		for _, c := range []struct {
			client http.RoundTripper
			url    string
		}{{r.client.Transport, r.url}, {h2, h2url}} {
			req := must(http.NewRequest("POST", c.url, io.MultiReader(strings.NewReader(strings.Repeat("x", n)))))
			req.Header.Set("Idempotency-Key", fmt.Sprint(c.url, n))
			res := must(c.client.RoundTrip(req))
			if b, _ := io.ReadAll(res.Body); string(b) != want || req.ContentLength != 0 {
				t.Errorf("%s: %q, want %q", res.Proto, b, want)
			}
			res.Body.Close()
		}
	}
	_, in := r.raw("POST / HTTP/1.1\nHost: x\nIdempotency-Key: k\nTrailer: X-Sum\nTransfer-Encoding: chunked\n\n2\nhi\n0\nX-Sum: 7\n\n")
	res := must(http.ReadResponse(in, nil))
	if b, _ := io.ReadAll(res.Body); string(b) != "-1 2 [chunked] <nil> 7" {
		t.Errorf("with a trailer: %q", b)
	}
}

// C12: a statement may come after the body, and goes no further, whether or not anybody reads it.
func TestOutcomesInTrailers(t *testing.T) {
	large := strings.Repeat("x", 20_000)
	for _, announced := range []bool{true, false} {
		for _, said := range []string{"not-executed", "unknown", "completed"} {
			text := "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n"
			if announced {
				text += "Trailer: X-Sum, Stet-Outcome\n"
			}
			text += "\n2\nok\n0\nX-Sum: 7\nStet-Outcome: " + said + "\nStet-Downstream-Id: ch_1\n\n"
			r := newRig(t, answers(t, text), nil)
			check := func(a answer) {
				t.Helper()
				r.status(a, 200)
				if a.body != "ok" || a.Trailer.Get("X-Sum") != "7" || len(a.Trailer) != 1 || a.Header.Get("Trailer") != "" {
					t.Errorf("%s, announced=%t: %v %v", said, announced, a.Header, a.Trailer)
				}
			}
			for i, body := range []string{"{}", large} {
				key := fmt.Sprint("k", i)
				check(r.post(key, "/", body))
				switch said {
				case "not-executed":
					r.state(key, stet.Retryable, "stated")
				case "unknown":
					r.state(key, stet.Unknown, "stated")
				default:
					r.state(key, stet.Completed, "")
				}
			}
			check(r.do("PUT", "/", "", nil))
			check(r.do("GET", "/", "", nil))
		}
	}
}

// An upstream says by what name a provider knows the effect: it is stored even where the rest of
// the answer is lost, and is for no other request.
func TestDownstreamNames(t *testing.T) {
	const names = "Stet-Downstream-Key: sub-1\nStet-Downstream-Id: ch_1\n"
	for name, row := range map[string]struct{ answer, key, id string }{
		"both":     {names + "Content-Length: 2\n\nok", "sub-1", "ch_1"},
		"lost":     {names + "Content-Length: 3\n\nok", "sub-1", "ch_1"},
		"one":      {"Stet-Downstream-Id: ch_1\nContent-Length: 2\n\nok", "", "ch_1"},
		"twice":    {names + "Stet-Downstream-Id: ch_2\nContent-Length: 2\n\nok", "sub-1", ""},
		"empty":    {"Stet-Downstream-Key: sub-1\nStet-Downstream-Id:\nContent-Length: 2\n\nok", "sub-1", ""},
		"spaces":   {"Stet-Downstream-Id: a b\nContent-Length: 2\n\nok", "", ""},
		"no ASCII": {"Stet-Downstream-Id: \xc3\xa9\nContent-Length: 2\n\nok", "", ""},
		"long":     {"Stet-Downstream-Id: " + strings.Repeat("x", 256) + "\nContent-Length: 2\n\nok", "", ""},
		"longest":  {"Stet-Downstream-Id: " + strings.Repeat("x", 255) + "\nContent-Length: 2\n\nok", "", strings.Repeat("x", 255)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
				if readRequest(in) != nil {
					_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\n"+strings.ReplaceAll(row.answer, "\n", "\r\n"))
				}
			}), nil)
			silent := func(a answer) {
				t.Helper()
				if a.Response == nil { // an unkeyed answer that broke off
					return
				}
				for h := range a.Header {
					if strings.HasPrefix(h, "Stet-Down") {
						t.Errorf("the client got %v", a.Header)
					}
				}
			}
			silent(r.post("k", "/", "{}"))
			silent(r.do("PUT", "/", "{}", nil))
			rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
			if err != nil || rec.DownstreamKey != row.key || rec.DownstreamID != row.id {
				t.Fatalf("%q %q, %v", rec.DownstreamKey, rec.DownstreamID, err)
			}
			if rec.Response != nil && bytes.Contains(fmt.Append(nil, rec.Response.Header), []byte("Downstream")) {
				t.Errorf("stored: %v", rec.Response.Header)
			}
			for _, n := range []string{row.key, row.id} {
				if n == "" {
					continue
				}
				if found, err := r.store.Find(t.Context(), "", n); err != nil || len(found) != 1 || found[0].ID != rec.ID {
					t.Errorf("%q finds %v, %v", n, found, err)
				}
			}
		})
	}
}

// RFC 9110 section 9.2.2: what is guarded reaches the upstream once whatever its method is, and
// however the upstream ends the connection it came on; what is safe and unguarded may be repeated.
func TestGuardedGetReachesTheUpstreamOnce(t *testing.T) {
	for name, end := range map[string]func(c *net.TCPConn){
		"closed": func(*net.TCPConn) {},
		"reset":  func(c *net.TCPConn) { _ = c.SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			var effects atomic.Int64
			server, trust := certificate(t) // http.Transport carries it: the short way is for plain connections
			addr := serveTCP(t, must(tls.Listen("tcp", "127.0.0.1:0", server)), func(c net.Conn, in *bufio.Reader) {
				for req := readRequest(in); req != nil; req = readRequest(in) {
					if req.URL.Path == "/effect" {
						effects.Add(1)
						end(c.(*tls.Conn).NetConn().(*net.TCPConn))
						return
					}
					_, _ = io.WriteString(c, created)
				}
			})
			r := newRig(t, "https://"+addr, func(c *gateway.Config) {
				c.UpstreamTLS, c.Default.EnabledMethods = trust, []string{"GET"}
			})
			for i := range 3 {
				r.status(r.do("GET", "/", "", nil), 201) // on a connection that stays
				r.problem(r.do("GET", "/effect", "", header{"Idempotency-Key": fmt.Sprint("k", i)}), stethttp.UpstreamFailed)
				if effects.Load() != int64(i)+1 {
					t.Fatalf("%d effects of %d requests", effects.Load(), i+1)
				}
			}
		})
	}
}

// C20: a gRPC service behind the gateway, from a client of HTTP/2 to a server of HTTP/2: its
// statuses decide, and what is replayed is what came first, trailers included.
func TestGRPCBehindTheGateway(t *testing.T) {
	var runs atomic.Int64
	const message = "\x00\x00\x00\x00\x02hi"
	r, _ := overTLS(t, func(w http.ResponseWriter, req *http.Request) {
		runs.Add(1)
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/grpc")
		code, only := strings.CutSuffix(strings.TrimPrefix(req.URL.Path, "/"), "/only")
		if only { // in the header of an answer without messages
			w.Header().Set("Grpc-Status", code)
			return
		}
		_, _ = io.WriteString(w, message)
		_ = http.NewResponseController(w).Flush()
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", code)
		w.Header()[http.TrailerPrefix+"X-Detail"] = []string{"b  c", "a"}
	}, nil)
	h2, url := r.overH2C()
	for _, row := range []struct {
		path string
		want stet.State
	}{{"/0", stet.Completed}, {"/5", stet.Completed}, {"/5/only", stet.Completed}, {"/8", stet.Retryable}, {"/8/only", stet.Retryable}, {"/13", stet.Unknown}} {
		runs.Store(0)
		var got [2]string
		for i := range got {
			req := must(http.NewRequest("POST", url+row.path, strings.NewReader(message)))
			req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Idempotency-Key": {row.path}}
			res := must(h2.RoundTrip(req))
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			got[i] = fmt.Sprintf("%d %q %q %q %v", res.StatusCode, b, res.Header["Grpc-Status"], res.Trailer, err)
		}
		r.state(row.path, row.want, map[bool]string{true: "status"}[row.want != stet.Completed])
		code := strings.Split(row.path, "/")[1]
		if !strings.Contains(got[0], `["`+code+`"]`) || strings.Contains(row.path, "only") == strings.Contains(got[0], "b  c") {
			t.Errorf("%s", got[0])
		}
		switch n := runs.Load(); {
		case row.want == stet.Unknown:
			if n != 1 || !strings.HasPrefix(got[1], `200 "" ["10"]`) {
				t.Errorf("%d runs, %s", n, got[1])
			}
		case got[0] != got[1], (n == 2) != (row.want == stet.Retryable):
			t.Errorf("%d runs:\n%s\n%s", n, got[0], got[1])
		}
	}
}
