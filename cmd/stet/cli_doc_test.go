package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

const (
	commandLineDoc = "../../docs/cli.md"
	operateDoc     = "../../docs/operate.md"
)

// Each command has a session in docs/cli.md, which TestCommandLineDoc types, below a heading.
func TestEveryCommandHasASession(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	doc := readFile(t, commandLineDoc)
	commands, _ := consoles(doc)
	var named []string
	for _, n := range parser.Model.Leaves(true) {
		name := "stet " + strings.Join(strings.Fields(n.FullPath())[1:], " ")
		typed := regexp.MustCompile(`(^|[ (])` + name + `([ ;)]|$)`).MatchString
		if !slices.ContainsFunc(commands, typed) {
			t.Errorf("no session types %s", name)
		}
		if verb := strings.Fields(name)[1]; !slices.Contains(named, verb) {
			named = append(named, verb)
		}
	}
	for _, verb := range named {
		if !regexp.MustCompile(`(?m)^### stet .*\b` + verb + `\b`).MatchString(doc) {
			t.Errorf("no heading has stet %s", verb)
		}
	}
}

// The console's labels that the incident of docs/operate.md quotes are on its pages.
func TestTheIncidentQuotesTheConsole(t *testing.T) {
	_, chapter, _ := strings.Cut(readFile(t, operateDoc), "\n## An incident\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	labels := regexp.MustCompile(`\*\*([^*]+)\*\*`).FindAllStringSubmatch(chapter, -1)
	if len(labels) < 20 {
		t.Fatalf("it quotes %d labels", len(labels))
	}
	var pages strings.Builder
	for _, pattern := range []string{"templates/*.html", "*.go"} {
		files, err := filepath.Glob("../../admin/console/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				pages.WriteString(readFile(t, file))
			}
		}
	}
	for _, label := range labels {
		text := strings.Join(strings.Fields(label[1]), " ")
		shown := "[>}\"`] *" + regexp.QuoteMeta(text) + "( *[<{\"`]|:)" // the text of an element, or a string
		if !regexp.MustCompile(shown).MatchString(pages.String()) {
			t.Errorf("no page of the console shows %q", text)
		}
	}
}

// What the console's menu offers is in the chapter about it.
func TestTheConsolesPagesAreDescribed(t *testing.T) {
	_, chapter, _ := strings.Cut(readFile(t, operateDoc), "\n## The console\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	frame := readFile(t, "../../admin/console/templates/frame.html")
	menu := regexp.MustCompile(`<li><a href="[^>]*>([^<]+)<`).FindAllStringSubmatch(frame, -1)
	if len(menu) < 7 {
		t.Fatalf("the menu has %d pages", len(menu))
	}
	for _, page := range menu {
		if !regexp.MustCompile(`(?m)^\| ([\w ]+, )?` + page[1] + `(,[\w ,]+)? \|`).MatchString(chapter) {
			t.Errorf("the chapter does not say what %s is for", page[1])
		}
	}
}

// The table of causes is made from what stet explain says of them.
func TestOperateDocsCauses(t *testing.T) {
	const head = "| cause | what happened | what to do |\n|---|---|---|\n"
	doc := readFile(t, operateDoc)
	before, rest, ok := strings.Cut(doc, head)
	if !ok {
		t.Fatal("there is no table of causes")
	}
	_, after, _ := strings.Cut(rest, "\n\n")
	var table strings.Builder
	for _, m := range meanings() {
		if is, do, _ := strings.Cut(strings.ReplaceAll(m.text, "\n", " "), " - "); m.kind == "cause" {
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", m.word, is, strings.TrimPrefix(do, "None."))
		}
	}
	now := before + head + table.String() + "\n" + after
	switch {
	case now != doc && *update:
		if err := os.WriteFile(operateDoc, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
	case now != doc:
		t.Error("the causes are not those of words.md; run go test ./cmd/stet -run TestOperateDocsCauses -update")
	}
}

// An id with a basis is one that the API takes, wherever it is shown.
func TestPinnedIDsInDocuments(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pins := 0
	for _, file := range append(files, "../../README.md", "../../CHANGELOG.md", "help.md", "words.md", "json_test.go") {
		for _, id := range regexp.MustCompile(`\bk_[^@\s"]*@[\w…]+`).FindAllString(readFile(t, file), -1) {
			if pins++; !regexp.MustCompile(`^(k_…@BASIS|k_[0-9a-f]{16}@[0-9a-f]{16})$`).MatchString(id) {
				t.Errorf("%s has %s", file, id)
			}
		}
	}
	if pins < 5 {
		t.Errorf("the documents have only %d", pins)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
