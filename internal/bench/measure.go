package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// The two trees.
const (
	now  = "now"
	then = "before"
)

// trees are this tree and a copy of the version before, with the test binaries of both.
type trees struct {
	root   map[string]string
	dir    string // holds the copy and the binaries
	absent map[[2]string]bool
}

// checkOut makes the version before a work tree of its own.
func checkOut(ctx context.Context, root, before string) (*trees, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	t := &trees{map[string]string{now: root, then: filepath.Join(dir, "before")}, dir, map[[2]string]bool{}}
	if said, err := exec.CommandContext(ctx, "git", "-C", root, "worktree", "add", "--detach", t.root[then], before).CombinedOutput(); err != nil {
		t.close()
		return nil, fmt.Errorf("checking out %s: %w\n%s", before, err, said)
	}
	return t, nil
}

func (t *trees) close() {
	_ = exec.Command("git", "-C", t.root[now], "worktree", "remove", "--force", t.root[then]).Run()
	_ = os.RemoveAll(t.dir)
}

// results holds what each benchmark reported, turn by turn: by tree, benchmark and figure.
type results map[[3]string][]float64

// measure runs a suite once in a tree. A package that the tree lacks is left out.
func (t *trees) measure(ctx context.Context, tree string, s suite, got results) error {
	bin, err := t.binary(ctx, tree, s.pkg)
	if err != nil || bin == "" {
		return err
	}
	name := "^Benchmark" + strings.ReplaceAll(s.bench, "/", "$/^") + "$"
	cmd := exec.CommandContext(ctx, bin, "-test.run", "^$", "-test.bench", name, "-test.benchmem", "-test.timeout", "30m")
	if s.time != "" {
		cmd.Args = append(cmd.Args, "-test.benchtime", s.time)
	}
	cmd.Dir = filepath.Join(t.root[tree], s.pkg)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		said := out.Bytes()
		return fmt.Errorf("%s of %s: %w\n%s", s.bench, tree, err, said[:min(len(said), maxSaid)])
	}
	got.read(tree, out.String())
	return nil
}

// maxSaid is how many bytes of what a failed benchmark prints are shown.
const maxSaid = 2 << 10

// binary builds a package's tests in a tree, once. It returns "" if the tree has no such package.
func (t *trees) binary(ctx context.Context, tree, pkg string) (string, error) {
	name := filepath.Join(t.dir, tree+strings.ReplaceAll(pkg, "/", "-")+".test")
	if t.absent[[2]string{tree, pkg}] {
		return "", nil
	}
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	dir := filepath.Join(t.root[tree], pkg)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		t.absent[[2]string{tree, pkg}] = true
		return "", nil
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", name, ".")
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the tests of %s in %s: %w\n%s", pkg, tree, err, said)
	}
	return name, nil
}

// benchmark is a line of a test binary's output: the name, the number of processors, the rounds,
// then figures with their units.
var benchmark = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

func (r results) read(tree, out string) {
	for _, m := range benchmark.FindAllStringSubmatch(out, -1) {
		f := strings.Fields(m[2])
		for i := 0; i+1 < len(f); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil {
				k := [3]string{tree, m[1], f[i+1]}
				r[k] = append(r[k], v)
			}
		}
	}
}
