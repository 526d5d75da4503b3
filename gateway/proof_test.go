package gateway_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
)

// GW-02, W14: what fails before a byte was sent leaves the key free, and the retry runs.
func TestNothingSent(t *testing.T) {
	closed := must(net.Listen("tcp", "127.0.0.1:0"))
	addr := closed.Addr().String()
	closed.Close()
	plain := tcpUpstream(t, func(c net.Conn, in *bufio.Reader) { readRequest(in) })
	server, _ := certificate(t)
	secure := serveTCP(t, must(tls.Listen("tcp", "127.0.0.1:0", server)), func(c net.Conn, in *bufio.Reader) { readRequest(in) })
	for name, target := range map[string]string{
		"dial":                  "http://" + addr,
		"lookup":                "http://name.invalid.:1",
		"TLS, a plain peer":     "https://" + strings.TrimPrefix(plain, "http://"),
		"TLS, no trust":         "https://" + secure,
		"no route to such port": "http://127.0.0.1:0",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, target, nil)
			for _, body := range []string{"", `{"a":1}`} {
				key := fmt.Sprint("k", len(body))
				for attempt := range 2 { // not stored: it is tried again
					p := r.problem(r.post(key, "/", body), "upstream-unreachable")
					if p.Status != 502 || !p.Retryable || p.KeyAction != "reuse" || p.RetryAfter < 1 {
						t.Fatalf("%+v", p)
					}
					r.state(key, stet.Retryable, "upstream-unreachable")
					rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(key)})
					if err != nil || rec.Attempt != attempt+1 {
						t.Fatalf("attempt %d, %v", rec.Attempt, err)
					}
				}
			}
			p := r.problem(r.do("PUT", "/", "x", nil), "upstream-unreachable")
			if p.Status != 502 || !p.Retryable || p.KeyAction != "" {
				t.Fatalf("unkeyed: %+v", p)
			}
		})
	}
}

// GW-02: the retry runs when the upstream is back.
func TestUpstreamComesBack(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	addr := l.Addr().String()
	l.Close()
	r := newRig(t, "http://"+addr, nil)
	r.problem(r.post("k", "/", `{}`), "upstream-unreachable")
	var effects atomic.Int64
	serveTCP(t, must(net.Listen("tcp", addr)), func(c net.Conn, in *bufio.Reader) {
		if readRequest(in) != nil {
			effects.Add(1)
			_, _ = io.WriteString(c, strings.Replace(created, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
		}
	})
	r.status(r.post("k", "/", `{}`), 201)
	if a := r.status(r.post("k", "/", `{}`), 201); a.Header.Get("Idempotent-Replayed") != "true" || effects.Load() != 1 {
		t.Fatalf("%v, %d effects", a.Header, effects.Load())
	}
}

// W14, GW-05: what fails after something was sent is unknown, and is not run again. While nothing
// of an answer has left for the client, it is told; after that its connection breaks off like the
// upstream's.
func TestAnswerLost(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":          "",
		"half a head":      "HTTP/1.1 201 Created\r\nContent-Le",
		"no HTTP":          "220 mail.example ESMTP\r\n",
		"short body":       "HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\nok",
		"short chunk":      "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
		"no last chunk":    "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
		"bad chunk":        "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
		"bad header":       "HTTP/1.1 201 Created\r\ncanary\r\n\r\n",
		"bad status":       "HTTP/1.1 canary\r\n\r\n",
		"bad protocol":     "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n",
		"large short body": "HTTP/1.1 201 Created\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("x", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			var effects atomic.Int64
			r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
				if readRequest(in) != nil {
					effects.Add(1)
					_, _ = io.WriteString(c, answer)
				}
			}), nil)
			p := r.problem(r.post("k", "/", `{}`), "upstream-failed")
			if p.Status != 502 || !p.Retryable || p.KeyAction != "reuse" {
				t.Fatalf("%+v", p)
			}
			rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
			if err != nil || rec.State != stet.Unknown || rec.Response != nil {
				t.Fatalf("%+v, %v", rec.Head, err)
			}
			r.problem(r.post("k", "/", `{}`), "outcome-unknown")
			if n := effects.Load(); n != 1 {
				t.Fatalf("%d effects", n)
			}
			if !strings.Contains(r.log.String(), r.engine.Tag(rec.ID)) {
				t.Errorf("the log does not name the record: %s", r.log)
			}
			if strings.Contains(r.log.String(), "canary") {
				t.Errorf("the log quotes the answer: %s", r.log)
			}
		})
	}
}

// GW-05: the same over HTTP/2.
func TestAnswerLost_HTTP2(t *testing.T) {
	checkLeaks(t)
	server, trust := certificate(t)
	server.NextProtos = []string{"h2"}
	var effects atomic.Int64
	addr := serveTCP(t, must(tls.Listen("tcp", "127.0.0.1:0", server)), func(c net.Conn, in *bufio.Reader) {
		answerHalf(c, in, &effects)
	})
	r := newRig(t, "https://"+addr, func(c *gateway.Config) { c.UpstreamTLS = trust })
	r.problem(r.post("k", "/", `{}`), "upstream-failed")
	r.state("k", stet.Unknown, "truncated-response")
	r.problem(r.post("k", "/", `{}`), "outcome-unknown")
	if n := effects.Load(); n != 1 {
		t.Fatalf("%d effects", n)
	}
}

