// Package docs_test holds the documents to the tree.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/tier"
)

// Every threat is stopped by something that a test keeps: the register names it, and it is there.
func TestThreatsNameTheirTests(t *testing.T) {
	tier.Campaign(t, "a test that gets another name would have to change documents, too")
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

// The introduction of the root package lists the packages that others can import, and the program:
// each of them once, and no other.
func TestTheIntroductionNamesEveryRoom(t *testing.T) {
	text, err := os.ReadFile("../doc.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^//\t([a-z]+(?:/[a-z]+)*) {2,}\S`).FindAllStringSubmatch(string(text), -1) {
		listed[m[1]]++
	}
	there := map[string]bool{"cmd/stet": true}
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
			there[room] = true
		}
		return nil
	})
	if err != nil || len(there) < 10 {
		t.Fatalf("%d packages, %v", len(there), err)
	}
	for room := range there {
		if listed[room] != 1 {
			t.Errorf("doc.go lists %s %d times", room, listed[room])
		}
	}
	for room := range listed {
		if !there[room] {
			t.Errorf("doc.go lists %s, which is not in the tree", room)
		}
	}
}

// Each package that makes a store or wraps one has the laws run on it, and a word in stores.md.
func TestEveryStoreKeepsTheLaws(t *testing.T) {
	page, err := os.ReadFile("stores.md")
	if err != nil {
		t.Fatal(err)
	}
	makes := regexp.MustCompile(`\) Create\(\w+ context\.Context, \w+ stet\.Record\)|ability\.Wrap\(|stet\.Store += \(\*Store\)\(nil\)`)
	stores, tests := map[string]bool{}, map[string]string{}
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
		switch {
		case strings.HasSuffix(path, "_test.go"):
			tests[dir] += string(text)
		case strings.HasPrefix(dir, "store/") && !strings.HasPrefix(dir, "store/storetest") && makes.Match(text):
			stores[dir] = true
		}
		return err
	})
	if err != nil || len(stores) < 7 {
		t.Fatalf("%d stores, %v", len(stores), err)
	}
	for dir := range stores {
		kept := false
		for _, text := range tests {
			kept = kept || strings.Contains(text, `/`+dir+`"`) && strings.Contains(text, "storetest.Run(")
		}
		if !kept {
			t.Errorf("no test calls storetest.Run for %s", dir)
		}
		if name := filepath.Base(dir); !strings.Contains(string(page), name) {
			t.Errorf("stores.md does not name %s", name)
		}
	}
}

// The table of changes in CONTRIBUTING.md names tests and files that are there.
func TestContributingNamesWhatIsThere(t *testing.T) {
	tier.Campaign(t, "a test that gets another name would have to change documents, too")
	text, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	there, files, n := tests(t), everyName(t), 0
	for _, m := range regexp.MustCompile("`((?:Test|Fuzz)\\w+|[a-z]+(?:/[\\w.]+)*(?:/[\\w.]+|\\.go|\\.md))`").FindAllStringSubmatch(string(text), -1) {
		n++
		if name := m[1]; strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") {
			if !there[name] && name != "TestPeer_" {
				t.Errorf("CONTRIBUTING.md names %s, which is no test", name)
			}
		} else if !strings.Contains(name, "NAME") && !strings.Contains(name, "CODE") && name != "testing/synctest" && !files[name] {
			t.Errorf("CONTRIBUTING.md names %s, which is not there", name)
		}
	}
	if n < 50 {
		t.Errorf("only %d names were found", n)
	}
}

// everyName has the paths of all files and folders of the tree, and the names of the files alone.
func everyName(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == ".git" {
			return fs.SkipDir
		}
		names[strings.TrimPrefix(filepath.ToSlash(path), "../")], names[filepath.Base(path)] = true, true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// What documents and help call by a package and a name is in that package.
func TestDocumentsNameWhatIsThere(t *testing.T) {
	tier.Campaign(t, "a test that gets another name would have to change documents, too")
	source, clause := map[string]string{}, regexp.MustCompile(`(?m)^package (\w+)$`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if m := clause.FindSubmatch(text); m != nil {
			source[string(m[1])] += string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	named := regexp.MustCompile(`\b([a-z]+)\.((?:max)?[A-Z]\w*)(?:\.([A-Z]\w*))?`)
	for _, path := range append(documents, "../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../cmd/stet/words.md", "../cmd/stet/help.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			code, ours := source[m[1]]
			if !ours {
				continue
			}
			n++
			for _, name := range m[2:] {
				if name != "" && !regexp.MustCompile(`\b`+name+`\b`).MatchString(code) {
					t.Errorf("%s: nothing of package %s is called %s", path, m[1], name)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d names were found", n)
	}
}
