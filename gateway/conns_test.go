package gateway

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// peers are the other sides of connections of HTTP/2 without a network.
type peers struct {
	opened []net.Conn
	silent []*atomic.Bool // by connection: it answers nothing any more
	takes  time.Duration  // until a request is answered
}

func (p *peers) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.opened, p.silent = append(p.opened, theirs), append(p.silent, new(atomic.Bool))
	silent := p.silent[len(p.silent)-1]
	out := make(chan []byte, 100) // writes must not wait for reads: both sides of a pipe would
	go func() {
		for b := range out {
			_, _ = theirs.Write(b)
		}
	}()
	var all sync.WaitGroup
	go func() {
		defer func() { all.Wait(); close(out) }()
		in := bufio.NewReader(theirs)
		if _, err := io.ReadFull(in, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		say := func(kind, flags byte, stream uint32, payload ...byte) {
			head := binary.BigEndian.AppendUint32([]byte{0, 0, byte(len(payload)), kind, flags}, stream)
			if !silent.Load() {
				out <- append(head, payload...)
			}
		}
		say(4, 0, 0) // SETTINGS
		for {
			head := make([]byte, frameHead)
			if _, err := io.ReadFull(in, head); err != nil {
				return
			}
			payload := make([]byte, binary.BigEndian.Uint32(append([]byte{0}, head[:3]...)))
			if _, err := io.ReadFull(in, payload); err != nil {
				return
			}
			switch kind, flags := head[3], head[4]; {
			case kind == 4 && flags&1 == 0:
				say(4, 1, 0)
			case kind == 6 && flags&1 == 0: // PING
				say(6, 1, 0, payload...)
			case kind <= 1 && flags&1 != 0: // the end of a request
				all.Go(func() {
					time.Sleep(p.takes)
					say(1, 5, binary.BigEndian.Uint32(head[5:]), 0x88) // HEADERS: 200
				})
			}
		}
	}()
	return ours, nil
}

// overPeers is a gateway whose upstream is p.
func overPeers(t *testing.T, p *peers, execution time.Duration, late ...time.Duration) *Gateway {
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Policy: stet.Policy{Execution: execution}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(e, Config{Upstream: &url.URL{Scheme: schemeH2C, Host: "api"}, UpstreamIdleTimeout: time.Hour, LateAnswer: append(late, 0)[0]})
	if err != nil {
		t.Fatal(err)
	}
	g.transport.rest.dial = p.dial
	return g
}

func askFor(g *Gateway, key string) int {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w.Code
}

// A connection of HTTP/2 whose other side is gone is given up as soon as it answers no ping, and
// serves no further request once the time of one is over. It made every request unknown.
func TestSilentConnections(t *testing.T) { // H03
	for name, c := range map[string]struct{ execution, within time.Duration }{
		"ping":    {5 * time.Minute, pingAfter + pingTimeout},
		"timeout": {2 * time.Second, 2*time.Second + lastLook},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p peers
				g := overPeers(t, &p, c.execution)
				defer g.CloseIdle()
				if got := askFor(g, "first"); got != 200 {
					t.Fatal(got)
				}
				p.silent[0].Store(true)
				began := time.Now()
				if got, took := askFor(g, "lost"), time.Since(began); got < 500 || took > c.within {
					t.Errorf("%d after %s", got, took)
				}
				for _, key := range []string{"second", "third"} {
					began := time.Now()
					if got := askFor(g, key); got != 200 || time.Since(began) != 0 {
						t.Errorf("%s: %d after %s", key, got, time.Since(began))
					}
				}
				if len(p.opened) != 2 {
					t.Errorf("%d connections", len(p.opened))
				}
				time.Sleep(time.Minute) // until the late answer is not waited for any more
			})
		})
	}
}

// Requests that come at once share a connection of HTTP/2, from the first one on.
func TestConnectionsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p peers
		g := overPeers(t, &p, time.Minute)
		dialled := g.transport.rest.dial
		g.transport.rest.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(time.Second)
			return dialled(ctx, network, addr)
		}
		done := make(chan int)
		for i := range 50 {
			go func() { done <- askFor(g, "k"+strings.Repeat("x", i)) }()
		}
		for range 50 {
			if got := <-done; got != 200 {
				t.Error(got)
			}
		}
		if len(p.opened) != 1 {
			t.Errorf("%d connections", len(p.opened))
		}
		g.CloseIdle()
		synctest.Wait()
		if _, err := p.opened[0].Write([]byte{0}); err == nil {
			t.Error("an idle connection stays open")
		}
	})
}

