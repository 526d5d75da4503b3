package framing

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds everything that a test waits for.
const patience = 10 * time.Second

// serve serves with srv, framed or as net/http does it, and returns a connection to it.
func serve(t testing.TB, srv *http.Server, framed bool) (net.Conn, *bufio.Reader) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, srv, l, framed)
}

func serveOn(t testing.TB, srv *http.Server, l net.Listener, framed bool) (net.Conn, *bufio.Reader) {
	t.Helper()
	srv.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	if framed {
		l = Listen(srv, l)
	}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c, bufio.NewReader(c)
}

// What is held back does not count against net/http's limit until it is passed on, and no more is
// held than that.
func TestHeaderLimitHolds(t *testing.T) {
	for _, first := range []string{"", "Content-Length: 2\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n"} {
		c, in := serve(t, &http.Server{MaxHeaderBytes: 10_000}, true)
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\n"+first)
		go func() { // the server may close before all of it was sent
			for range 1000 {
				_, _ = io.WriteString(c, "X: "+strings.Repeat("x", 100)+"\r\n")
			}
		}()
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%q: %v, %v", first, res, err)
		}
	}
}

// filed is a listener whose connections count the files that they are given, or take none.
type filed struct {
	net.Listener
	takes bool
	files atomic.Int64
}

func (f *filed) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	if err != nil || !f.takes {
		return struct{ net.Conn }{c}, err
	}
	return &filedConn{c, f}, nil
}

type filedConn struct {
	net.Conn
	of *filed
}

func (c *filedConn) ReadFrom(r io.Reader) (int64, error) {
	c.of.files.Add(1)
	return c.Conn.(io.ReaderFrom).ReadFrom(r)
}

// Files go out whole: as files over connections that take them, as the kernel's do, and as bytes
// over others.
func TestFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, takes := range []bool{true, false} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f := &filed{Listener: l, takes: takes}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, name) })}
		c, in := serveOn(t, srv, f, true)
		for range 2 {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
		if n := f.files.Load(); (n == 2) != takes {
			t.Errorf("%d files were given to connections that take them: %t", n, takes)
		}
	}
}

// Without a certificate there is no TLS, and a server does not wait to say so.
func TestNoCertificate(t *testing.T) {
	srv := &http.Server{TLSConfig: new(tls.Config)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := srv.Serve(Listen(srv, l)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

// BenchmarkServer is a request on a kept connection, by net/http alone and with this package below
// it.
func BenchmarkServer(b *testing.B) {
	for name, framed := range map[string]bool{"plain": false, "framed": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			c, in := serve(b, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })}, framed)
			_ = c.SetDeadline(time.Time{})
			body := strings.Repeat("x", 200)
			request := []byte(fmt.Sprintf(usual, len(body)) + body)
			for b.Loop() {
				if _, err := c.Write(request); err != nil {
					b.Fatal(err)
				}
				for {
					line, err := in.ReadSlice('\n')
					if err != nil {
						b.Fatal(err)
					}
					if len(line) == 2 {
						break
					}
				}
			}
		})
	}
}
