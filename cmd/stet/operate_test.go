package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// What docs/operate.md says of its first gateway beside the commands, which TestOperateDoc types:
// what a charge is answered where nothing listens, and which paths operators have.
func TestOperateDocsFirstGateway(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	says := regexp.MustCompile("If nothing listens there, the\\s+charge gets (\\d+) `([a-z-]+)`").FindStringSubmatch(string(doc))
	if says == nil {
		t.Fatal("it does not say what a charge is answered where nothing listens")
	}
	row := regexp.MustCompile("(?m)^\\| `--admin .*$").FindString(string(doc))
	paths := regexp.MustCompile("`(/[a-z0-9./]+)`").FindAllStringSubmatch(row, -1)
	if len(paths) == 0 {
		t.Fatalf("no paths for operators: %q", row)
	}
	t.Chdir(t.TempDir())
	hold(t, "secret", "whsec_"+strings.Repeat("A", 32))
	gate := serve(t, "--upstream", "http://"+freePort(t), configured(t, "store: { dsn: 'memory:' }\nreconcile: { webhook: { secret_file: secret } }\n"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+gate.Listen+"/v1/charges", strings.NewReader("amount=1999"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "order-4711")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var problem struct{ Code string }
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil || res.Status[:3] != says[1] || problem.Code != says[2] {
		t.Errorf("%s %q, %v; the document says %s %q", res.Status, problem.Code, err, says[1], says[2])
	}
	for _, path := range paths {
		ask, want := http.Get, http.StatusOK
		if strings.HasPrefix(path[1], "/hooks/") {
			ask = func(url string) (*http.Response, error) { return http.Post(url, "application/json", nil) }
			want = http.StatusUnauthorized // it is not signed
		}
		res, err := ask("http://" + gate.Admin + path[1])
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s is answered with %s", path[1], res.Status)
		}
	}
}

// A flag beats an environment variable, and that beats the file; config show says which it was.
func TestWhichSettingWins(t *testing.T) {
	t.Chdir(t.TempDir())
	file := configured(t, "upstream: http://file:1\n")
	shows := func(want string, args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), append([]string{"config", "show", "--origin", file}, args...), nil, &stdout, &stderr)
		if status != exitFine || !regexp.MustCompile(`(?m)^upstream: `+want).Match(stdout.Bytes()) {
			t.Errorf("%q: %d, want %s\n%.200s%s", args, status, want, &stdout, &stderr)
		}
	}
	shows(`"http://file:1" +# stet.yaml:1:11$`)
	t.Setenv("STET_UPSTREAM", "http://environment:1")
	shows(`"http://environment:1" +# environment variable STET_UPSTREAM$`)
	shows(`"http://flag:1" +# flag --upstream$`, "--upstream", "http://flag:1")
}
