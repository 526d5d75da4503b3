package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

const aToken = "a-token-nobody-else-may-see"

// listening is a server that is not the admin API, or only seems to be. It keeps what it was sent.
type listening struct {
	mu   sync.Mutex
	sent bytes.Buffer
}

// to keeps what goes to h.
func (l *listening) to(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		_ = r.Header.Write(&l.sent)
		_, _ = io.Copy(&l.sent, r.Body)
		l.mu.Unlock()
		h.ServeHTTP(w, r)
	})
}

func (l *listening) heard() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent.String()
}

// raw is a server that says a text to everybody, and what it hears is kept.
func (l *listening) raw(t *testing.T, text string) (address string) {
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = on.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			c, err := on.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			n, _ := c.Read(buf)
			l.mu.Lock()
			l.sent.Write(buf[:n])
			l.mu.Unlock()
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	})
	return on.Addr().String()
}

func saying(status int, header, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if name, value, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// clientPort is the port of a gateway whose upstream knows everything.
func clientPort(t *testing.T, seen *listening) http.Handler {
	upstream := httptest.NewServer(seen.to(saying(200, "Content-Type: application/json", `{"keys":[],"next_cursor":""}`)))
	t.Cleanup(upstream.Close)
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(e, gateway.Config{Upstream: u})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.CloseIdle)
	return g
}

// answered runs a command that is to fail with one sentence.
func answered(t *testing.T, args ...string) (exit, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), args, nil, &stdout, &stderr)
	if stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("%q prints %q and %q", args, &stdout, &stderr)
	}
	return status, strings.TrimSpace(stderr.String())
}

// Who is not the admin API is believed nothing and shown no token, and the sentence says where to
// go instead.
func TestWrongAdminAddress(t *testing.T) { // D03, D10
	t.Setenv(adminTokenVariable, aToken)
	empty := `{"keys":[],"next_cursor":"","entries":[]}`
	for name, c := range map[string]struct {
		at     func(*testing.T, *listening) string
		status exit
		want   string
	}{
		"the client port": {func(t *testing.T, l *listening) string { return plain(t, l.to(clientPort(t, l))) }, exitError,
			`is the gateway's address for clients; the admin address is in the line "ready" of its log`},
		"the client port, draining": {func(t *testing.T, l *listening) string {
			return plain(t, l.to(saying(503, "Stet-Outcome: not-executed", empty)))
		}, exitError,
			`is the gateway's address for clients`},
		"a web server":       {func(t *testing.T, l *listening) string { return plain(t, l.to(saying(200, "", empty))) }, exitError, `answered 200, and not as the admin API does; the admin address is`},
		"one that redirects": {func(t *testing.T, l *listening) string { return redirecting(t, l) }, exitError, `answered 302, and not as the admin API does`},
		"one that refuses": {func(t *testing.T, l *listening) string {
			return plain(t, l.to(saying(401, "Www-Authenticate: Bearer", empty)))
		}, exitError, `answered 401, and not as`},
		"HTTPS by http://":       {func(t *testing.T, l *listening) string { return "http" + strings.TrimPrefix(secure(t, l), "https") }, exitError, `speaks TLS; give --admin https://127`},
		"TLS that is none of Go": {func(t *testing.T, l *listening) string { return "http://" + l.raw(t, "\x15\x03\x01\x00\x02\x02\x0a") }, exitError, `speaks TLS; give --admin https://127`},
		"HTTP by https://": {func(t *testing.T, l *listening) string {
			return "https" + strings.TrimPrefix(plain(t, l.to(saying(200, "", empty))), "http")
		}, exitError, `speaks HTTP without TLS; give --admin http://127`},
		"an unknown authority": {secure, exitError, `is of no authority that is known here; give the authority's: --admin-ca FILE, or STET_ADMIN_CA`},
		"no HTTP":              {func(t *testing.T, l *listening) string { return "http://" + l.raw(t, "SSH-2.0-OpenSSH_9.6\r\n") }, exitError, `is no HTTP server; the admin address is`},
		"one that hangs up":    {func(t *testing.T, l *listening) string { return "http://" + l.raw(t, "") }, exitUnreachable, `no gateway answers at .*: .*; check that it runs and that this is its admin address`},
		"a closed port":        {func(t *testing.T, _ *listening) string { return "http://" + freePort(t) }, exitUnreachable, `connection refused; check that it runs and that this is its admin address`},
		"no such socket":       {func(t *testing.T, _ *listening) string { return "unix:" + filepath.Join(t.TempDir(), "none") }, exitUnreachable, `no such file or directory; check that it runs`},
		"no URL":               {func(*testing.T, *listening) string { return "127.0.0.1:8081" }, exitUsage, `needs a URL such as http://127.0.0.1:8081, or unix:PATH`},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &listening{}
			at := c.at(t, seen)
			for _, args := range [][]string{{"keys", "list"}, {"keys", "release", "k", "--reason", "secret-reason", "--yes"},
				{"audit", "list"}, {"healthcheck"}} {
				status, text := answered(t, append(args, "--admin", at)...)
				if status != c.status || !regexp.MustCompile(c.want).MatchString(text) {
					t.Errorf("%q ends with %d: %s", args, status, text)
				}
			}
			if heard := seen.heard(); strings.Contains(heard, aToken) || strings.Contains(heard, "secret-reason") {
				t.Errorf("it was told: %q", heard)
			}
		})
	}
}

