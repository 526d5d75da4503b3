package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
)

// TestTargetsThatEndARequestLineAreRefused: HTTP/2 carries spaces in a :path, and an upstream that
// speaks HTTP/1 would read another target than the one that was matched and fingerprinted.
func TestTargetsThatEndARequestLineAreRefused(t *testing.T) { // T9
	r := newRig(t, echo(t), nil)
	s := run(t, gateway.ServerConfig{Handler: r.gw, H2C: true})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	for i, target := range []string{"/a b", "/v1/payments HTTP/1.1", "/x?a b", "/x? HTTP/1.1"} {
		for _, key := range []string{"", fmt.Sprint("k", i)} {
			req := must(http.NewRequest("PUT", "http://"+s.Addr()+"/", nil))
			path, query, _ := strings.Cut(target, "?")
			req.URL = &url.URL{Scheme: "http", Host: s.Addr(), Opaque: path, RawQuery: query}
			if key != "" {
				req.Header.Set("Idempotency-Key", key)
			}
			res, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(b), `"code":"invalid-target"`) {
				t.Errorf("%q with the key %q: %s %.50q", target, key, res.Status, b)
			}
		}
	}
}

// TestNoTunnelOfHTTP: an upstream that takes an offer of h2c would be reached past the gateway from
// then on, and a client that makes the offer without a thought, as Java's does, expects an answer.
// A method that changes something is guarded whatever else it offers.
func TestNoTunnelOfHTTP(t *testing.T) { // SM-04, C01
	r := newRig(t, echo(t), nil)
	for _, offer := range []string{"GET h2c", "POST h2c", "PUT h2c", "POST websocket", "PUT websocket"} {
		method, protocol, _ := strings.Cut(offer, " ")
		id := method + "-" + protocol
		for _, key := range []string{"", "Idempotency-Key: " + id + "\n"} {
			if method == "POST" && key == "" {
				continue
			}
			_, h := r.sent(method + " / HTTP/1.1\nHost: x\n" + key +
				"Connection: Upgrade, HTTP2-Settings\nUpgrade: " + protocol + "\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\nContent-Length: 0\n\n")
			if h["Upgrade"] != nil || h["Connection"] != nil || h["Http2-Settings"] != nil {
				t.Errorf("%s %q reached the upstream with %v", offer, key, h)
			}
		}
		if method != "GET" {
			r.state(id, stet.Completed, "")
		}
	}
}

// TestDrainWaitsForRequestsThatOfferAnything: they are requests like others, unless they are what
// can be upgraded.
func TestDrainWaitsForRequestsThatOfferAnything(t *testing.T) { // W32, C01
	for _, offer := range []string{"GET / HTTP/1.1\nUpgrade: h2c", "POST / HTTP/1.1\nUpgrade: h2c", "POST / HTTP/1.1\nUpgrade: websocket", "DELETE / HTTP/1.1\nUpgrade: tcp"} {
		t.Run(offer, func(t *testing.T) { drainWaits(t, offer) })
	}
}

func drainWaits(t *testing.T, offer string) {
	began, goOn := make(chan struct{}), make(chan struct{})
	s := run(t, gateway.ServerConfig{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, r.Context().Err())
	})})
	k := connect(t, s.Addr())
	k.send(offer + "\nHost: x\nConnection: Upgrade, HTTP2-Settings\nContent-Length: 0\n\n")
	<-began
	s.stop()
	for !s.Draining() {
		select {
		case err := <-s.done:
			t.Fatal("Run ended while a request ran:", err)
		default:
		}
	}
	select {
	case err := <-s.done:
		s.done <- err
		t.Error("Run ended while a request ran:", err)
	default:
	}
	close(goOn)
	if _, b := k.read(); b != "<nil>" {
		t.Error(b)
	}
}

