// Package docs_test holds the documents to the tree.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every threat is stopped by something that a test keeps: the register names it, and it is there.
func TestThreatsNameTheirTests(t *testing.T) {
	doc, err := os.ReadFile("threats.md")
	if err != nil {
		t.Fatal(err)
	}
	there := tests(t)
	_, register, _ := strings.Cut(string(doc), "| kept by |\n")
	register, _, _ = strings.Cut(register, "\n\n")
	rows := strings.Split(register, "\n")[1:]
	if len(rows) < 15 {
		t.Fatalf("the register has %d rows; how it is written has changed", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 6 {
			t.Errorf("a row has asset, threat, baseline, what stops it, risk and test, not %d cells: %s", len(cells), row)
			continue
		}
		for name := range strings.SplitSeq(cells[5], ", ") {
			if name = strings.Trim(name, "`"); !there[name] {
				t.Errorf("%s: nothing is named %s", cells[1], name)
			}
		}
	}
}

var named = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(|\bID: "([A-Z]{2}-\d\d)"`)

// tests are the names of all tests, fuzz targets and cases of the project.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			all[m[1]+m[2]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The introduction of the root package names every package that others can import.
func TestTheIntroductionNamesEveryRoom(t *testing.T) {
	text, err := os.ReadFile("../doc.go")
	if err != nil {
		t.Fatal(err)
	}
	intro := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", " ")), " ")
	rooms := 0
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		room := strings.TrimPrefix(filepath.ToSlash(path), "../")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "internal" || d.Name() == "testdata" || room == "examples" || room == "cmd" || strings.HasPrefix(d.Name(), ".") && path != ".."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		if room = strings.TrimSuffix(strings.TrimSuffix(room, d.Name()), "/"); room != "" {
			rooms++
			if !regexp.MustCompile(`(^|[ (])` + regexp.QuoteMeta(room) + `([ ,.;:)]|$)`).MatchString(intro) {
				t.Errorf("doc.go does not name %s", room)
			}
		}
		return nil
	})
	if err != nil || rooms < 10 {
		t.Fatalf("%d files in rooms, %v", rooms, err)
	}
}