func plain(t *testing.T, h http.Handler) string {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func secure(t *testing.T, l *listening) string {
	srv := httptest.NewUnstartedServer(l.to(saying(200, "", "")))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL
}

// redirecting sends everybody to a real admin API, over there.
func redirecting(t *testing.T, l *listening) string {
	real := plain(t, l.to(saying(200, admin.Marker+": 1", `{"keys":[],"next_cursor":""}`)))
	return plain(t, l.to(http.RedirectHandler(real, http.StatusFound)))
}

// An answer is checked each time: another server may have taken the gateway's place.
func TestEveryAnswerIsChecked(t *testing.T) { // D03
	t.Setenv(adminTokenVariable, aToken)
	at := plain(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" {
			w.Header().Set(admin.Marker, "1")
		}
		_, _ = io.WriteString(w, `{"keys":[],"next_cursor":""}`)
	}))
	if status, text := answered(t, "keys", "list", "--admin", at); status != exitError ||
		!strings.Contains(text, "not as the admin API does") {
		t.Errorf("%d %s", status, text)
	}
}

// What is said of a token says where it came from.
func TestRefusedTokens(t *testing.T) { // D03, D11
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	at := plain(t, admin.New(e, admin.Config{Tokens: []admin.Token{admin.NewToken("sue", aToken, operate.Viewer)}}))
	for _, c := range []struct {
		token, want string
		args        []string
	}{
		{"", `asks for a token; put the token into STET_ADMIN_TOKEN$`, []string{"keys", "list"}},
		{"not-that-one", `^stet: http://\S+ refused the token in STET_ADMIN_TOKEN: it is none that is known here, or it has expired$`, []string{"keys", "list"}},
		{aToken, `^stet: this takes the role operator; sue has the role viewer$`, []string{"keys", "release", "k", "--reason", "x", "--yes"}},
		{aToken, `^stet: this takes the role operator; sue has the role viewer$`, []string{"keys", "show", "k", "--reveal"}},
	} {
		t.Setenv(adminTokenVariable, c.token)
		if status, text := answered(t, append(c.args, "--admin", at)...); status != exitNotAllowed ||
			!regexp.MustCompile(c.want).MatchString(text) {
			t.Errorf("%q: %d %s", c.token, status, text)
		}
	}
	t.Setenv(adminTokenVariable, "not-that-one")
	for range 4 {
		answered(t, "keys", "list", "--admin", at)
	}
	if status, text := answered(t, "keys", "list", "--admin", at); status != exitNotAllowed ||
		!strings.Contains(text, "the next one is looked at in 1 s") {
		t.Errorf("%d %s", status, text)
	}
}

