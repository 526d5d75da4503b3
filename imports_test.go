package stet_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/stet-dev/stet"

// layers of the tree: a package may import packages of lower layers only, and stores no other
// stores.
var layers = []struct {
	prefix string
	layer  int
}{ // the first match counts
	{"internal/codec", 1}, {"internal/sqltext", 1}, {"internal/ability", 1}, {"internal/pgstore", 1}, {"internal/sqltx", 1}, {"internal/tablestore", 1}, {"internal/storeid", 1}, {"internal/inplace", 1}, {"internal/usable", 1}, {"internal/outcome", 1}, {"internal/execution", 2}, // they speak of records
	{"internal/", 0}, {"docs/problems", 0},
	{"store/", 2},
	{"stethttp", 2}, {"maintenance", 2}, {"reconcile", 2}, {"flow", 2}, {"outbox", 2}, {"stettest", 4},
	{"gateway", 3}, {"operate", 3}, {"admin", 4},
	{"examples/", 5},
	{"", 1}, // the core
}

// thirdParty are the modules that the library brings into other people's builds. None brings
// another one with it. A new line is argued in docs/decisions/dependencies.md.
var thirdParty = []string{"github.com/dunglas/httpsfv", "github.com/klauspost/compress",
	"github.com/maypok86/otter/v2", "github.com/sony/gobreaker/v2"}

func known(path string) bool {
	return slices.ContainsFunc(thirdParty, func(module string) bool { return path == module || strings.HasPrefix(path, module+"/") })
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Standard   bool
}

func goList(t *testing.T) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Deps,Standard", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func layerOf(path string) (room string, layer int) {
	room = strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	for _, l := range layers {
		if strings.HasPrefix(room, l.prefix) {
			return room, l.layer
		}
	}
	panic("unreachable")
}

func TestImportsGoDown(t *testing.T) {
	for _, p := range goList(t) {
		if p.Standard {
			continue
		}
		if !strings.HasPrefix(p.ImportPath, module) {
			if !known(p.ImportPath) {
				t.Errorf("the library depends on %s", p.ImportPath)
			}
			continue
		}
		room, layer := layerOf(p.ImportPath)
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			other, below := layerOf(imp)
			storetest := strings.HasPrefix(room, "store/storetest") || strings.HasPrefix(other, "store/storetest")
			if below > layer || below == layer && layer == 2 && !storetest && firstDir(room) == "store" && firstDir(other) == "store" {
				t.Errorf("%s imports %s: imports only go down, and stores never import each other", room, other)
			}
		}
	}
}

func firstDir(room string) string { dir, _, _ := strings.Cut(room, "/"); return dir }

func TestCoreKnowsNeitherHTTPNorSQL(t *testing.T) {
	for _, p := range goList(t) {
		if p.ImportPath != module {
			continue
		}
		for _, banned := range []string{"net/http", "database/sql", "testing"} {
			if slices.Contains(p.Deps, banned) {
				t.Errorf("the core depends on %s", banned)
			}
		}
		return
	}
	t.Fatal("the core was not listed")
}
