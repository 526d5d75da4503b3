package gateway_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
)

// Short guarded requests share connections, whatever the answers look like, as long as a connection
// can serve another.
func TestConnectionsAreReused(t *testing.T) {
	const chunked = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n"
	for name, row := range map[string]struct {
		answer string
		reused bool
	}{
		"length":     {created, true},
		"chunked":    {chunked + "\r\n2\r\nok\r\n0\r\n\r\n", true},
		"trailer":    {chunked + "Trailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n", true},
		"interim":    {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + created, true},
		"no body":    {"HTTP/1.1 204 No Content\r\n\r\n", true},
		"1.0 kept":   {strings.Replace(created, "1.1 201 Created", "1.0 201 Created\r\nConnection: keep-alive", 1), true},
		"close":      {strings.Replace(created, "Created", "Created\r\nConnection: close", 1), false},
		"1.0":        {strings.Replace(created, "1.1", "1.0", 1), false},
		"to the end": {"HTTP/1.1 201 Created\r\n\r\nok", false},
		"surplus":    {created + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", false},
	} {
		t.Run(name, func(t *testing.T) {
			var conns, requests atomic.Int64
			r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
				conns.Add(1)
				for readRequest(in) != nil {
					requests.Add(1)
					_, _ = io.WriteString(c, row.answer)
					if !row.reused && !strings.Contains(row.answer, "Length") {
						return // where the answer ends
					}
				}
			}), nil)
			const n = 5
			for i := range n {
				a := r.post(fmt.Sprint("k", i), "/", strings.Repeat("x", i*100))
				if a.err != nil || a.StatusCode/100 != 2 || a.body != "ok" && a.StatusCode != 204 {
					t.Fatalf("%+v", a)
				}
			}
			want := int64(1)
			if !row.reused {
				want = n
			}
			if conns.Load() != want || requests.Load() != n {
				t.Fatalf("%d connections for %d requests, want %d", conns.Load(), requests.Load(), want)
			}
		})
	}
}

// An upstream that fails ends the connection when the next request has come on it, and has not said
// so: no other caller's request may be that one.
func TestNothingFollowsAFailure(t *testing.T) { // R05
	for name, answer := range map[string]string{
		"length":  "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno",
		"empty":   "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
		"chunked": "HTTP/1.1 500 Internal Server Error\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
				for q := readRequest(in); q != nil; q = readRequest(in) {
					if q.URL.Path == "/fails" {
						_, _ = io.WriteString(c, answer)
						_ = readRequest(in)
						return
					}
					_, _ = io.WriteString(c, created)
				}
			}), nil)
			for i, method := range []string{"POST", "GET", "PUT"} {
				if a := r.do(method, "/fails", "", header{"idempotency-key": fmt.Sprintf(`"f%d"`, i)}); a.StatusCode < 500 {
					t.Fatalf("%+v", a)
				}
				r.status(r.post(fmt.Sprint("k", i), "/", `{"a":1}`), 201)
			}
		})
	}
}

// An API that refuses a large request answers before it has read the body, and closes: that the
// rest could not be sent takes nothing from its answer.
func TestAnAnswerBeforeTheBody(t *testing.T) { // Q13
	const refused = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig"
	refuse := func(c net.Conn, in *bufio.Reader) {
		if line, _ := in.ReadString('\n'); line != "" {
			_, _ = io.WriteString(c, refused) // and what has not been read makes the end of it a reset
		}
	}
	server, trust := certificate(t)
	secure := must(tls.Listen("tcp", "127.0.0.1:0", server))
	for scheme, upstream := range map[string]string{"http": tcpUpstream(t, refuse), "https": "https://" + serveTCP(t, secure, refuse)} {
		t.Run(scheme, func(t *testing.T) {
			r := newRig(t, upstream, func(c *gateway.Config) { c.UpstreamTLS = trust })
			body := strings.Repeat("x", 1<<20)
			for i := range 20 {
				r.status(r.post(fmt.Sprint("k", i), "/", body), 413)
				if a := r.post(fmt.Sprint("k", i), "/", body); a.Header.Get("Idempotent-Replayed") != "true" || string(a.body) != "big" {
					t.Errorf("%d, %q", a.StatusCode, a.body)
				}
			}
		})
	}
}

