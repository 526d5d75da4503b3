package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/tier"
)

// small is a tree of one module.
func small(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	t.Setenv("GOWORK", "off")
	for name, text := range map[string]string{
		"go.mod": "module small\n\ngo 1.26.0\n",
		"a.go":   "package small\n\nfunc add(a, b int) int { return a + b }\n\nfunc sub(a, b int) int { return a - b }\n",
		"a_test.go": "package small\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif add(1, 2) != 3 {\n\t\tt.Error(\"no\")\n\t}\n}\n\n" +
			"func TestSub(t *testing.T) { sub(1, 2) }\n\nfunc TestBad(t *testing.T) { t.Error(\"always\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCheck(t *testing.T) {
	tier.Campaign(t, "a change of any line that the list quotes would have to change the list, too")
	root := small(t)
	entry := func(from, to, test string) string {
		return "why\n  a.go\n  - " + from + "\n  + " + to + "\n  ? . " + test + "\n"
	}
	for name, c := range map[string]struct{ list, says, err string }{
		"noticed":          {entry("a + b", "a * b", "TestAdd"), "caught  line 1: why (a.go)", ""},
		"survives":         {entry("a - b", "a * b", "TestSub"), "TestSub in . passes", "1 of the list failed"},
		"does not fit":     {entry("a / b", "a * b", "TestAdd"), `"a / b" occurs 0 times in a.go`, "1 of the list failed"},
		"fits twice":       {entry("int { return a", "int { return b", "TestAdd"), "occurs 2 times", "1 of the list failed"},
		"does not compile": {entry("a + b", "a + c", "TestAdd"), "it does not compile", "1 of the list failed"},
		"no such test":     {entry("a + b", "a * b", "TestMul"), "there is no such test", "1 of the list failed"},
		"fails anyway":     {entry("a + b", "a * b", "TestBad"), "TestBad in . fails without any change", "1 of the list failed"},
		"behind a place":   {"why\n  a.go\n  @ func sub\n  - a - b\n  + b\n  ? . TestSub\n", "TestSub in . passes", "1 of the list failed"},
		"behind nothing":   {"why\n  a.go\n  @ func sub\n  - add\n  + b\n  ? . TestSub\n", `"add" does not come behind "func sub" in a.go`, "1 of the list failed"},
		"half an entry":    {"why\n  a.go\n  - a + b\n", "", `want the line with "+"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := check(t.Context(), &out, root, []byte(c.list), "", 0, 0)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("it says\n%s\nwant %q", out.String(), c.says)
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(root, "a.go")); err != nil || !strings.Contains(string(text), "a + b") {
		t.Errorf("the tree was changed: %s, %v", text, err)
	}
}

// Few of the list are chosen by a seed; entries that do not fit are named all the same.
func TestCount(t *testing.T) {
	tier.Campaign(t, "a change of any line that the list quotes would have to change the list, too")
	root := small(t)
	entry := "why\n  a.go\n  - a + b\n  + a * b\n  ? . TestAdd\n"
	var out strings.Builder
	stale := "stale\n  a.go\n  - a / b\n  + a\n  ? . TestAdd\n"
	if err := check(t.Context(), &out, root, []byte(strings.Repeat(entry, 3)+stale), "", 1, 7); err == nil {
		t.Error("an entry that does not fit was not tried, and so passed")
	}
	out.Reset()
	if err := check(t.Context(), &out, root, []byte(strings.Repeat(entry, 3)), "", 1, 7); err != nil {
		t.Error(err)
	}
	if said := out.String(); strings.Count(said, "caught") != 1 || !strings.Contains(said, "1 changes") {
		t.Errorf("one of three:\n%s", said)
	}
}

// The list of this tree: each entry fits, names a test that is there in the text, and there are
// enough of them.
func TestList(t *testing.T) {
	tier.Campaign(t, "a change of any line that the list quotes would have to change the list, too")
	all, err := parse("mutants.txt", list)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 60 {
		t.Errorf("%d changes, want 60", len(all))
	}
	seen := map[string]bool{}
	for i := range all {
		m := &all[i]
		if _, err := m.changed("../.."); err != nil {
			t.Errorf("%s: %v", m, err)
		}
		if !tested(t, m) {
			t.Errorf("%s: package %s has no test %s", m, m.pkg, m.test)
		}
		if key := m.file + m.seek + m.from + m.to; seen[key] {
			t.Errorf("%s is there twice", m)
		} else {
			seen[key] = true
		}
	}
}

var tests = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(`)

// tested reports whether the package has the test, or one that the pattern names. What comes after
// a slash is not looked at.
func tested(t *testing.T, m *mutant) bool {
	files, err := filepath.Glob(filepath.Join("../..", m.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	top, _, _ := strings.Cut(m.test, "/")
	pattern, err := regexp.Compile("^(?:" + top + ")$")
	if err != nil {
		return false
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range tests.FindAllSubmatch(text, -1) {
			if pattern.Match(name[1]) {
				return true
			}
		}
	}
	return false
}