// A connection that ends as soon as it is open is not opened again and again for one request.
func TestConnectionsThatEndAtOnce(t *testing.T) {
	for name, reads := range map[string]bool{"before its preface": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := overPeers(t, new(peers), time.Minute)
				n := 0
				g.transport.rest.dial = func(context.Context, string, string) (net.Conn, error) {
					n++
					ours, theirs := net.Pipe()
					go func() {
						if reads {
							_, _ = theirs.Read(make([]byte, 1<<10)) // the client's preface, whole
						}
						_ = theirs.Close()
					}()
					return ours, nil
				}
				if got := askFor(g, "k"); got != http.StatusBadGateway || n > maxSends {
					t.Errorf("%d after %d dials", got, n)
				}
			})
		})
	}
}

// Whoever has waited for a connection that has ended by then opens no other.
func TestConnectionThatHasEndedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p peers
		s := overPeers(t, &p, time.Minute).transport.rest
		c, err := s.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, o, err := s.find(t.Context(), nil); o == nil || err != nil {
			t.Fatalf("%v, %v", o, err)
		}
		synctest.Wait() // there is another now
		for c, ok := s.pool.take(); ok; c, ok = s.pool.take() {
			_ = c.ClientConn.Close()
		}
		_ = c.ClientConn.Close()
		if _, o, err := s.find(t.Context(), &opening{conn: c}); o != nil || err == nil || len(p.opened) != 2 {
			t.Errorf("%v, %v, %d connections", o, err, len(p.opened))
		}
	})
}

// A connection that fails to open fails for all who have waited for it, at once.
func TestConnectionThatDoesNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := overPeers(t, new(peers), time.Minute)
		n := 0
		g.transport.rest.dial = func(context.Context, string, string) (net.Conn, error) {
			n++
			time.Sleep(time.Second)
			return nil, errors.New("refused")
		}
		done := make(chan int)
		for i := range 50 {
			go func() { done <- askFor(g, "k"+strings.Repeat("x", i)) }()
		}
		began := time.Now()
		for range 50 {
			if got := <-done; got != http.StatusBadGateway {
				t.Error(got)
			}
		}
		if took := time.Since(began); n != 1 || took != time.Second {
			t.Errorf("%d dials in %s", n, took)
		}
	})
}

// What a server of HTTP/2 says first is told from an answer of HTTP/1.
func TestSpeaksHTTP2(t *testing.T) { // R04
	for first, want := range map[string]bool{
		"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03": true, "\x00\x00\x08\x07\x00\x00\x00\x00\x00": true,
		"\x00\x00\x12\x04\x00\x00\x00\x00": false, "\x00\x00\x12\x04\x00\x00\x00\x00\x01": false, "\x00\x00\x12\x01\x00\x00\x00\x00\x00": false,
		"HTTP/1.1 200 OK\r\n": false, "\x15\x03\x01\x00\x02\x02\x00\x00\x00": false, "": false,
	} {
		if got := speaksHTTP2([]byte(first)); got != want {
			t.Errorf("%q: %t", first, got)
		}
	}
}

// The answer to a request whose time is over is read on for as long as is set, and is the result.
func TestLateAnswerIsWaitedFor(t *testing.T) { // N04
	for late, want := range map[time.Duration]stet.State{0: stet.Unknown, 2 * time.Minute: stet.Unknown, 5 * time.Minute: stet.Completed} {
		synctest.Test(t, func(t *testing.T) {
			g := overPeers(t, &peers{takes: 4 * time.Minute}, 2*time.Second, late)
			defer g.CloseIdle()
			began := time.Now()
			if got := askFor(g, "k"); got != http.StatusGatewayTimeout {
				t.Error(got)
			}
			id := stet.ID{Scope: stethttp.DefaultScope, Key: "k"}
			time.Sleep(90 * time.Second)
			if have, err := g.engine.Get(t.Context(), id); err != nil || have.State != stet.Unknown || have.Attended() != (late > 0) {
				t.Errorf("%s: %v, attended: %t, %v", late, have.State, have.Attended(), err)
			}
			time.Sleep(4*time.Minute - time.Since(began) + time.Second)
			if have, err := g.engine.Get(t.Context(), id); err != nil || have.State != want {
				t.Errorf("%s: %v, %v", late, have.State, err)
			}
			time.Sleep(5 * time.Minute)
		})
	}
}
