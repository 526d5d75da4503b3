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
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
)

const warmConns = 20

// dropper is an upstream that answers /warm when warmConns requests for it are there, so that they
// stay on as many connections, and closes the connection of any other request after its effect.
type dropper struct {
	effects atomic.Int64
	mu      sync.Mutex
	waiting int
	all     chan struct{}
}

func (d *dropper) serve(c net.Conn, in *bufio.Reader) {
	for {
		req := readRequest(in)
		if req == nil {
			return
		}
		if req.URL.Path != "/warm" {
			d.effects.Add(1)
			return
		}
		d.mu.Lock()
		if d.waiting++; d.waiting == warmConns {
			close(d.all)
		}
		d.mu.Unlock()
		<-d.all
		if _, err := io.WriteString(c, created); err != nil {
			return
		}
	}
}

// GW-01, W15: net/http sends a request with an Idempotency-Key or X-Idempotency-Key again for each
// connection in its pool that breaks before the answer comes: 21 effects of one request.
func TestOneRequestReachesTheUpstreamOnce(t *testing.T) { // I12, W15
	for _, overTLS := range []bool{false, true} {
		for _, name := range []string{"idempotency-key", "x-idempotency-key", "other"} {
			for _, body := range []string{"", `{"amount":1}`, strings.Repeat("x", 100<<10)} {
				t.Run(fmt.Sprintf("tls=%t/%s/%d", overTLS, name, len(body)), func(t *testing.T) {
					dropOnce(t, overTLS, name, body)
				})
			}
		}
	}
}

func dropOnce(t *testing.T, overTLS bool, name, body string) {
	checkLeaks(t)
	d := &dropper{all: make(chan struct{})}
	url, trust := tcpUpstream, (*tls.Config)(nil)
	if overTLS {
		var server *tls.Config
		server, trust = certificate(t)
		url = func(t testing.TB, serve func(net.Conn, *bufio.Reader)) string {
			return "https://" + serveTCP(t, must(tls.Listen("tcp", "127.0.0.1:0", server)), serve)
		}
	}
	r := newRig(t, url(t, d.serve), func(c *gateway.Config) {
		c.UpstreamTLS = trust
		c.Default.RequiredMethods = []string{}
	})
	var warm sync.WaitGroup
	for range warmConns {
		warm.Go(func() { r.status(r.do("GET", "/warm", "", nil), 201) })
	}
	warm.Wait()
	for i := range 3 {
		a := r.do("POST", "/pay", body, header{name: fmt.Sprint("k", i), "Content-Type": "text/plain"})
		doc := r.problem(a, "upstream-failed")
		if n := d.effects.Load(); n != int64(i)+1 {
			t.Fatalf("%d effects of %d requests", n, i+1)
		}
		if keyed := name == "idempotency-key"; keyed {
			r.state(fmt.Sprint("k", i), stet.Unknown, "upstream-failed")
		} else if doc.Retryable || doc.KeyAction != "" {
			t.Fatalf("advice to repeat what may have happened, or about a key that was not sent: %+v", doc)
		}
	}
}

// Over HTTP/2, a Transport of net/http repeats a request without a body whose stream was reset with
// PROTOCOL_ERROR, and trusts the peer not to have acted on it.
func TestOneRequestReachesTheUpstreamOnce_HTTP2(t *testing.T) {
	for _, code := range []uint32{1, 2, 8} { // PROTOCOL_ERROR, INTERNAL_ERROR, CANCEL
		for _, body := range []string{"", `{"amount":1}`} {
			t.Run(fmt.Sprintf("reset=%d/%d", code, len(body)), func(t *testing.T) {
				checkLeaks(t)
				server, trust := certificate(t)
				server.NextProtos = []string{"h2"}
				var effects atomic.Int64
				addr := serveTCP(t, must(tls.Listen("tcp", "127.0.0.1:0", server)), func(c net.Conn, in *bufio.Reader) {
					resetStreams(c, in, code, &effects)
				})
				r := newRig(t, "https://"+addr, func(c *gateway.Config) { c.UpstreamTLS = trust })
				for i := range 2 { // the second on a connection that is reused
					r.problem(r.post(fmt.Sprint("k", i), "/pay", body), "upstream-failed")
					if n := effects.Load(); n != int64(i)+1 {
						t.Fatalf("%d effects of %d requests", n, i+1)
					}
					r.state(fmt.Sprint("k", i), stet.Unknown, "upstream-failed")
				}
			})
		}
	}
}

// resetStreams is an HTTP/2 server that resets each stream after its effect.
func resetStreams(c net.Conn, in *bufio.Reader, code uint32, effects *atomic.Int64) {
	serveFrames(c, in, func(f *frames, stream uint32) {
		effects.Add(1)
		f.write(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code)...)
	})
}