// TestRefusedSwitchesAreClosed: net/http does not.
func TestRefusedSwitchesAreClosed(t *testing.T) {
	for _, asked := range []string{"", "Connection: Upgrade\nUpgrade: websocket\n"} {
		closed := make(chan error, 1)
		r := newRig(t, tcpUpstream(t, func(conn net.Conn, in *bufio.Reader) {
			readRequest(in)
			fmt.Fprint(conn, "HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
			_, err := in.ReadByte()
			closed <- err
		}), nil)
		_, in := r.raw("GET / HTTP/1.1\nHost: x\n" + asked + "\n")
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != http.StatusBadGateway {
			t.Errorf("%v, %v", res, err)
		}
		if err := <-closed; err != io.EOF {
			t.Errorf("asked %q: the connection was left open: %v", asked, err)
		}
	}
}

// TestAnswersThatAreNotClean: whatever an upstream sends, an answer is its request's, and what is
// no whole answer is unknown.
func TestAnswersThatAreNotClean(t *testing.T) { // T9, W14
	const evil = "HTTP/1.1 299 Evil\r\nContent-Length: 4\r\n\r\nevil"
	for name, c := range map[string]struct {
		answer string
		hangUp bool // after the answer
		want   int
		body   string
		state  stet.State
	}{
		"204 with a body":           {"HTTP/1.1 204 No\r\nContent-Length: 4\r\n\r\nevil" + evil, false, 204, "", stet.Completed},
		"304 with a body":           {"HTTP/1.1 304 No\r\nContent-Length: 4\r\n\r\nevil" + evil, false, 304, "", stet.Completed},
		"two at once":               {"HTTP/1.1 201 OK\r\nContent-Length: 2\r\n\r\nok" + evil, false, 201, "ok", stet.Completed},
		"both framings":             {"HTTP/1.1 201 OK\r\nContent-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil, false, 201, "ok", stet.Completed},
		"two lengths":               {"HTTP/1.1 201 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", false, 502, "", stet.Unknown},
		"one length twice":          {"HTTP/1.1 201 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", false, 201, "ok", stet.Completed},
		"a negative length":         {"HTTP/1.1 201 OK\r\nContent-Length: -2\r\n\r\nok", false, 502, "", stet.Unknown},
		"an unknown coding":         {"HTTP/1.1 201 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, 502, "", stet.Unknown},
		"a broken chunk":            {"HTTP/1.1 201 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n", false, 502, "", stet.Unknown},
		"a chunk too short":         {"HTTP/1.1 201 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok", true, 502, "", stet.Unknown},
		"no last chunk":             {"HTTP/1.1 201 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", true, 502, "", stet.Unknown},
		"a body too short":          {"HTTP/1.1 201 OK\r\nContent-Length: 3\r\n\r\nok", true, 502, "", stet.Unknown},
		"half a header":             {"HTTP/1.1 201 OK\r\nContent-Le", true, 502, "", stet.Unknown},
		"nothing":                   {"", true, 502, "", stet.Unknown},
		"interim, then nothing":     {"HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\n", true, 502, "", stet.Unknown},
		"interim, then an answer":   {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Wait\r\n\r\nHTTP/1.1 201 OK\r\nContent-Length: 2\r\n\r\nok", false, 201, "ok", stet.Completed},
		"a switch unasked":          {"HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + evil, false, 502, "", stet.Unknown},
		"a status below 100":        {"HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\nok", false, 502, "", stet.Unknown},
		"status 000":                {"HTTP/1.1 000 Odd\r\nContent-Length: 2\r\n\r\nok", false, 502, "", stet.Unknown},
		"a status over 599":         {"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok", false, 999, "ok", stet.Completed},
		"a status of four digits":   {"HTTP/1.1 1000 Odd\r\nContent-Length: 2\r\n\r\nok", false, 502, "", stet.Unknown},
		"no HTTP":                   {"SSH-2.0-OpenSSH_9.2\r\n", true, 502, "", stet.Unknown},
		"until the end":             {"HTTP/1.1 201 OK\r\n\r\nok", true, 201, "ok", stet.Completed},
		"version 1.0":               {"HTTP/1.0 201 OK\r\nContent-Length: 2\r\n\r\nok" + evil, false, 201, "ok", stet.Completed},
		"the last on a connection":  {"HTTP/1.1 201 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok" + evil, false, 201, "ok", stet.Completed},
		"a header split in its way": {"HTTP/1.1 201 OK\r\nX-A: b\r\n c: d\r\nContent-Length: 2\r\n\r\nok", false, 201, "ok", stet.Completed},
		"a space before the colon":  {"HTTP/1.1 201 OK\r\nContent-Length : 1\r\n\r\nok", true, 201, "ok", stet.Completed},
		"a lone CR":                 {"HTTP/1.1 201 OK\r\nX: a\rContent-Length: 3\r\nContent-Length: 2\r\n\r\nok", false, 502, "", stet.Unknown},
	} {
		for _, large := range []bool{false, true} { // by either way
			t.Run(fmt.Sprintf("%s large=%v", name, large), func(t *testing.T) {
				r := newRig(t, tcpUpstream(t, func(conn net.Conn, in *bufio.Reader) {
					for {
						req := readRequest(in)
						if req == nil {
							return
						}
						if req.URL.Path != "/odd" {
							fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(req.URL.Path), req.URL.Path)
							continue
						}
						if _, _ = io.WriteString(conn, c.answer); c.hangUp {
							return
						}
					}
				}), func(g *gateway.Config) { g.Default.OnPanic = stethttp.PanicRelease }) // a panic would look like proof
				body := `{"a":1}`
				if large {
					body = `"` + strings.Repeat("x", 20_000) + `"`
				}
				a := r.status(r.post("odd", "/odd", body), c.want)
				if c.want != 502 && a.body != c.body {
					t.Errorf("the answer is %q", a.body)
				}
				rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "odd"})
				if err != nil || rec.State != c.state {
					t.Errorf("%v, %v", rec.State, err)
				}
				if large && strings.Contains(c.answer, evil) {
					return // http.Transport may use the connection again before it has seen what else came on it
				}
				for i := range 5 {
					path := fmt.Sprint("/clean", i)
					if a := r.status(r.post(path[1:], path, body), 200); a.body != path {
						t.Fatalf("%s was answered with %q", path, a.body)
					}
				}
				if again := r.post("odd", "/odd", body); c.state == stet.Completed && (again.StatusCode != a.StatusCode || again.body != a.body) {
					t.Errorf("replayed as %d %q", again.StatusCode, again.body)
				}
			})
		}
	}
}

// An interim answer says nothing of the layer's to a client, and nothing of the upstream's
// connection.
func TestInterimAnswersSayNothingOfTheLayers(t *testing.T) { // H09, Q09
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		for q := readRequest(in); q != nil; q = readRequest(in) {
			_, _ = io.Copy(io.Discard, q.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: a\r\nStet-Outcome: unknown\r\nStet.Fence: 7\r\nStet-Downstream-Id: d\r\n"+
				"Connection: x-own\r\nX-Own: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\n\r\n"+
				"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok")
		}
	}), nil)
	for name, request := range map[string]string{
		"guarded, plain": "POST / HTTP/1.1\nIdempotency-Key: k1\nHost: x\nContent-Length: 2\n\n{}", "plain": "PUT / HTTP/1.1\nHost: x\nContent-Length: 2\n\n{}",
		"guarded":   "POST / HTTP/1.1\nIdempotency-Key: k2\nHost: x\nTE: trailers\nConnection: TE\nContent-Length: 2\n\n{}",
		"unguarded": "PUT / HTTP/1.1\nHost: x\nTE: trailers\nConnection: TE\nContent-Length: 2\n\n{}",
	} {
		_, in := r.raw(request)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != http.StatusEarlyHints || len(res.Header) != 1 || res.Header.Get("Link") != "a" {
			t.Errorf("%s: %v, %v", name, res, err)
			continue
		}
		if res, err = http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusCreated {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
}

// A client that waits for 100 (Continue), and hears an upstream's refusal, need not send its body:
// nothing waits for it.
func TestABodyThatTheUpstreamDidNotAskFor(t *testing.T) { // H11
	r := newRig(t, upstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }), nil)
	s := start(t, gateway.ServerConfig{Handler: r.gw})
	for name, request := range map[string]string{
		"refused by the upstream": "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
		"without a key":           "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			_, _ = io.WriteString(c, request)
			if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 40") {
				t.Errorf("%.100q, and then %v", got, err)
			}
		})
	}
}

