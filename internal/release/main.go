// Command release prepares and tags a version of all published modules of the tree.
//
//	go run ./internal/release v0.2.0    # writes version and checksums, or tags what is committed
//
// The first run writes the version into each go.mod and into go.work, adds the checksums of the
// project's own modules to each go.sum, and asks for a commit. The second run, in a clean tree,
// finds nothing to change and makes the tags. It pushes nothing.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/release VERSION")
		os.Exit(2)
	}
	if err := release(".", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release(root, version string) error {
	if !versionForm.MatchString(version) {
		return fmt.Errorf("%q is not a version; write it as v0.1.0", version)
	}
	if err := clean(root); err != nil {
		return err
	}
	t, err := open(root)
	if err != nil {
		return err
	}
	if err := t.setVersion(version); err != nil {
		return err
	}
	if err := t.setSums(); err != nil {
		return err
	}
	if clean(root) != nil {
		return fmt.Errorf("the modules now say %s; commit that and run the command again", version)
	}
	var tags []string
	for _, m := range t.modules {
		tag := strings.TrimPrefix(m.dir+"/"+version, "./")
		if _, err := run(root, "git", "tag", "--annotate", "--message", m.path+" "+version, tag); err != nil {
			return err
		}
		tags = append(tags, tag)
	}
	fmt.Println("git push --atomic origin", strings.Join(tags, " "))
	return nil
}

// clean is an error if the tree differs from its last commit.
func clean(root string) error {
	out, err := run(root, "git", "status", "--porcelain")
	if err == nil && len(out) > 0 {
		err = fmt.Errorf("the tree is not clean; commit or remove:\n%s", out)
	}
	return err
}

// run returns what a command prints on its standard output.
func run(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}
