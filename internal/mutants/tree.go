package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// limit is how long a test may take, in terms of go test. Those of the list take seconds; one
// that hangs has noticed.
const limit = "120s"

// tree is the tree under test, with a directory for what takes the place of its files.
type tree struct {
	root string // absolute
	dir  string
}

func newTree(root string) (*tree, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	return &tree{root, dir}, err
}

func (t *tree) close() { _ = os.RemoveAll(t.dir) }

// testRef names a test, or several, as the list does.
type testRef struct{ pkg, test string }

// unsound returns what says why, for each test of the list that fails while nothing is changed:
// it notices nothing. Whole tests of a package are tried together first, since mostly all are
// sound.
func (t *tree) unsound(ctx context.Context, all []mutant) map[testRef]string {
	tests := map[string][]string{}
	for _, m := range all {
		if !slices.Contains(tests[m.pkg], m.test) {
			tests[m.pkg] = append(tests[m.pkg], m.test)
		}
	}
	bad := map[testRef]string{}
	for pkg, names := range tests {
		names = slices.DeleteFunc(names, func(name string) bool { // a slash parts patterns
			return strings.Contains(name, "/") && t.alone(ctx, pkg, name, bad)
		})
		if len(names) == 0 {
			continue
		}
		if _, err := t.test(ctx, pkg, pattern(strings.Join(names, "|")), ""); err != nil {
			for _, name := range names {
				t.alone(ctx, pkg, name, bad)
			}
		}
	}
	return bad
}

// alone tries a test, and reports true.
func (t *tree) alone(ctx context.Context, pkg, name string, bad map[testRef]string) bool {
	if said, err := t.test(ctx, pkg, pattern(name), ""); err != nil {
		bad[testRef{pkg, name}] = fmt.Sprintf("%s in %s fails without any change: %v\n%s", name, pkg, err, said)
	}
	return true
}

// pattern is what -run takes: names match whole, of tests and of subtests.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^(" + part + ")$"
	}
	return strings.Join(parts, "/")
}

// try returns why the mutant has not been noticed by its test; "" if it has.
func (t *tree) try(ctx context.Context, m *mutant) string {
	text, err := m.changed(t.root)
	if err != nil {
		return err.Error()
	}
	overlay, err := t.overlay(m.file, text)
	if err != nil {
		return err.Error()
	}
	said, err := t.test(ctx, m.pkg, pattern(m.test), overlay)
	var failed *exec.ExitError
	switch {
	case err == nil:
		return fmt.Sprintf("%s in %s passes\n%s", m.test, m.pkg, said)
	case !errors.As(err, &failed):
		return err.Error()
	case strings.Contains(said, "[build failed]") || strings.Contains(said, "[setup failed]"):
		return "it does not compile\n" + said
	case !strings.Contains(said, "--- FAIL") && !strings.Contains(said, "panic: "):
		return "the test did not fail by itself\n" + said
	}
	return ""
}

// overlay writes what the go command takes the text from in the place of file.
func (t *tree) overlay(file string, text []byte) (string, error) {
	instead := filepath.Join(t.dir, "instead"+filepath.Ext(file))
	doc, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(t.root, file): instead}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(t.dir, "overlay.json")
	return name, errors.Join(os.WriteFile(instead, text, 0o600), os.WriteFile(name, doc, 0o600))
}

// test runs tests of a package. What is in the environment reaches binaries that the test builds
// itself.
func (t *tree) test(ctx context.Context, pkg, run, overlay string) (string, error) {
	module, err := t.module(pkg)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(module, filepath.Join(t.root, pkg))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-timeout="+limit, "-run", run,
		"./"+filepath.ToSlash(rel))
	cmd.Dir, cmd.Env = module, os.Environ()
	if overlay != "" {
		cmd.Env = append(cmd.Env, strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	said, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(said), "no tests to run") {
		err = errors.New("there is no such test")
	}
	return string(said), err
}

// module is the directory of the module that a package is in.
func (t *tree) module(pkg string) (string, error) {
	for dir := filepath.Join(t.root, pkg); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == t.root || dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no module has the package %s", pkg)
		}
	}
}
