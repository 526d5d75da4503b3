package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/tier"
)

const top = "../.."

func openTree(t *testing.T) (*tree, string) {
	t.Helper()
	if _, err := exec.Command("git", "-C", top, "rev-parse").Output(); err != nil && os.Getenv("REQUIRE_SERVERS") == "" {
		t.Skip("the tree is not a git checkout, so that nothing says which files belong to it")
	}
	tree, err := open(top)
	if err != nil {
		t.Fatal(err)
	}
	version, err := tree.version()
	if err != nil {
		t.Fatal(err)
	}
	return tree, version
}

// What a user types works on the tree as it is: each module can be fetched by its version alone.
func TestEachModuleCanBeFetched(t *testing.T) {
	tier.Campaign(t, "it asks the network")
	tree, version := openTree(t)
	env := served(t, tree, version)
	for _, m := range tree.modules {
		t.Run(strings.TrimPrefix(m.dir, "./"), func(t *testing.T) {
			dir := t.TempDir()
			if m.path == project+"/cmd" {
				goRun(t, dir, append(env, "GOBIN="+dir), "install", "-trimpath", m.path+"/stet@"+version)
				out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "stet"), "version").Output()
				if err != nil || !strings.Contains(string(out), version) {
					t.Errorf("stet version: %q, %v", out, err)
				}
				return
			}
			goRun(t, dir, env, "mod", "init", "example.com/user")
			goRun(t, dir, env, "get", m.path+"@"+version)
			program := "package main\n\nfunc main() {}\n"
			for line := range strings.Lines(goRun(t, dir, env, "list", "-f", "{{if .GoFiles}}{{.Name}} {{.ImportPath}}{{end}}", m.path+"/...")) {
				name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
				if path != "" && name != "main" && !strings.Contains(path, "/internal/") && inModule(tree, path) == m.path {
					program = strings.Replace(program, "\n\n", "\n\nimport _ \""+path+"\"\n", 1)
				}
			}
			if !strings.Contains(program, "import") {
				t.Fatal("the module has no package to import")
			}
			if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			goRun(t, dir, env, "build", "-trimpath", "-o", "program", ".")
			if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "program")).CombinedOutput(); err != nil {
				t.Errorf("the program does not run: %v\n%s", err, out)
			}
		})
	}
}

// untidy are modules that go mod tidy cannot judge everywhere. It loads the tests of dependencies
// too, and those of modernc.org/sqlite import a version of github.com/google/pprof that not every
// proxy serves.
var untidy = []string{"./cmd", "./examples/payments"}

