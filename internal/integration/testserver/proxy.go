package testserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stet-dev/stet/internal/freeport"
)

// Proxies are the reverse proxies that [Proxy] starts.
var Proxies = []string{"nginx", "haproxy", "caddy", "varnish"}

// Proxy returns a reverse proxy of the test's own in front of an HTTP server, set as
// docs/proxies.md says: with connections that are kept, and the proxy's defaults otherwise.
func Proxy(t testing.TB, name, behind string) *Server {
	t.Helper()
	program := look(map[string]string{"nginx": "nginx", "haproxy": "haproxy", "caddy": "caddy", "varnish": "varnishd"}[name])
	if program == "" {
		program = look("/usr/sbin/" + map[string]string{"nginx": "nginx", "haproxy": "haproxy", "varnish": "varnishd"}[name])
	}
	if program == "" {
		missing(t, name, map[string]string{"nginx": "nginx-light"}[name]+name)
	}
	dir, port := directory(t, "", name, nil), freeport.Of(t, 1)[0]
	s := &Server{Addr: address(port), dir: dir, kind: kind{name, program, syscall.SIGTERM, syscall.SIGKILL, accepts}}
	file := filepath.Join(dir, "config")
	if err := os.Chmod(dir, 0o755); err != nil { // Varnish reads it as a user of its own
		t.Fatal(err)
	}
	var config string
	switch name {
	case "nginx":
		s.args = []string{"-p", dir, "-c", file}
		config = fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log stderr crit;
events {}
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  upstream api { server %[2]s; keepalive 16; }
  server {
    listen %[3]s;
    location / { proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_next_upstream off; }
  }
}
`, dir, behind, s.Addr)
	case "haproxy":
		s.args = []string{"-db", "-f", file}
		config = fmt.Sprintf("defaults\n mode http\n timeout client 30s\n timeout server 30s\n timeout connect 5s\n"+
			"listen api\n bind %s\n http-reuse always\n server one %s\n", s.Addr, behind)
	case "caddy":
		s.args = []string{"run", "--config", file}
		config = fmt.Sprintf(`{"admin": {"disabled": true, "config": {"persist": false}}, "storage": {"module": "file_system", "root": %q},
"apps": {"http": {"servers": {"api": {"listen": [%q], "automatic_https": {"disable": true},
"routes": [{"handle": [{"handler": "reverse_proxy", "upstreams": [{"dial": %q}]}]}]}}}}}`, dir, s.Addr, behind)
	case "varnish":
		host, behindPort, err := net.SplitHostPort(behind)
		if err != nil {
			t.Fatal(err)
		}
		s.args = []string{"-F", "-n", dir, "-a", "127.0.0.1:" + strconv.Itoa(port), "-f", file, "-s", "malloc,16m"}
		config = fmt.Sprintf("vcl 4.1;\nbackend default { .host = %q; .port = %q; }\n", host, behindPort)
	default:
		t.Fatalf("there is no proxy %q", name)
	}
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Start(t)
	return own(t, s)
}

func accepts(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err
}
