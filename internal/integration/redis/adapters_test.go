package redis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each client beside redisstore is imported by the tests of this package, which run the laws
// through every adapter.
func TestEveryClientIsTested(t *testing.T) {
	mods, err := filepath.Glob("../../../store/redisstore/*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	for _, mod := range mods {
		name := filepath.Base(filepath.Dir(mod))
		if !strings.Contains(tests.String(), "store/redisstore/"+name+`"`) || !strings.Contains(tests.String(), name+".New(") {
			t.Errorf("%s is in no test: give it an adapter", name)
		}
	}
	if len(mods) != len(adapters) {
		t.Errorf("there are %d clients and %d adapters", len(mods), len(adapters))
	}
}