// A connection that the upstream has closed in the meantime is not used: whether the request ran
// could not be known.
func TestClosedConnectionsAreNotUsed(t *testing.T) {
	closed := make(chan struct{})
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		if readRequest(in) != nil {
			_, _ = io.WriteString(c, created)
			c.Close()
			closed <- struct{}{}
		}
	}), nil)
	for i := range 50 {
		r.status(r.post(fmt.Sprint("k", i), "/", `{"a":1}`), 201)
		<-closed
	}
}

// Nor is one on which the upstream has said something unasked: it would be taken for the answer.
func TestAnswersToNothingAreNotTaken(t *testing.T) {
	said := make(chan struct{})
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		for readRequest(in) != nil {
			_, _ = io.WriteString(c, created)
			_, _ = io.WriteString(c, "HTTP/1.1 299 Evil\r\nContent-Length: 0\r\n\r\n")
			said <- struct{}{}
		}
	}), nil)
	for i := range 20 {
		done := make(chan answer)
		go func() { done <- r.post(fmt.Sprint("k", i), "/", `{"a":1}`) }()
		<-said
		r.status(<-done, 201)
	}
}

// An answer's header has a limit.
func TestEndlessHeader(t *testing.T) {
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		readRequest(in)
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		for line := "X-More: " + strings.Repeat("x", 60_000) + "\r\n"; err == nil; {
			_, err = io.WriteString(c, line)
		}
	}), nil)
	r.problem(r.post("k", "/", "{}"), "upstream-failed")
	r.state("k", stet.Unknown, "upstream-failed")
}

// Bodies of every size arrive whole, by whichever way they go.
func TestBodiesArriveWhole(t *testing.T) {
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		fmt.Fprintf(w, "%d %d %v %v", req.ContentLength, len(b), req.TransferEncoding, err)
	}), nil)
	if a := r.status(r.post("empty", "/", ""), 200); a.body != "-1 0 [chunked] <nil>" { // R01
		t.Errorf("no body: %s", a.body)
	}
	for _, n := range []int{1, 4095, 4096, 16 << 10, 16<<10 + 1, 1 << 20} {
		if a := r.status(r.post(fmt.Sprint("k", n), "/", strings.Repeat("x", n)), 200); a.body != fmt.Sprintf("%d %d [] <nil>", n, n) {
			t.Errorf("%d bytes: %s", n, a.body)
		}
	}
}

// RFC 9110 section 9.2.2: a request that changes nothing, and passes by, is sent again if the
// upstream ends the connection of an earlier request instead of answering. No other is.
func TestSafeRequestsAreSentAgain(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			var got sync.Map
			serve := func(c net.Conn, in *bufio.Reader) {
				for first := true; ; first = false {
					req := readRequest(in)
					if req == nil {
						return
					}
					n, _ := got.LoadOrStore(req.URL.Path, new(atomic.Int64))
					if n.(*atomic.Int64).Add(1); !first && req.URL.Path != "/warm" {
						return
					}
					_, _ = io.WriteString(c, created)
				}
			}
			server, trust := certificate(t)
			l := must(net.Listen("tcp", "127.0.0.1:0"))
			if scheme == "https" {
				l = tls.NewListener(l, server)
			}
			r := newRig(t, scheme+"://"+serveTCP(t, l, serve), func(c *gateway.Config) {
				c.Default.RequiredMethods, c.UpstreamTLS = []string{}, trust
			})
			times := func(path string) int64 {
				n, _ := got.Load(path)
				return n.(*atomic.Int64).Load()
			}
			for i, c := range []struct {
				method, body string
				h            header
				status       int
				times        int64
			}{
				{"GET", "", nil, 201, 2},
				{"POST", "", nil, 502, 1},
				{"PUT", "{}", nil, 502, 1},
				{"GET", "{}", nil, 502, 1},
				{"POST", "{}", header{"Idempotency-Key": "k"}, 502, 1},
			} {
				path := fmt.Sprint("/", i)
				r.status(r.post(fmt.Sprint("warm", i), "/warm", "{}"), 201) // on a connection that stays
				r.status(r.do(c.method, path, c.body, c.h), c.status)
				if n := times(path); n != c.times {
					t.Errorf("%s %q reached the upstream %d times, want %d", c.method, c.body, n, c.times)
				}
			}
		})
	}
}