// The admin listener with TLS wants a certificate of its authority, and a token; the socket beside
// it neither.
func TestAdminTLSAndSocket(t *testing.T) { // D12
	t.Chdir(t.TempDir())
	ca := authority(t)
	ca.issue(t, "server", x509.ExtKeyUsageServerAuth)
	ca.issue(t, "operator", x509.ExtKeyUsageClientAuth)
	if err := os.WriteFile("token", []byte(aToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, address := serving(t, `
admin:
  token_file: token
  socket: ./admin.sock
  tls: { cert_file: server.pem, key_file: server.key, client_ca_file: ca.pem }
`)
	at := "https://" + address
	works := func(args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if status := run(context.WithoutCancel(t.Context()), args, nil, &stdout, &stderr); status != exitFine {
			t.Errorf("%q: %d %s%s", args, status, &stdout, &stderr)
		}
	}
	fails := func(want string, args ...string) {
		t.Helper()
		if status, text := answered(t, args...); status == exitFine || !strings.Contains(text, want) {
			t.Errorf("%q: %d %s", args, status, text)
		}
	}
	shown := []string{"--admin-ca", "ca.pem", "--admin-cert", "operator.pem", "--admin-key", "operator.key"}
	works(append([]string{"healthcheck", "--admin", at}, shown...)...)
	fails("asks for a token", append([]string{"keys", "list", "--admin", at}, shown...)...)
	fails("asks for a token", "keys", "list", "--admin", "unix:admin.sock")
	t.Setenv(adminTokenVariable, aToken)
	works(append([]string{"keys", "list", "--json", "--admin", at}, shown...)...)
	works("keys", "list", "--json", "--admin", "unix:admin.sock")
	works("healthcheck", "--admin", "unix:./admin.sock")
	fails("asks for a certificate of its own authority", "keys", "list", "--admin", at, "--admin-ca", "ca.pem")
	fails("is of no authority that is known here", "keys", "list", "--admin", at)
	fails("speaks TLS; give --admin https://", "keys", "list", "--admin", "http://"+address)
	fails("are for --admin https://", "keys", "list", "--admin", "http://"+address, "--admin-ca", "ca.pem")
	fails("--admin-ca: server.key holds no certificate", "keys", "list", "--admin", at, "--admin-ca", "server.key")
	t.Setenv("STET_ADMIN_CA", "ca.pem")
	t.Setenv("STET_ADMIN_CERT", "operator.pem")
	t.Setenv("STET_ADMIN_KEY", "operator.key")
	works("keys", "list", "--json", "--admin", at)
}

// A renewed certificate is shown to operators from the next connection on; a token that is taken
// out of the file is refused.
func TestAdminTLSIsReloaded(t *testing.T) { // D01, D12
	t.Chdir(t.TempDir())
	old := authority(t)
	old.issue(t, "server", x509.ExtKeyUsageServerAuth)
	if err := os.Rename("ca.pem", "old.pem"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("token", []byte(aToken), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := "admin: { listen: '127.0.0.1:0', token_file: token, tls: { cert_file: server.pem, key_file: server.key } }\nlisten: '127.0.0.1:0'\nstore: { dsn: 'memory:' }\n"
	g := newReloading(t, "", "upstream: "+creating(t)+"\n"+conf)
	at := "https" + strings.TrimPrefix(g.admin, "http")
	status := func(ca string) exit {
		var stdout, stderr bytes.Buffer
		return run(t.Context(), []string{"keys", "list", "--json", "--admin", at, "--admin-ca", ca}, nil, &stdout, &stderr)
	}
	t.Setenv(adminTokenVariable, aToken)
	if got := status("old.pem"); got != exitFine {
		t.Fatalf("before: %d", got)
	}
	authority(t).issue(t, "server", x509.ExtKeyUsageServerAuth)
	if said := g.reload("upstream: " + creating(t) + "\n" + conf); said.err != "" {
		t.Fatal(said.err)
	}
	if status("ca.pem") != exitFine || status("old.pem") != exitError {
		t.Error("the certificate is still the old one")
	}
	if err := os.WriteFile("token", []byte("another-token-of-twenty-bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.reload("upstream: " + creating(t) + "\n" + conf)
	if got := status("ca.pem"); got != exitNotAllowed {
		t.Errorf("the old token: %d", got)
	}
}

// A gateway that is not ready is told from one that is, and from none.
func TestHealthcheck(t *testing.T) {
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	draining := false
	at := plain(t, admin.New(e, admin.Config{Draining: func() bool { return draining }}))
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"healthcheck", "--admin", at}, nil, &stdout, &stderr); status != exitFine ||
		stdout.String() != "ready\n" {
		t.Errorf("%d %q %q", status, &stdout, &stderr)
	}
	draining = true
	if status, text := answered(t, "healthcheck", "--admin", at); status != exitError ||
		text != "stet: the gateway is not ready: draining" {
		t.Errorf("%d %s", status, text)
	}
}
