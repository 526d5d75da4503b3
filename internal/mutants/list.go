package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one change to the tree that a test has to notice.
type mutant struct {
	line int    // of the list
	why  string // what the change takes away
	file string // from the tree's root
	from string // occurs once in file
	to   string
	pkg  string // of the test, from the tree's root
	test string // its name, or a pattern as -run takes it
}

func (m *mutant) String() string { return fmt.Sprintf("line %d: %s (%s)", m.line, m.why, m.file) }

// parse reads a list. Each mutant is five lines, and a blank one or a comment (#) may stand between two:
//
//	what the change takes away
//	  FILE
//	  - TEXT
//	  + TEXT INSTEAD
//	  ? PACKAGE TEST
//
// Blanks around the texts do not count.
func parse(name string, doc []byte) ([]mutant, error) {
	var all []mutant
	lines := strings.Split(string(doc), "\n")
	for i := 0; i < len(lines); i++ {
		if text := strings.TrimSpace(lines[i]); text == "" || text[0] == '#' {
			continue
		}
		m := mutant{line: i + 1, why: strings.TrimSpace(lines[i])}
		var test string
		for _, part := range []struct {
			mark string
			to   *string
		}{{"", &m.file}, {"-", &m.from}, {"+", &m.to}, {"?", &test}} {
			i++
			rest, ok := "", i < len(lines) && strings.HasPrefix(lines[i], "  ")
			if ok {
				rest, ok = strings.CutPrefix(strings.TrimSpace(lines[i]), part.mark)
			}
			if !ok {
				return nil, fmt.Errorf("%s:%d: want the line with %q of the mutant in line %d", name, i+1, part.mark, m.line)
			}
			*part.to = strings.TrimSpace(rest)
		}
		var ok bool
		if m.pkg, m.test, ok = strings.Cut(test, " "); !ok || m.from == "" || m.file == "" {
			return nil, fmt.Errorf("%s:%d: a mutant needs a file, a text, a package and a test", name, m.line)
		}
		all = append(all, m)
	}
	return all, nil
}

// changed is the file as the mutant has it.
func (m *mutant) changed(root string) ([]byte, error) {
	was, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(was, []byte(m.from)); n != 1 {
		return nil, fmt.Errorf("%q occurs %d times in %s, and has to occur once", m.from, n, m.file)
	}
	return bytes.Replace(was, []byte(m.from), []byte(m.to), 1), nil
}
