package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// project is the path of the root module; the paths of all others begin with it.
const project = "github.com/stet-dev/stet"

var versionForm = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9a-z.-]+)?$`)

// tree is a checkout with the modules that are published from it.
type tree struct {
	root    string
	files   []string // all that belongs to the tree, relative to root
	modules []module // published; a module comes after those that it requires
	private []module // those under internal
}

type module struct {
	dir, path string
	requires  map[string]string // versions of the project's own modules, by path
	replaces  int
}

// open reads the modules that go.work names. Those under internal are not published.
func open(root string) (*tree, error) {
	out, err := run(root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	t := &tree{root: root, files: strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")}
	slices.Sort(t.files)
	var work struct{ Use []struct{ DiskPath string } }
	if err := decode(root, &work, "go", "work", "edit", "-json"); err != nil {
		return nil, err
	}
	var left []module
	for _, u := range work.Use {
		m, err := read(root, u.DiskPath)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(m.dir, "./internal/") {
			t.private = append(t.private, m)
		} else {
			left = append(left, m)
		}
	}
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(m module) bool {
			return !slices.ContainsFunc(left, func(o module) bool { return m.requires[o.path] != "" })
		})
		if i < 0 {
			return nil, fmt.Errorf("modules require each other in a circle: %v", left)
		}
		t.modules = append(t.modules, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return t, nil
}

func read(root, dir string) (module, error) {
	var mod struct {
		Module  struct{ Path string }
		Require []struct{ Path, Version string }
		Replace []struct{}
	}
	if err := decode(filepath.Join(root, dir), &mod, "go", "mod", "edit", "-json"); err != nil {
		return module{}, err
	}
	m := module{dir: dir, path: mod.Module.Path, requires: map[string]string{}, replaces: len(mod.Replace)}
	for _, r := range mod.Require {
		if r.Path == project || strings.HasPrefix(r.Path, project+"/") {
			m.requires[r.Path] = r.Version
		}
	}
	return m, nil
}

func decode(dir string, into any, name string, args ...string) error {
	out, err := run(dir, name, args...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}

// setVersion has all modules require each other, and go.work replace each, at one version.
func (t *tree) setVersion(version string) error {
	drop, err := t.replaced()
	if err != nil {
		return err
	}
	for _, m := range slices.Concat(t.modules, t.private) {
		for path := range m.requires {
			if strings.HasPrefix(path, project+"/internal/") {
				continue
			}
			if _, err := run(filepath.Join(t.root, m.dir), "go", "mod", "edit", "-require="+path+"@"+version); err != nil {
				return err
			}
			m.requires[path] = version
		}
	}
	for _, m := range t.modules {
		drop = append(drop, "-replace="+m.path+"@"+version+"="+m.dir)
	}
	_, err = run(t.root, "go", append([]string{"work", "edit"}, drop...)...)
	return err
}

// replaced returns the flags that remove each replacement of go.work.
func (t *tree) replaced() (drop []string, err error) {
	var work struct {
		Replace []struct {
			Old struct{ Path, Version string }
		}
	}
	if err := decode(t.root, &work, "go", "work", "edit", "-json"); err != nil {
		return nil, err
	}
	for _, r := range work.Replace {
		drop = append(drop, "-dropreplace="+r.Old.Path+"@"+r.Old.Version)
	}
	return drop, nil
}

// setSums writes the checksums of the project's own modules into each go.sum. The order of the
// modules makes that possible: what a module's go.sum holds is part of the module, and is there
// before a module that requires it is summed.
func (t *tree) setSums() error {
	lines := map[string][]string{}
	for _, m := range t.modules {
		var own, others []string
		for path := range m.requires {
			own = append(own, lines[path]...)
		}
		slices.Sort(own)
		name := filepath.Join(t.root, m.dir, "go.sum")
		was, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(was)) {
			if !strings.HasPrefix(line, project+" ") && !strings.HasPrefix(line, project+"/") {
				others = append(others, line)
			}
		}
		at := slices.IndexFunc(others, func(line string) bool { return line > project+" " })
		if at < 0 {
			at = len(others)
		}
		sums := strings.Join(slices.Insert(others, at, own...), "")
		if err := os.WriteFile(name, []byte(sums), 0o644); err != nil {
			return err
		}
		version, err := t.version()
		if err != nil {
			return err
		}
		if lines[m.path], err = t.sums(m, version); err != nil {
			return err
		}
	}
	return nil
}

// version is the one version by which the modules require each other.
func (t *tree) version() (string, error) {
	var all []string
	for _, m := range t.modules {
		if m.replaces > 0 {
			return "", fmt.Errorf("%s/go.mod has a replace directive, and go install refuses such a module", m.dir)
		}
		for _, v := range m.requires {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 1 {
		return "", fmt.Errorf("the modules require each other by %d versions: %v", len(all), all)
	}
	return all[0], nil
}

// sums are the two lines by which a go.sum knows a module.
func (t *tree) sums(m module, version string) ([]string, error) {
	files, err := t.content(m)
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for name, text := range files {
		all[m.path+"@"+version+"/"+name] = text
	}
	return []string{
		m.path + " " + version + " " + hash1(all) + "\n",
		m.path + " " + version + "/go.mod " + hash1(map[string][]byte{"go.mod": files["go.mod"]}) + "\n",
	}, nil
}

// hash1 is the hash of a set of files as go.sum has it: that of the lines "sum  name", in order.
func hash1(files map[string][]byte) string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	all := sha256.New()
	for _, name := range names {
		fmt.Fprintf(all, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	return "h1:" + base64.StdEncoding.EncodeToString(all.Sum(nil))
}

// content is what a module's archive holds: the files of its directory without those of modules
// below it, and the license, which a module without its own takes from the root.
func (t *tree) content(m module) (map[string][]byte, error) {
	var nested []string
	for _, f := range t.files {
		if dir, ok := strings.CutSuffix("./"+f, "/go.mod"); ok && dir != m.dir && strings.HasPrefix(dir, m.dir+"/") {
			nested = append(nested, dir+"/")
		}
	}
	files := map[string][]byte{}
	add := func(name, file string) error {
		info, err := os.Lstat(filepath.Join(t.root, file))
		if os.IsNotExist(err) || err == nil && !info.Mode().IsRegular() {
			return nil // deleted and not committed yet, or a link, which archives leave out
		}
		if err == nil {
			files[name], err = os.ReadFile(filepath.Join(t.root, file))
		}
		return err
	}
	for _, f := range t.files {
		name, in := strings.CutPrefix("./"+f, m.dir+"/")
		if !in || slices.ContainsFunc(nested, func(dir string) bool { return strings.HasPrefix("./"+f, dir) }) {
			continue
		}
		if err := add(name, f); err != nil {
			return nil, err
		}
	}
	if files["LICENSE"] == nil {
		return files, add("LICENSE", "LICENSE")
	}
	return files, nil
}

// serve writes the modules at version to dir, as a module proxy whose address is file://dir.
func (t *tree) serve(dir, version string) error {
	for _, m := range t.modules {
		files, err := t.content(m)
		if err != nil {
			return err
		}
		var archive bytes.Buffer
		z := zip.NewWriter(&archive)
		for name, text := range files {
			w, err := z.Create(m.path + "@" + version + "/" + name)
			if err != nil {
				return err
			}
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
		if err := z.Close(); err != nil {
			return err
		}
		at := filepath.Join(dir, m.path, "@v")
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		for name, text := range map[string][]byte{
			"list":            []byte(version + "\n"),
			version + ".info": []byte(`{"Version":"` + version + `","Time":"2026-01-01T00:00:00Z"}`),
			version + ".mod":  files["go.mod"],
			version + ".zip":  archive.Bytes(),
		} {
			if err := os.WriteFile(filepath.Join(at, name), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
