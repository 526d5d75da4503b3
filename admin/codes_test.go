package admin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
	for _, of := range []string{"*.go", "../operate/*.go"} {
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
