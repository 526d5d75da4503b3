package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is a module with one benchmark, in a version "old" that reports the figure 10 and a
// later one that reports 25.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	t.Setenv("GOWORK", "off")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=n", "-c", "user.email=e"}, args...)...)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, said)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	benchmark := func(name, figure string) string {
		return "package p\n\nimport \"testing\"\n\nfunc Benchmark" + name + "(b *testing.B) {\n" +
			"\tb.Run(\"x=1\", func(b *testing.B) { b.ReportMetric(" + figure + ", \"pairs/s\") })\n}\n"
	}
	write("go.mod", "module small\n\ngo 1.26.0\n")
	write("p/p_test.go", benchmark("Pairs", "10"))
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "old")
	git("tag", "old")
	write("p/p_test.go", benchmark("Pairs", "25"))
	write("new/n_test.go", benchmark("New", "3")+"\nfunc BenchmarkBroken(b *testing.B) { b.Fatal(\"no server\") }\n")
	return root
}

func TestTable(t *testing.T) {
	root := repository(t)
	list := `
before old
pairs, faster | p   | Pairs/x=1 1x | pairs/s | >= 2× before
pairs, twice  | p   | Pairs/x=1 1x | pairs/s | >= 3× before
pairs, at all | p   | Pairs/x=1 1x | pairs/s | <= 25
new           | new | New/x=1 1x   | pairs/s | >= 3
missing       | p   | Pairs/x=1 1x | other/s | >= 1
broken        | new | Broken 1x    | pairs/s | >= 3
`
	var out strings.Builder
	if err := run(t.Context(), &out, root, list, "", "", 2); err == nil || !strings.Contains(err.Error(), "Broken of now") || !strings.Contains(err.Error(), "no server") {
		t.Fatalf("of what failed it says %v", err)
	}
	for _, line := range []string{
		"| pairs, faster | pairs/s ≥ 2× before | 25 | 10 | 2.5 (2.5–2.5) | held |",
		"| pairs, twice | pairs/s ≥ 3× before | 25 | 10 | 2.5 (2.5–2.5) | **missed** |",
		"| pairs, at all | pairs/s ≤ 25 | 25 | 10 | 2.5 (2.5–2.5) | held |",
		"| new | pairs/s ≥ 3 | 3 | — | — | held |",
		"| missing | other/s ≥ 1 | — | — | — | **not measured** |",
		"| broken | pairs/s ≥ 3 | — | — | — | **not measured** |",
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("the table lacks %q:\n%s", line, out.String())
		}
	}
	if left, err := exec.Command("git", "-C", root, "worktree", "list").Output(); err != nil || strings.Count(string(left), "\n") != 1 {
		t.Errorf("work trees stay behind: %s, %v", left, err)
	}
}

// The list of this tree can be read, and names packages and benchmarks that are there.
func TestGoals(t *testing.T) {
	_, rows, err := parse(goals)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		name, _, _ := strings.Cut(r.suite.bench, "/")
		files, _ := filepath.Glob(filepath.Join("..", "..", r.suite.pkg, "*_test.go"))
		var found bool
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "func Benchmark"+name+"(")
		}
		if !found {
			t.Errorf("%s: %s has no Benchmark%s", r.work, r.suite.pkg, name)
		}
	}
	for _, line := range []string{"a | b | c | d", "a | b | c | d | >= fast", "a | b | c | d | == 1"} {
		if _, _, err := parse(line); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
}
