package recipes

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What docs/http.md shows of a recipe is the file that was tested, below its imports.
func TestDoc(t *testing.T) {
	const doc = "../../docs/http.md"
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	block := regexp.MustCompile("(?s)<!-- internal/recipes/(\\w+\\.go) -->\n```go\n(.*?)```\n")
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		shown[m[1]] = m[2]
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if name == "doc.go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(string(source), "\n)\n\n")
		if shown[name] != code {
			t.Errorf("%s shows of %s\n%s\nand the file has\n%s", doc, name, shown[name], code)
		}
		delete(shown, name)
	}
	for name := range shown {
		t.Errorf("%s shows %s, which is not there", doc, name)
	}
}
