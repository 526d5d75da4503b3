package dsn

import (
	"os"
	"strings"
	"testing"
)

// Every kind of store that can be opened is named where a user looks for one: in the error about
// an unknown one, in the setting and the flag, and in docs/stores.md. A TLS form goes with its
// plain one.
func TestEverySchemeIsNamed(t *testing.T) {
	places := map[string]string{"forms": forms}
	for _, file := range []string{"../config/file.go", "../../stet/settings.go", "../../../docs/stores.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasSuffix(file, ".go") || strings.Contains(line, `yaml:"dsn"`) || strings.Contains(line, `sets:"store.dsn"`) {
				places[file] += line
			}
		}
	}
	for _, scheme := range schemes {
		scheme = strings.Replace(scheme, "rediss", "redis", 1)
		for place, text := range places {
			if !strings.Contains(text, scheme+":") {
				t.Errorf("%s does not name %s:", place, scheme)
			}
		}
	}
}