// A gateway whose upstream leads back to it refuses the request when it has come round a few times.
// Gateways in a row pass it on.
func TestLoopsEnd(t *testing.T) { // H16
	var back atomic.Pointer[gateway.Gateway]
	hops := 0
	behind := upstream(t, func(w http.ResponseWriter, req *http.Request) {
		hops++
		back.Load().ServeHTTP(w, req)
	})
	for _, mode := range []stethttp.Mode{stethttp.ModeByMethod, stethttp.ModeOff} {
		r := newRig(t, behind, func(c *gateway.Config) { c.Default.Mode = mode })
		back.Store(r.gw)
		hops = 0
		p := r.problem(r.do("GET", "/", "", nil), "loop")
		if p.Status != http.StatusLoopDetected || p.Retryable || p.KeyAction != "stop" || hops != 9 {
			t.Errorf("%+v after %d hops", p, hops)
		}
	}
	r := newRig(t, echo(t), nil)
	for via, status := range map[string]int{
		"1.1 stet": 200, "1.1 a, 1.1 stet, 1.1 stet, 1.1 stet, 2.0 stet, 1.1 stet": 200, strings.Repeat("1.1 stetson,", 20): 200, strings.Repeat("1.1 b (stet), ", 20): 200,
		strings.Repeat("1.1 stet,", 8): 200, strings.Repeat("1.1 stet,", 9): 508, strings.Repeat("2.0\t  stet , ", 9): 508,
	} {
		r.status(r.do("GET", "/", "", header{"Via": via}), status)
	}
}