// A checkout of a release builds without go.work: go.mod and go.sum hold what each module needs
// and, as far as go mod tidy can tell, nothing else.
func TestEachModuleStandsAlone(t *testing.T) {
	tier.Campaign(t, "it asks the network")
	tree, version := openTree(t)
	copied := t.TempDir()
	for _, f := range tree.files {
		text, err := os.ReadFile(filepath.Join(top, f))
		if err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(copied, f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(copied, f), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree.root = copied
	if err := tree.setSums(); err != nil {
		t.Fatal(err)
	}
	env := slices.DeleteFunc(served(t, tree, version), func(v string) bool { return strings.HasPrefix(v, "GOFLAGS=") })
	for _, m := range tree.modules {
		dir, env := filepath.Join(copied, m.dir), append(env, "GOFLAGS=-mod=readonly")
		goRun(t, dir, env, "list", "-deps", "-test", "./...")
		if !slices.Contains(untidy, m.dir) {
			goRun(t, dir, env, "mod", "tidy", "-diff")
		}
	}
}

// The workspace builds without the network because go.work has each module at the version that the
// others require.
func TestOneVersion(t *testing.T) {
	tree, version := openTree(t)
	var drop []string
	for _, m := range tree.modules {
		drop = append(drop, "-dropreplace="+m.path+"@"+version)
	}
	slices.Sort(drop)
	have, err := tree.replaced()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Sort(have); !slices.Equal(have, drop) {
		t.Errorf("go.work replaces %v, not %v", have, drop)
	}
	for _, m := range tree.private {
		for path, v := range m.requires {
			if !strings.HasPrefix(path, project+"/internal/") && v != version {
				t.Errorf("%s/go.mod requires %s %s, not %s", m.dir, path, v, version)
			}
		}
	}
}

// A module that go.work does not name would not be built, tested or released with the others.
func TestWorkspaceHasEveryModule(t *testing.T) {
	tree, _ := openTree(t)
	named := map[string]bool{}
	for _, m := range slices.Concat(tree.modules, tree.private) {
		named[filepath.ToSlash(filepath.Clean(m.dir))] = true
	}
	for _, f := range tree.files {
		if _, err := os.Stat(filepath.Join(top, f)); err != nil {
			continue // removed, and not committed yet
		}
		if dir := filepath.ToSlash(filepath.Dir(f)); filepath.Base(f) == "go.mod" && !named[dir] {
			t.Errorf("%s/go.mod is not in go.work: add use and replace", dir)
		}
	}
}

// What a go.mod requires by itself is named in the list of dependencies, with its reason.
func TestDependenciesAreListed(t *testing.T) {
	tree, _ := openTree(t)
	list, err := os.ReadFile(filepath.Join(top, "docs/decisions/dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Concat(tree.modules, tree.private) {
		var mod struct {
			Require []struct {
				Path     string
				Indirect bool
			}
		}
		if err := decode(filepath.Join(top, m.dir), &mod, "go", "mod", "edit", "-json"); err != nil {
			t.Fatal(err)
		}
		for _, r := range mod.Require {
			parts := strings.Split(r.Path, "/") // the list leaves out the host of many, and has one line for a repository
			name := strings.Join(parts[1:min(3, len(parts))], "/")
			if !r.Indirect && !strings.HasPrefix(r.Path, project) && !strings.Contains(string(list), name) {
				t.Errorf("%s/go.mod requires %s, which docs/decisions/dependencies.md does not name", m.dir, r.Path)
			}
		}
	}
}

// What make vets, lints and tests are all modules of the workspace.
func TestMakeKnowsEveryModule(t *testing.T) {
	tree, _ := openTree(t)
	text, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "\nMODULES")
	line, _, _ = strings.Cut(line, "\n")
	have := strings.Fields(strings.TrimLeft(line, " ="))
	var want []string
	for _, m := range slices.Concat(tree.modules, tree.private) {
		want = append(want, strings.TrimPrefix(m.dir, "./"))
	}
	slices.Sort(have)
	if slices.Sort(want); !slices.Equal(have, want) {
		t.Errorf("the Makefile has the modules %q, go.work has %q", have, want)
	}
}

// The first run of a release writes versions and checksums, the second one tags.
func TestRelease(t *testing.T) {
	tree, _ := openTree(t)
	root := t.TempDir()
	for _, f := range tree.files {
		if base := filepath.Base(f); base != "go.mod" && base != "go.sum" && f != "go.work" && f != "LICENSE" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, f), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		t.Helper()
		out, err := run(root, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	git("init", "--quiet")
	git("config", "user.name", "a")
	git("config", "user.email", "a@example.com")
	if err := release(root, "v0.9.0"); err == nil || !strings.Contains(err.Error(), "not clean") {
		t.Errorf("in a tree that is not clean: %v", err)
	}
	git("add", ".")
	git("commit", "--quiet", "--message", "first")
	if err := release(root, "0.9.0"); err == nil || !strings.Contains(err.Error(), "v0.1.0") {
		t.Errorf("a version without v: %v", err)
	}
	if err := release(root, "v0.9.0"); err == nil || !strings.Contains(err.Error(), "commit that") {
		t.Errorf("the first run: %v", err)
	}
	if tags := git("tag"); tags != "" {
		t.Errorf("tags before the commit: %s", tags)
	}
	git("commit", "--quiet", "--all", "--message", "v0.9.0")
	if err := release(root, "v0.9.0"); err != nil {
		t.Fatalf("the second run: %v", err)
	}
	tags := strings.Fields(git("tag"))
	if len(tags) != len(tree.modules) || !slices.Contains(tags, "v0.9.0") || !slices.Contains(tags, "store/pgxstore/v0.9.0") {
		t.Errorf("tags: %v", tags)
	}
	if out, err := run(root, "git", "grep", "-n", "stet v0.1.0"); err == nil {
		t.Errorf("the old version stayed:\n%s", out)
	}
	if text, err := os.ReadFile(filepath.Join(root, "cmd/go.sum")); err != nil ||
		bytes.Count(text, []byte(project+"/store/pgxstore v0.9.0")) != 2 {
		t.Errorf("cmd/go.sum does not hold the sums of pgxstore: %v", err)
	}
}

func inModule(t *tree, path string) (longest string) {
	for _, m := range t.modules {
		if (path == m.path || strings.HasPrefix(path, m.path+"/")) && len(m.path) > len(longest) {
			longest = m.path
		}
	}
	return longest
}

// served puts a proxy of the tree before the usual one. Its modules get a cache of their own, since
// the text behind a version changes with the tree; all others share the cache of the machine.
func served(t *testing.T, tree *tree, version string) []string {
	t.Helper()
	proxy, cache := t.TempDir(), t.TempDir()
	if err := tree.serve(proxy, version); err != nil {
		t.Fatal(err)
	}
	env := strings.Split(strings.TrimSpace(goRun(t, ".", os.Environ(), "env", "GOMODCACHE", "GOPROXY")), "\n")
	shared, usual := env[0], env[1]
	for _, dir := range []string{".", "github.com", "cache", "cache/download", "cache/download/github.com"} {
		linkAll(t, filepath.Join(shared, dir), filepath.Join(cache, dir))
	}
	return append(os.Environ(), "GOWORK=off", "GOSUMDB=off", "GOFLAGS=-mod=mod -modcacherw", "CGO_ENABLED=0",
		"GOMODCACHE="+cache, "GOPROXY="+fmt.Sprintf("file://%s,file://%s/cache/download,%s", proxy, shared, usual))
}

// linkAll makes the directory to, with links to what from holds, without what is split further and
// without this project.
func linkAll(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() || slices.Contains([]string{"github.com", "cache", "download", "stet-dev", "sumdb"}, e.Name()) {
			continue
		}
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

func goRun(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("in %s: go %s: %v\n%s%s", dir, strings.Join(args, " "), err, stderr.Bytes(), out)
	}
	return string(out)
}
