package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// README shows this program whole, and its curl line gets the first answer twice. Both, and the
// line that starts a gateway, are on its first screen.
func TestReadmeShowsThis(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	main, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(readme), "```go\n")
	program, _, _ = strings.Cut(program, "```")
	if !strings.HasPrefix(program, "package main\n") || !strings.HasSuffix(string(main), program) {
		t.Fatalf("main.go does not end with the program that README shows:\n%s", program)
	}
	if above, _, ok := strings.Cut(string(readme), "\n    stet gateway --upstream "); !ok || strings.Count(above, "\n") >= 39 {
		t.Error("README's first 40 lines do not start a gateway")
	}
	line := regexp.MustCompile(`(?m)curl -i localhost:3000/.*$`).FindString(string(readme))
	if line == "" || !strings.Contains(string(main), line) {
		t.Fatalf("README shows the command %q, and main.go another one", line)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("REQUIRE_SERVERS") != "" {
			t.Fatal(err)
		}
		t.Skip("curl is not installed: ", err)
	}
	addr := serve(t, program)
	curl := strings.Replace(strings.ReplaceAll(line, "localhost:3000", addr), "curl ", "curl -sS --retry 10 --retry-connrefused ", 1)
	var answers [2]string
	for i := range answers {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", curl).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		answers[i] = string(out)
	}
	_, first, _ := strings.Cut(answers[0], "\r\n\r\n")
	_, second, _ := strings.Cut(answers[1], "\r\n\r\n")
	if !strings.HasPrefix(first, "charged at") || second != first ||
		strings.Contains(answers[0], "Idempotent-Replayed") || !strings.Contains(answers[1], "Idempotent-Replayed: true") {
		t.Errorf("the first answer is\n%s\nthe second one\n%s", answers[0], answers[1])
	}
}

// serve builds the program with a free port in the place of 3000, runs it for as long as the test,
// and returns its address.
func serve(t *testing.T, program string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	replaced, overlay, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "quickstart")
	if err := os.WriteFile(replaced, []byte(strings.Replace(program, "localhost:3000", addr, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("main.go")
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {here: replaced}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := exec.CommandContext(t.Context(), binary) // killed when the test is over
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() })
	return addr
}
