package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/tier"
)

// published are the modules that are built for other systems: the rest is for tests.
var published = []string{"", "cmd", "outbox/riveroutbox", "store/pgxstore", "store/redisstore/goredisclient", "store/redisstore/rueidisclient"}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Path string }
	Error           *struct{ Err string }
}

// What is published can be compiled for the systems that this machine is not. Types are checked
// and no code is made: that takes seconds, where a build of all dependencies takes minutes.
func TestOtherSystems(t *testing.T) {
	tier.Campaign(t, "it loads what the dependencies have for other systems")
	for _, system := range []string{"darwin/arm64", "windows/amd64"} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			goos, arch, _ := strings.Cut(system, "/")
			done := map[string]*types.Package{"unsafe": types.Unsafe}
			own := 0
			for _, p := range packages(t, goos, arch) {
				mine := p.Module != nil && isPublished(p.Module.Path)
				done[p.ImportPath] = check(t, p, arch, done, mine)
				if mine {
					own++
				}
			}
			if own < 50 {
				t.Errorf("%d packages of the project are checked: the test does not reach what it is about", own)
			}
		})
	}
}

func isPublished(module string) bool {
	return slices.Contains(published, strings.TrimPrefix(strings.TrimPrefix(module, project), "/"))
}

// packages are those of the published modules, and before each of them those that it imports.
func packages(t *testing.T, goos, arch string) (all []listed) {
	t.Helper()
	list := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e"}, args...)...)
		cmd.Dir = top
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	args := []string{"-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error"}
	for line := range strings.Lines(list("-f", "{{with .Module}}{{.Path}}{{end}} {{.ImportPath}}", project+"/...")) {
		module, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		if isPublished(module) {
			args = append(args, path)
		}
	}
	for d := json.NewDecoder(strings.NewReader(list(args...))); ; {
		var p listed
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// check checks the types of a package, and what its functions do where it is the project's own.
func check(t *testing.T, p listed, arch string, done map[string]*types.Package, mine bool) *types.Package {
	t.Helper()
	if mine && p.Error != nil {
		t.Error(p.Error.Err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	c := types.Config{IgnoreFuncBodies: !mine, FakeImportC: true, Sizes: types.SizesFor("gc", arch), GoVersion: runtime.Version(),
		Importer: importing(func(path string) (*types.Package, error) {
			if to := p.ImportMap[path]; to != "" {
				path = to
			}
			if there := done[path]; there != nil {
				return there, nil
			}
			return nil, errors.New("it is not listed: " + path)
		}),
		Error: func(err error) {
			if mine {
				t.Error(err)
			}
		},
	}
	made, _ := c.Check(p.ImportPath, fset, files, nil)
	return made
}

type importing func(path string) (*types.Package, error)

func (f importing) Import(path string) (*types.Package, error) { return f(path) }
