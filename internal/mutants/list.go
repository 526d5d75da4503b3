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
	seek string // occurs once in file; "": there is none
	from string // occurs once in file, or is the first behind seek
	to   string
	pkg  string // of the test, from the tree's root
	test string // its name, or a pattern as -run takes it
}

func (m *mutant) String() string { return fmt.Sprintf("line %d: %s (%s)", m.line, m.why, m.file) }

// parse reads a list. Each mutant is five or six lines, and a blank one or a comment (#) may
// stand between two:
//
//	what the change takes away
//	  FILE
//	  @ TEXT BEFORE
//	  - TEXT
//	  + TEXT INSTEAD
//	  ? PACKAGE TEST
//
// Blanks around the texts do not count. The line with @ may be missing: then the text occurs once
// in the file.
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
		}{{"", &m.file}, {"@", &m.seek}, {"-", &m.from}, {"+", &m.to}, {"?", &test}} {
			i++
			if part.mark == "@" && i < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[i]), "@") {
				i--
				continue
			}
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
	once, at := m.from, 0
	if m.seek != "" {
		once = m.seek
	}
	if n := bytes.Count(was, []byte(once)); n != 1 {
		return nil, fmt.Errorf("%q occurs %d times in %s, and has to occur once", once, n, m.file)
	}
	if m.seek != "" {
		at = bytes.Index(was, []byte(m.seek)) + len(m.seek)
	}
	before, after, ok := bytes.Cut(was[at:], []byte(m.from))
	if !ok {
		return nil, fmt.Errorf("%q does not come behind %q in %s", m.from, m.seek, m.file)
	}
	return bytes.Join([][]byte{was[:at], before, []byte(m.to), after}, nil), nil
}
