package admin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/stethttp"
)

// Operators find every problem code of the API in docs/operate.md, with its status.
func TestEveryProblemIsExplained(t *testing.T) {
	text, err := os.ReadFile("../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "**What the admin API refuses**")
	table, _, _ = strings.Cut(table, "\n## ")
	var files []string
	for _, of := range []string{"*.go", "../operate/*.go", "../internal/reply/*.go"} {
		names, err := filepath.Glob(of)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, names...)
	}
	n := 0
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`Status: *(\d+), Code: *"([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
			if n++; !regexp.MustCompile(`(?m)^\| ` + m[1] + " [^|]*`" + m[2] + "`").MatchString(table) {
				t.Errorf("%s answers %s %s, and docs/operate.md does not say when", name, m[1], m[2])
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d codes were found", n)
	}
}

// The problems of the API are of the type that the configuration says, or of the project's own pages.
func TestProblemsAreOfTheBase(t *testing.T) { // X01
	for base, want := range map[string]string{"https://errors.example/": "https://errors.example/", "": stethttp.DefaultProblemBase} {
		d := newDesk(t, admin.Config{ProblemBase: base}, nil)
		d.refused("/api/v1/keys/s/none", 404, "not-found")
		res, body := d.get("/api/v1/keys/s/none")
		if !strings.HasPrefix(body, `{"type":"`+want+`not-found","title":"There is no such thing","status":404,"detail":`) ||
			res.ContentLength != int64(len(body)) || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("with the base %q: %v %s", base, res.Header, body)
		}
	}
}
