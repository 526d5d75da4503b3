package stet_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
)

// What an Event's doc says of its words is what the engine says (G).
func TestEventsSayWhichWordsThereAre(t *testing.T) {
	doc, err := os.ReadFile("event.go")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "event.go" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for field, said := range map[string]string{
		"Op": `(?:called\(|observed\(|look\(ctx, o\.e, |forget\(ctx, )"(\w+)"`,
		"By": `(?:moved\([^\n]*, |swap\([^\n]*, |gone\([^\n]*, |By: )"(\w+)"\)?`,
	} {
		line := regexp.MustCompile(`(?m)^\t` + field + ` +string +// \w+: (.*)$`).FindSubmatch(doc)
		if line == nil {
			t.Fatalf("%s has no list of words any more", field)
		}
		listed := strings.Split(string(line[1]), ", ")
		var found []string
		for _, m := range regexp.MustCompile(said).FindAllStringSubmatch(source.String(), -1) {
			found = append(found, m[1])
		}
		slices.Sort(listed)
		slices.Sort(found)
		if found = slices.Compact(found); !slices.Equal(listed, found) {
			t.Errorf("%s is said to be one of %q, and the engine says %q", field, listed, found)
		}
	}
}

// Each kind of event has its name, as it is written in event.go.
func TestEventsHaveNames(t *testing.T) { // N06
	doc, err := os.ReadFile("event.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(doc), "\nconst (\n")
	list, _, _ = strings.Cut(list, "\n)")
	kind := stet.Transition
	for _, m := range regexp.MustCompile(`(?m)^\t([A-Z]\w+)`).FindAllStringSubmatch(list, -1) {
		want := strings.ToLower(regexp.MustCompile(`(\w)([A-Z])`).ReplaceAllString(m[1], "$1-$2"))
		if kind.String() != want {
			t.Errorf("%s is called %s", m[1], kind)
		}
		kind++
	}
	if kind != stet.Neglected+1 {
		t.Errorf("the list ends with %d, and the last kind is %d", kind-1, stet.Neglected)
	}
}
