package gateway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/gateway"
)

// A caller that asks for the end is told so at once by Draining, and requests are served for a
// while yet: load balancers look every few seconds, and send requests until they have.
func TestDrainDelay(t *testing.T) { // surface 6, drain_delay_s
	const delay = 3 * time.Second
	s := run(t, gateway.ServerConfig{DrainDelay: delay, Handler: ok})
	kept := connect(t, s.Addr())
	began := time.Now()
	s.stop()
	for !s.Draining() {
		runtime.Gosched()
	}
	for _, k := range []*keptAlive{kept, connect(t, s.Addr())} {
		k.send(get)
		if res, b := k.read(); res.StatusCode != 200 || res.Close || b != "ok" {
			t.Errorf("%d %s, closed: %t; it took %s", res.StatusCode, b, res.Close, time.Since(began))
		}
	}
	for {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			break
		}
		_ = c.Close()
	}
	if took := time.Since(began); took < delay {
		t.Errorf("the listener closed after %s", took)
	}
	s.wait()
}

// Times that were set while the server runs hold for what comes then.
func TestSetTimeouts(t *testing.T) { // D01
	entered := make(chan struct{}, 1)
	s := run(t, gateway.ServerConfig{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stays" {
			entered <- struct{}{}
			<-r.Context().Done()
			return
		}
		_, err := io.ReadAll(r.Body)
		fmt.Fprint(w, err)
	})})
	s.SetTimeouts(gateway.ServerConfig{ReadTimeout: time.Second, DrainTimeout: 30 * time.Millisecond})
	k := connect(t, s.Addr())
	k.send("POST / HTTP/1.1\nHost: x\nContent-Length: 5\n\nhalf")
	if _, b := k.read(); !strings.Contains(b, "timeout") {
		t.Errorf("a body that does not arrive: %s", b)
	}
	k = connect(t, s.Addr())
	k.send("GET /stays HTTP/1.1\nHost: x\n\n")
	<-entered
	s.stop()
	if err := <-s.done; err == nil || !strings.Contains(err.Error(), "1 requests did not end within 30ms") {
		t.Errorf("%v", err)
	}
	s.done = nil
}

// A client that takes nothing is cut off by the time that holds when it is sent something.
func TestSetWriteTimeout(t *testing.T) { // D01
	entered, goOn, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	s := run(t, gateway.ServerConfig{WriteTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-goOn
		for piece := make([]byte, 1<<20); ; {
			if _, err := w.Write(piece); err != nil {
				failed <- err
				return
			}
		}
	})})
	connect(t, s.Addr()).send(get)
	<-entered
	s.SetTimeouts(gateway.ServerConfig{WriteTimeout: 30 * time.Millisecond})
	close(goOn)
	select {
	case <-failed:
	case <-time.After(patience):
		t.Error("the client is still waited for")
		s.SetTimeouts(gateway.ServerConfig{DrainTimeout: time.Millisecond})
	}
}
