package gateway_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stet-dev/stet/gateway"
)

// A client that takes nothing is cut off, and what was held for it is free again; one that takes
// slowly gets all of it.
func TestClientsThatDoNotRead(t *testing.T) {
	const size, limit = 32 << 20, 3 * time.Second
	ended := make(chan error, 1)
	s := run(t, gateway.ServerConfig{WriteTimeout: limit, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, err := w.Write(make([]byte, size))
		ended <- err
	})})
	ask := func() *net.TCPConn {
		t.Helper()
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return c.(*net.TCPConn)
	}
	over := func() error {
		t.Helper()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			t.Fatal("the handler still waits for its client")
			return nil
		}
	}
	ask()
	if err := over(); err == nil {
		t.Errorf("%d bytes were sent to a client that takes none", size)
	}

	slow := ask()
	began, pause := time.Now(), time.NewTicker(limit/8)
	defer pause.Stop()
	got, buffer := 0, make([]byte, 2<<20)
	for got < size {
		<-pause.C
		n, err := io.ReadFull(slow, buffer[:min(len(buffer), size-got)])
		if got += n; err != nil {
			t.Fatalf("cut off after %d bytes and %s: %v", got, time.Since(began), err)
		}
	}
	if err := over(); err != nil {
		t.Errorf("the slow client: %v", err)
	}
	if took := time.Since(began); took < 2*limit {
		t.Errorf("not slow: %s", took)
	}
}

// Connections end as they do without the limit: the client reads the answer to the end, over TLS,
// too.
func TestEndOfAConnection(t *testing.T) {
	body := make([]byte, 1<<20)
	other := httptest.NewTLSServer(nil) // has a certificate
	defer other.Close()
	for _, secure := range []*tls.Config{nil, {Certificates: other.TLS.Certificates}} {
		s := run(t, gateway.ServerConfig{TLS: secure, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			_, _ = w.Write(body)
		})})
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		scheme := map[bool]string{true: "https://", false: "http://"}[secure != nil]
		res, err := client.Get(scheme + s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || len(got) != len(body) {
			t.Errorf("%s: %d bytes, %v", scheme, len(got), err)
		}
		client.CloseIdleConnections()
	}
}

// A client of HTTP/2 has a window for each stream, and may leave it shut while the connection
// itself is well.
func TestStreamsThatAreNotTaken(t *testing.T) {
	for name, size := range map[string]int{"large": 32 << 20, "within the server's buffer": 100} {
		t.Run(name, func(t *testing.T) {
			s := run(t, gateway.ServerConfig{WriteTimeout: 2 * time.Second, H2C: true,
				Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })})
			c, err := net.Dial("tcp", s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			const settings, headers = "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00", "\x00\x00\x06\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41\x01x"
			if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+settings+headers); err != nil { // an INITIAL_WINDOW_SIZE of 0; GET /
				t.Fatal(err)
			}
			const reset = 3
			for frame := make([]byte, 9); frame[3] != reset; { // the stream ends, and with it what was held for it
				if _, err := io.ReadFull(c, frame); err != nil {
					t.Fatalf("the stream is still there: %v", err)
				}
				if _, err := io.CopyN(io.Discard, c, int64(frame[0])<<16|int64(frame[1])<<8|int64(frame[2])); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A stream may rest for longer than the limit while its client has nothing to read.
func TestStreamsThatRest(t *testing.T) {
	const limit = 2 * time.Second
	s := run(t, gateway.ServerConfig{WriteTimeout: limit, H2C: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 2 {
			_, _ = io.WriteString(w, "piece")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-time.NewTimer(2 * limit).C
		}
	})})
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: patience}).Get("http://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || string(got) != "piecepiece" || res.ProtoMajor != 2 {
		t.Errorf("%s: %q, %v", res.Proto, got, err)
	}
}

// An earlier deadline than the limit's counts: package tls gives its last words five seconds, and
// the end of a server waits for them.
func TestDeadlinesOfOthers(t *testing.T) {
	ended := make(chan error, 1)
	s := run(t, gateway.ServerConfig{WriteTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := w.Write(make([]byte, 32<<20))
		ended <- err
	})})
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a client took what it did not read")
		}
	case <-time.After(patience):
		t.Error("the deadline was lost")
	}
}
