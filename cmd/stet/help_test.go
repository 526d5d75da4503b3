package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Each command has examples in its help, and nothing else has help; what they show is a command
// line that is taken: its own command's first.
func TestEveryCommandHasExamples(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"stet.yaml": "{}", "answer.json": "{}"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parser, err := newParser(&world{stdout: io.Discard, stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, n := range parser.Model.Leaves(true) {
		path := strings.TrimPrefix(n.FullPath(), "stet ")
		known = append(known, path)
		_, example, _ := strings.Cut("\n"+n.Detail, "\nExamples:\n    stet ")
		if !strings.HasPrefix(example, strings.TrimSuffix(path, " list")) {
			t.Errorf("stet %s has no example: write one into help.md", path)
		}
	}
	examples := 0
	for _, m := range helps() {
		if !slices.Contains(known, m.word) {
			t.Errorf("help.md has help for %q, which is no command", m.word)
		}
		for line := range strings.Lines(m.text) {
			if command, ok := strings.CutPrefix(line, "    "); ok {
				examples++
				tryExample(t, parser, m.word, strings.TrimSpace(command))
			}
			if len(line) > 121 && line[0] != ' ' {
				t.Errorf("%s: a line of %d bytes: %s", m.word, len(line), line)
			}
		}
	}
	if examples < 100 {
		t.Errorf("there are only %d examples", examples)
	}
}

// tryExample parses an example as a shell and stet would, up to where a store would be opened.
func tryExample(t *testing.T, parser *kong.Kong, of, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, "   ") // what it is for
	for _, after := range []string{" > ", " | "} {
		line, _, _ = strings.Cut(line, after)
	}
	args := shellWords(strings.TrimSpace(strings.TrimPrefix(line, "watch ")))
	if len(args) < 2 || args[0] != "stet" {
		t.Errorf("%s: %q is no command line of stet", of, line)
		return
	}
	if i := slices.Index(args, "--keep"); i > 0 {
		args[i+1] = t.TempDir()
	}
	w := &world{ctx: t.Context(), stdout: io.Discard, stderr: io.Discard, given: map[string]bool{}}
	k, err := parseAgain(parser, args[1:])
	if err == nil && slices.ContainsFunc(k.Flags(), func(f *kong.Flag) bool { return f.Name == "yes" && !f.Hidden }) {
		k, err = parseAgain(parser, append(args[1:], "--yes")) // there is no terminal to ask on
	}
	if err == nil {
		for _, p := range k.Path {
			if p.Flag != nil {
				w.given[p.Flag.Name] = true
			}
		}
		err = checkValues(k)
	}
	if err == nil {
		err = w.check(partsOf(k.Selected().Target))
	}
	if err != nil {
		t.Errorf("%s: %s\n%v", of, line, err)
	}
}

// parseAgain parses with a parser that has parsed before: to make one takes long.
func parseAgain(parser *kong.Kong, args []string) (*kong.Context, error) {
	for _, n := range parser.Model.Leaves(false) {
		for _, f := range n.Flags {
			f.Set = false
		}
	}
	return parser.Parse(args)
}

// shellWords splits a line at blanks outside quotes.
func shellWords(line string) (words []string) {
	for _, m := range regexp.MustCompile(`(?:'[^']*'|[^ '])+`).FindAllString(line, -1) {
		words = append(words, strings.ReplaceAll(m, "'", ""))
	}
	return words
}
