package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

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
