package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// floor forwards with as little work as net/http's server allows: one write to a kept connection
// of the upstream, one read of its answer, and no rule of any kind. It bounds from above what a
// gateway on net/http can reach.
type floor struct {
	upstream string
	mu       sync.Mutex
	idle     []*floorConn
}

type floorConn struct {
	net.Conn
	in *bufio.Reader
}

func (f *floor) take() (*floorConn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.idle); n > 0 {
		c := f.idle[n-1]
		f.idle = f.idle[:n-1]
		return c, nil
	}
	c, err := net.Dial("tcp", f.upstream)
	if err != nil {
		return nil, err
	}
	return &floorConn{c, bufio.NewReader(c)}, nil
}

var floorBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b := floorBuffers.Get().(*bytes.Buffer)
	defer floorBuffers.Put(b)
	b.Reset()
	fmt.Fprintf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", r.Method, r.URL.RequestURI(), r.Host, r.ContentLength)
	for name, values := range r.Header {
		for _, v := range values {
			b.WriteString(name)
			b.WriteString(": ")
			b.WriteString(v)
			b.WriteString("\r\n")
		}
	}
	b.WriteString("\r\n")
	if _, err := io.CopyN(b, r.Body, r.ContentLength); err != nil {
		panic(http.ErrAbortHandler)
	}
	c, err := f.take()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if _, err := c.Write(b.Bytes()); err != nil {
		panic(http.ErrAbortHandler)
	}
	length, status := 0, 0
	for line := 0; ; line++ {
		l, err := c.in.ReadSlice('\n')
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		l = bytes.TrimRight(l, "\r\n")
		name, value, _ := bytes.Cut(l, []byte(": "))
		switch {
		case line == 0:
			status, _ = strconv.Atoi(string(l[9:12]))
		case string(name) == "Content-Length":
			length, _ = strconv.Atoi(string(value))
		case len(l) > 0:
			w.Header()[string(name)] = []string{string(value)}
		}
		if len(l) == 0 {
			break
		}
	}
	w.WriteHeader(status)
	if answer, err := c.in.Peek(length); err == nil {
		_, _ = w.Write(answer)
		_, _ = c.in.Discard(length)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = append(f.idle, c)
}

// startNginx starts nginx as a reverse proxy of the upstream, tuned as its documentation advises:
// kept connections on both sides, no log. It returns "" where nginx is not installed.
func startNginx(b *testing.B, upstream string) string {
	bin, err := exec.LookPath("nginx")
	if err != nil {
		if bin = "/usr/sbin/nginx"; exec.Command(bin, "-v").Run() != nil {
			b.Log("nginx is not installed (sudo apt-get install nginx-light): no new/nginx")
			return ""
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	dir := b.TempDir()
	conf := fmt.Sprintf(`daemon off; worker_processes auto; pid %[1]s/pid; error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off; tcp_nodelay on; keepalive_requests 100000000;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  upstream api { server %[2]s; keepalive 128; keepalive_requests 100000000; }
  server {
    listen %[3]s;
    location / { proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; }
  }
}
`, dir, upstream, addr)
	name := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(name, []byte(conf), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(bin, "-p", dir, "-c", name)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	for began := time.Now(); ; {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
			return addr
		}
		if time.Since(began) > 10*time.Second {
			b.Fatal("nginx does not listen: ", err)
		}
	}
}