// The two ways to the upstream share the bound: each has a connection that served others, and that the
// upstream ends instead of answering.
func TestTwoWaysSendTwice(t *testing.T) { // H04
	var got atomic.Int64
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		for {
			req := readRequest(in)
			if req == nil {
				return
			}
			if req.URL.Path == "/" {
				got.Add(1)
				return
			}
			_, _ = io.WriteString(c, created)
		}
	}), nil)
	r.status(r.do("GET", "/warm", "", nil), 201)
	r.status(r.do("GET", "/warm", "", header{"Te": "trailers"}), 201) // by net/http
	r.problem(r.do("GET", "/", "", nil), "upstream-failed")
	if n := got.Load(); n != 2 {
		t.Errorf("it was sent %d times", n)
	}
	if n := strings.Count(r.log.String(), "sent once more"); n != 1 {
		t.Errorf("the log says %d times that it was sent twice:\n%s", n, r.log)
	}
}

// What was sent once may have been acted on, also if there is no connection for a second time.
func TestASecondWayThatIsGone(t *testing.T) { // H04
	server, trust := certificate(t)
	for _, scheme := range []string{"http", "https"} {
		l := must(net.Listen("tcp", "127.0.0.1:0"))
		listener := l
		if scheme == "https" {
			listener = tls.NewListener(l, server)
		}
		addr := serveTCP(t, listener, func(c net.Conn, in *bufio.Reader) {
			for {
				req := readRequest(in)
				if req == nil {
					return
				}
				if req.URL.Path == "/" {
					l.Close()
					return
				}
				_, _ = io.WriteString(c, created)
			}
		})
		r := newRig(t, scheme+"://"+addr, func(c *gateway.Config) { c.UpstreamTLS = trust })
		r.status(r.do("GET", "/warm", "", nil), 201)
		r.problem(r.do("GET", "/", "", nil), "upstream-failed")
	}
}

// What cannot become an answer is refused at once, also on a connection that stays open.
func TestNoAnswerIsWaitedForInVain(t *testing.T) {
	for _, odd := range []string{
		"SSH-2.0-x\r\n", "HTTP/1.1 2000 Odd\r\n", "HTTP/1.1 200 OK\r\nno field\r\n",
		"HTTP/1.1 200 OK\nContent-Length: x\n\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
	} {
		t.Run(odd, func(t *testing.T) {
			done := make(chan struct{})
			r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
				readRequest(in)
				_, _ = io.WriteString(c, odd)
				<-done
			}), nil)
			defer close(done)
			r.problem(r.post("k", "/", "{}"), "upstream-failed")
			r.problem(r.do("GET", "/", "", nil), "upstream-failed")
		})
	}
}

// LF alone ends a line, too (RFC 9112 section 2.2), and an interim answer does not wait for the
// final one.
func TestUnusualHeadsAreNotWaitedFor(t *testing.T) {
	goOn := make(chan struct{})
	const end = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\nok" // with LF alone
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		for q := readRequest(in); q != nil; q = readRequest(in) {
			if q.URL.Path == "/early" {
				_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\nLink: a\n\n")
				<-goOn
			}
			_, _ = io.WriteString(c, end)
		}
	}), nil)
	for i, path := range []string{"/early", "/", "/early", "/"} {
		key := ""
		if i >= 2 {
			key = fmt.Sprintf("Idempotency-Key: k%d\n", i)
		}
		_, in := r.raw("PUT " + path + " HTTP/1.1\nHost: x\n" + key + "Content-Length: 2\n\n{}")
		if path == "/early" {
			if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusEarlyHints {
				t.Fatalf("%v, %v", res, err)
			}
			goOn <- struct{}{}
		}
		if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusCreated {
			t.Fatalf("%v, %v", res, err)
		}
	}
}

// A request that passes by reaches the upstream while its body is still on its way, unless all of
// the body came with its head.
func TestUnfinishedBodiesAreNotWaitedFor(t *testing.T) {
	began := make(chan struct{})
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		began <- struct{}{}
		b, err := io.ReadAll(req.Body)
		fmt.Fprintf(w, "%s %v", b, err)
	}), nil)
	c, in := r.raw("PUT / HTTP/1.1\nHost: x\nContent-Length: 10\n\nhello")
	<-began
	_, _ = io.WriteString(c, "world")
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(res.Body); string(b) != "helloworld <nil>" {
		t.Errorf("%s", b)
	}
}
