//go:build unix

package gateway_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stet-dev/stet/gateway"
)

// overSocket asks an HTTP server behind a Unix socket.
func overSocket(t *testing.T, path string) (string, error) {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	defer tr.CloseIdleConnections()
	return fetch(t, tr, "http://localhost/")
}

func fetch(t *testing.T, tr *http.Transport, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

// The socket is its owner's alone, whatever the umask; it serves with and without the other
// listener, and is gone in the end.
func TestAdminSocket(t *testing.T) { // D12
	checkLeaks(t)
	defer syscall.Umask(syscall.Umask(0))
	for _, tcp := range []string{"", "127.0.0.1:0"} {
		path := filepath.Join(t.TempDir(), "stet.sock")
		s := start(t, gateway.ServerConfig{Handler: http.NotFoundHandler(), Admin: tcp, AdminSocket: path, AdminHandler: ok})
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if got, err := overSocket(t, path); err != nil || got != "ok" {
			t.Errorf("%q, %v", got, err)
		}
		if (s.AdminAddr() != "") != (tcp != "") {
			t.Errorf("AdminAddr is %q", s.AdminAddr())
		}
		if tcp != "" { // every answer is the handler's, D03
			c := connect(t, s.AdminAddr())
			c.send("OPTIONS * HTTP/1.1\nHost: x\n\n")
			if res, b := c.read(); res.StatusCode != 200 || b != "ok" {
				t.Errorf("OPTIONS *: %v %s", res, b)
			}
		}
		s.stop()
		s.wait()
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("it is still there: %v", err)
		}
	}
}

// What a killed process left is replaced; what a process listens on is not.
func TestAdminSocketThatIsThere(t *testing.T) { // D12
	checkLeaks(t)
	path := filepath.Join(t.TempDir(), "stet.sock")
	c := gateway.ServerConfig{Listen: "127.0.0.1:0", Handler: http.NotFoundHandler(), AdminSocket: path, AdminHandler: ok}
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.NewServer(c); err == nil || !strings.Contains(err.Error(), "another process listens on it") {
		t.Errorf("somebody listens: %v", err)
	}
	left.SetUnlinkOnClose(false)
	_ = left.Close()
	s := start(t, c)
	if got, err := overSocket(t, path); err != nil || got != "ok" {
		t.Errorf("%q, %v", got, err)
	}
	s.stop()
	s.wait()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.NewServer(c); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a file: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestAdminTLS(t *testing.T) { // D12
	pair := httptest.NewUnstartedServer(nil)
	pair.StartTLS()
	certificates := pair.TLS.Certificates
	tr := pair.Client().Transport.(*http.Transport)
	pair.Close()
	checkLeaks(t)
	s := start(t, gateway.ServerConfig{Handler: http.NotFoundHandler(), Admin: "127.0.0.1:0", AdminTLS: &tls.Config{Certificates: certificates}, AdminHandler: ok})
	defer tr.CloseIdleConnections()
	if got, err := fetch(t, tr, "https://"+s.AdminAddr()); err != nil || got != "ok" {
		t.Errorf("%q, %v", got, err)
	}
}