// A server of HTTP/2 that refuses a stream, or ends its connection to all streams from an earlier
// one on, has done nothing with the request (RFC 9113 sections 6.8 and 8.7). It is sent once more,
// and no oftener; then the key is free. Without an end, one GET was sent 6,544 times in 10 s.
func TestRefusedStreams(t *testing.T) { // H18, H04
	const refused, protocolError, graceful, enhanceYourCalm = 7, 1, 0, 11
	reset := func(code uint32) func(f *frames, stream uint32) {
		return func(f *frames, stream uint32) {
			f.write(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code)...)
		}
	}
	goAway := func(code uint32) func(f *frames, stream uint32) { // the last stream that was looked at is 0
		return func(f *frames, stream uint32) {
			f.write(frameGoAway, 0, 0, append(make([]byte, 4), binary.BigEndian.AppendUint32(nil, code)...)...)
		}
	}
	large := strings.Repeat("x", 20_000) // is not in memory of the gateway's own
	for name, c := range map[string]struct {
		refuse func(f *frames, stream uint32)
		proof  bool
	}{"refused": {reset(refused), true}, "shutdown": {goAway(graceful), true}, "calm": {goAway(enhanceYourCalm), true}, "protocol": {reset(protocolError), false}} {
		for _, always := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " always=", always), func(t *testing.T) {
				checkLeaks(t)
				server, trust := certificate(t)
				server.NextProtos = []string{"h2"}
				var streams atomic.Int64
				addr := serveTCP(t, must(tls.Listen("tcp", "127.0.0.1:0", server)), func(c2 net.Conn, in *bufio.Reader) {
					serveFrames(c2, in, func(f *frames, stream uint32) {
						if streams.Add(1) == 1 || always {
							c.refuse(f, stream)
							return
						}
						f.write(frameHeaders, flagEndHeaders|flagEndStream, stream, status200)
					})
				})
				r := newRig(t, "https://"+addr, func(g *gateway.Config) { g.UpstreamTLS = trust })
				for i, req := range []struct {
					method, body string
					guarded      bool
				}{{"POST", "", true}, {"POST", "{}", true}, {"GET", "", false}, {"PUT", large, false}, {"POST", large, true}} {
					key := fmt.Sprint("k", i)
					var h header
					if req.guarded {
						h = header{"Idempotency-Key": key}
					}
					streams.Store(0)
					a := r.do(req.method, "/", req.body, h)
					again := c.proof && req.body != large
					switch n := streams.Load(); {
					case again && n != 2, !again && n != 1:
						t.Errorf("%s %d guarded=%t: %d streams", req.method, len(req.body), req.guarded, n)
					case again && !always:
						r.status(a, 200)
						if !strings.Contains(r.log.String(), "sent once more") {
							t.Errorf("nothing tells that it was sent twice: %s", r.log)
						}
					case c.proof:
						r.problem(a, "upstream-unreachable")
					default:
						r.problem(a, "upstream-failed")
					}
					if req.guarded && c.proof && (always || req.body == large) {
						r.state(key, stet.Retryable, "upstream-unreachable")
					} else if req.guarded && !c.proof {
						r.state(key, stet.Unknown, "upstream-failed")
					}
				}
			})
		}
	}
}

const status200 = 0x88 // in HPACK's static table

// The parts of RFC 9113 that a misbehaving server needs.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7

	flagEndStream, flagAck, flagEndHeaders = 1, 1, 4
)

type frames struct{ w io.Writer }

func (f *frames) write(kind, flags byte, stream uint32, payload ...byte) {
	head := []byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[5:], stream)
	_, _ = f.w.Write(append(head, payload...))
}

// serveFrames calls act for each request that has arrived whole.
func serveFrames(c net.Conn, in *bufio.Reader, act func(f *frames, stream uint32)) {
	if _, err := io.ReadFull(in, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	f := &frames{c}
	f.write(frameSettings, 0, 0)
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(in, payload); err != nil {
			return
		}
		switch kind, flags := head[3], head[4]; {
		case kind == frameSettings && flags&flagAck == 0:
			f.write(frameSettings, flagAck, 0)
		case kind == framePing && flags&flagAck == 0:
			f.write(framePing, flagAck, 0, payload...)
		case (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0:
			act(f, binary.BigEndian.Uint32(head[5:]))
		}
	}
}

// A connection that died between two requests is no reason to fail one: nothing of it was sent
// there.
func TestDeadIdleConnectionsAreReplaced(t *testing.T) {
	checkLeaks(t)
	var n atomic.Int64
	r := newRig(t, tcpUpstream(t, func(c net.Conn, in *bufio.Reader) { // one request per connection, and it does not say so
		if readRequest(in) != nil {
			n.Add(1)
			_, _ = io.WriteString(c, created)
		}
	}), nil)
	for i := range 200 {
		a := r.post(fmt.Sprint("k", i), "/", `{"a":1}`)
		if a.StatusCode == http.StatusCreated {
			continue
		}
		r.problem(a, "upstream-failed") // it raced with the close: either may be first
		r.state(fmt.Sprint("k", i), stet.Unknown, "upstream-failed")
	}
	if n.Load() > 200 {
		t.Fatalf("%d effects of 200 requests", n.Load())
	}
}
