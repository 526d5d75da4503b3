package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// No key, body or fingerprint ever appears in a log line, a metric, an admin document or a list
// (I16).
func TestNothingTellsAKeyOrABody(t *testing.T) {
	const key, secret = "canary-key-7d1f0c52b9", "canary-body-63ae91"
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/crash":
			panic(http.ErrAbortHandler)
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/not":
			w.Header().Set("Stet-Outcome", "not-executed")
			w.WriteHeader(http.StatusConflict)
		case "/unasked": // C07: net/http says what came on an idle connection to the standard logger
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 "+secret+"\r\n\r\n")
			return
		}
		_, _ = io.WriteString(w, secret)
	}))
	defer upstream.Close()
	dir := t.TempDir()
	conf := "log_level: debug\npolicy: { key: { max_len: 40 }, max_response_bytes: 100, max_body_bytes: 1000 }\n"
	if err := os.WriteFile(dir+"/stet.yaml", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gatewayProcess{}
	if err := g.start(dir, os.Environ(), "gateway", "--config", "stet.yaml", "--listen", "127.0.0.1:0", "--admin",
		"127.0.0.1:0", "--upstream", upstream.URL); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.cmd.Process.Kill(); <-g.gone }()
	ready := regexp.MustCompile(`"listen":"([^"]+)","admin":"([^"]+)"`).FindStringSubmatch(g.wait(regexp.MustCompile(`"msg":"ready"`)))
	if ready == nil {
		t.Fatal(g.text())
	}
	send := func(path, key, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ready[1]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintln(res.StatusCode, string(text))
	}
	var told strings.Builder
	for i, path := range []string{"/ok", "/crash", "/busy", "/not"} {
		k := fmt.Sprintf("%s-%d", key, i)
		send(path, k, secret)
		send(path, k, secret)
		told.WriteString(send(path, k, secret+" another")) // refused: a problem document
	}
	told.WriteString(send("/ok", key+strings.Repeat("x", 40), secret))
	told.WriteString(send("/ok", key+`"broken`, secret))
	told.WriteString(send("/ok", key+"-big", strings.Repeat(secret, 100)))
	unasked, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ready[1]+"/unasked", nil)
	if err != nil {
		t.Fatal(err)
	}
	unasked.Header.Set("Te", "trailers") // not a plain exchange: it goes through net/http, which speaks
	if res, err := http.DefaultClient.Do(unasked); err != nil {
		t.Error(err)
	} else {
		_ = res.Body.Close()
	}
	if g.wait(regexp.MustCompile(`"level":"WARN","msg":"Unsolicited response received on idle HTTP channel starting with"`)) == "" {
		t.Errorf("what net/http says is not in the log: %s", g.text())
	}
	for _, path := range []string{"/metrics", "/api/v1/keys", "/policy.json", "/readyz", "/livez"} {
		res, err := http.Get("http://" + ready[2] + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, %v", path, res.StatusCode, err)
		}
		_ = res.Body.Close()
		told.Write(text)
	}
	for _, args := range [][]string{{"keys", "list"}, {"keys", "list", "--json"}, {"keys", "show", key + "-0"},
		{"keys", "show", key + "-0", "--json"}, {"keys", "show", key + "-none"}} {
		told.Write(said(dir, args...))
	}
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-g.gone
	told.WriteString(g.text())
	if n := strings.Count(g.text(), "\n"); n < 20 {
		t.Errorf("the log has only %d lines: is it the debug log?", n)
	}
	for line := range strings.Lines(told.String()) {
		if strings.Contains(line, key) || strings.Contains(line, secret) || strings.Contains(line, "canary") {
			t.Errorf("told: %s", line)
		}
	}
}

// said runs a command in dir and returns all it says.
func said(dir string, args ...string) []byte {
	self, err := os.Executable()
	if err != nil {
		return []byte(err.Error())
	}
	cmd := &exec.Cmd{Path: self, Args: append([]string{"stet"}, args...), Dir: dir}
	out, _ := cmd.CombinedOutput() // a status is an answer too
	return out
}
