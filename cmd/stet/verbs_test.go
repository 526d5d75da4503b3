package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Each command is in a document, and a script of testdata types it.
func TestEveryCommandIsShownAndTyped(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	read := func(patterns ...string) string {
		var all strings.Builder
		for _, p := range patterns {
			files, err := filepath.Glob(p)
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: %d files, %v", p, len(files), err)
			}
			for _, f := range files {
				text, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(text)
			}
		}
		return all.String()
	}
	documents := read("../../README.md", "../../docs/*.md")
	scripts := read("testdata/script/*.txtar", "*_test.go")
	for _, n := range parser.Model.Leaves(true) {
		words := strings.Fields(n.FullPath())[1:]
		if !strings.Contains(documents, strings.Join(append([]string{"stet"}, words...), " ")) {
			t.Errorf("no document shows %s", strings.Join(words, " "))
		}
		typed := strings.Contains(scripts, "stet "+strings.Join(words, " ")) || strings.Contains(scripts, `"`+strings.Join(words, `", "`)+`"`)
		if !typed {
			t.Errorf("no test types %s", strings.Join(words, " "))
		}
	}
}
