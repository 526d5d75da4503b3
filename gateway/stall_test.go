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

// A client that takes nothing is cut off, and what was held for it is free again; one that takes slowly gets all of it.
func TestClientsThatDoNotRead(t *testing.T) {
	const size, limit = 32 << 20, 800 * time.Millisecond
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
	began, pause := time.Now(), time.NewTicker(limit/6)
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

// Connections end as they do without the limit: the client reads the answer to the end, over TLS, too.
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
