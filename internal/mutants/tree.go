package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// limit is how long a test may take, in terms of go test. Those of the list take seconds; one
// that hangs has noticed.
const limit = "120s"

// tree is the tree under test, with a directory for what takes the place of its files.
type tree struct {
	root    string // absolute
	dir     string
	unsound map[testRef]string // for each test that was tried without a change: why it failed
}

func newTree(root string) (*tree, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	return &tree{root, dir, map[testRef]string{}}, err
}

func (t *tree) close() { _ = os.RemoveAll(t.dir) }

// testRef names a test, or several, as the list does.
type testRef struct{ pkg, test string }

// sound returns why the test of the list cannot notice anything: it fails while nothing is changed.
// Each test is tried once.
func (t *tree) sound(ctx context.Context, ref testRef) string {
	why, known := t.unsound[ref]
	if !known {
		if said, err := t.test(ctx, ref.pkg, pattern(ref.test), ""); err != nil {
			why = fmt.Sprintf("%s in %s fails without any change: %v\n%s", ref.test, ref.pkg, err, said)
		}
		t.unsound[ref] = why
	}
	return why
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
	return t.sound(ctx, testRef{m.pkg, m.test})
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

// test runs tests of a package, compiled as make test does: most is compiled already.
// What is in the environment reaches binaries that the test builds itself.
func (t *tree) test(ctx context.Context, pkg, run, overlay string) (string, error) {
	module, err := t.module(pkg)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(module, filepath.Join(t.root, pkg))
	if err != nil {
		return "", err
	}
	as, env := "-race", append(os.Environ(), "CGO_ENABLED=1")
	if module != t.root {
		as, env = "-trimpath", append(env, "CGO_ENABLED=0")
	}
	cmd := exec.CommandContext(ctx, "go", "test", as, "-count=1", "-vet=off", "-timeout="+limit, "-run", run,
		"./"+filepath.ToSlash(rel))
	cmd.Dir, cmd.Env = module, env
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
