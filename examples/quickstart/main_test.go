package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// What README shows is this program, and the line below it is answered twice alike (G).
func TestReadmeShowsThis(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, snippet, _ := strings.Cut(string(readme), "```go\n")
	snippet, _, _ = strings.Cut(snippet, "```")
	if code := "\t" + strings.ReplaceAll(strings.TrimSpace(snippet), "\n", "\n\t"); !strings.Contains(string(program), code) {
		t.Errorf("main.go does not have what README shows:\n%s", code)
	}
	line := regexp.MustCompile(`(?m)^curl -i localhost:3000/.*$`).FindString(string(readme))
	if line == "" || !strings.Contains(string(program), line) {
		t.Fatalf("README shows %q, and main.go another line", line)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("REQUIRE_SERVERS") != "" {
			t.Fatal(err)
		}
		t.Skip("curl is not installed: ", err)
	}
	mux, err := routes()
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(mux)
	defer srv.Close()
	twice := strings.ReplaceAll(line+"; "+line, "localhost:3000", srv.Listener.Addr().String())
	out, err := exec.CommandContext(t.Context(), "sh", "-c", twice).CombinedOutput()
	if err != nil || strings.Count(string(out), "HTTP/1.1 201 Created") != 2 || strings.Count(string(out), "Idempotent-Replayed: true") != 1 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSecondAnswerIsTheFirst(t *testing.T) {
	mux, err := routes()
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(mux)
	defer srv.Close()
	post := func() (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/charges", strings.NewReader(`{"amount": 1099}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", `"a-key-of-yours"`)
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	status, first := post()
	again, second := post()
	if status != http.StatusCreated || again != status || second != first {
		t.Fatalf("first %d %q, again %d %q", status, first, again, second)
	}
}