// answerHalf is an HTTP/2 server that resets each stream in the middle of its answer.
func answerHalf(c net.Conn, in *bufio.Reader, effects *atomic.Int64) {
	serveFrames(c, in, func(f *frames, stream uint32) {
		effects.Add(1)
		const internalError = 2
		f.write(frameHeaders, flagEndHeaders, stream, status200)
		f.write(frameData, 0, stream, []byte("half")...)
		f.write(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, internalError)...)
	})
}

// GW-05: a live stream cannot be taken back: the client sees it break off, and the record says
// unknown.
func TestLiveAnswerBreaksOff(t *testing.T) {
	checkLeaks(t)
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		if readRequest(in) != nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n8\r\ndata: 1\n\r\n")
		}
	}), nil)
	for _, h := range []header{{"idempotency-key": "k"}, nil} {
		a := r.do("PUT", "/", "", h)
		if a.Response == nil || a.StatusCode != 200 || a.err == nil || a.body != "data: 1\n" {
			t.Fatalf("%+v", a)
		}
	}
	r.state("k", stet.Unknown, "truncated-response")
}

// GW-03: an upstream that does not answer in time leaves the outcome unknown; one that could not be
// reached in time does not.
func TestExecutionTimeout(t *testing.T) {
	checkLeaks(t)
	asked, left := make(chan struct{}, 10), make(chan error, 10)
	hangs := tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		readRequest(in)
		asked <- struct{}{}
		_, err := in.ReadByte()
		left <- err
	})
	brief := func(c *gateway.Config) {
		c.Default.Policy.Execution, c.Default.Policy.Lease = 2*time.Second, 3*time.Second
	}
	r := newRig(t, hangs, brief)
	p := r.problem(r.post("k", "/", `{}`), "execution-timeout")
	if p.Status != 504 || !p.Retryable || p.KeyAction != "reuse" {
		t.Fatalf("%+v", p)
	}
	<-asked
	if err := <-left; err != io.EOF {
		t.Fatalf("the gateway did not hang up: %v", err)
	}
	r.problem(r.post("k", "/", `{}`), "outcome-unknown")
	r.state("k", stet.Unknown, "execution-timeout")
	if len(asked) != 0 {
		t.Fatal("it was sent again")
	}
}

// A handshake that never ends is not a request: when its time is over, the key is free, and the
// client is told so.
func TestExecutionTimeoutBeforeAnythingIsSent(t *testing.T) {
	checkLeaks(t)
	silent := tcpUpstream(t, func(c net.Conn, in *bufio.Reader) { _, _ = io.Copy(io.Discard, in) })
	r := newRig(t, strings.Replace(silent, "http:", "https:", 1), func(c *gateway.Config) {
		c.Default.Policy.Execution = 100 * time.Millisecond
	})
	r.problem(r.post("k", "/", `{}`), "upstream-unreachable")
	r.state("k", stet.Retryable, "upstream-unreachable")
}

// W12: a client that hangs up stops nothing.
func TestClientHangsUp(t *testing.T) {
	checkLeaks(t)
	asked, goOn := make(chan struct{}), make(chan struct{})
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == "POST" {
			asked <- struct{}{}
			<-goOn
		}
		w.WriteHeader(201)
	}), nil)
	c, _ := r.raw("POST / HTTP/1.1\nHost: x\nIdempotency-Key: k\nContent-Length: 2\n\n{}")
	<-asked
	c.Close()
	r.status(r.do("GET", "/", "", nil), 201)
	close(goOn)
	deadline := time.Now().Add(patience)
	for {
		a := r.do("POST", "/", "{}", header{"idempotency-key": "k"})
		if a.err == nil && a.StatusCode == 201 && a.Header.Get("Idempotent-Replayed") == "true" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", a)
		}
	}
}

// What an unkeyed request meets is told in the same form, without advice about keys; that it is
// safe to repeat is said only where it is.
func TestUnkeyedFailures(t *testing.T) {
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) { readRequest(in) }), nil)
	if p := r.problem(r.do("GET", "/", "", nil), "upstream-failed"); !p.Retryable || p.KeyAction != "" || strings.Contains(p.Detail, "key") {
		t.Errorf("%+v", p)
	}
	if p := r.problem(r.do("DELETE", "/", "", nil), "upstream-failed"); p.Retryable || p.KeyAction != "" {
		t.Errorf("%+v", p)
	}
}

// The client's own form of errors holds for the gateway's too.
func TestProfilesShapeFailures(t *testing.T) {
	c := must(stethttp.Profile("stripe"))
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) { readRequest(in) }), func(g *gateway.Config) { g.Default = c })
	a := r.status(r.post("k", "/", `{}`), 502)
	if a.Header.Get("Content-Type") != "application/json" || a.Header.Get("Stripe-Should-Retry") != "true" || !strings.Contains(a.body, `"error":{`) {
		t.Fatalf("%v %s", a.Header, a.body)
	}
	if id := a.Header.Get("Request-Id"); !strings.Contains(a.body, `"type":"api_error"`) || id == "" || a.Header.Get("Original-Request") != id { // C17
		t.Errorf("%v %s", a.Header, a.body)
	}
	a = r.status(r.post("k", "/", `{}`), 409)
	if !strings.Contains(a.body, `"type":"api_error"`) || a.Header.Get("Request-Id") == "" {
		t.Errorf("%v %s", a.Header, a.body)
	}
}
