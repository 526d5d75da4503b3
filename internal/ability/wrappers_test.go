package ability_test

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/sealstore"
	"github.com/stet-dev/stet/store/storetest/faulty"
	"github.com/stet-dev/stet/store/tierstore"
)

// wrappers are all wrappers of stores, by the folder of their package.
var wrappers = map[string][]func(stet.Store) (stet.Store, error){
	"store/breakerstore": {func(s stet.Store) (stet.Store, error) { return breakerstore.New(s, breakerstore.Config{}) }},
	"store/sealstore": {func(s stet.Store) (stet.Store, error) {
		key := bytes.Repeat([]byte{1}, sealstore.KeySize)
		return sealstore.New(s, sealstore.Config{Keys: sealstore.Keys{Primary: "k", Keys: map[string][]byte{"k": key}, Names: key}})
	}},
	"store/tierstore": {
		func(s stet.Store) (stet.Store, error) {
			return tierstore.New(tierstore.NewMemory(0), s, tierstore.Config{})
		},
		func(s stet.Store) (stet.Store, error) {
			return tierstore.New(tierstore.NewMemory(0), s, tierstore.Config{InFlight: true})
		},
	},
	"store/storetest/faulty": {func(s stet.Store) (stet.Store, error) { return faulty.New(s, 1), nil }},
}

// A wrapper has each ability of the store that it wraps, and no other; the methods reach that
// store.
func TestWrappersForwardEveryAbility(t *testing.T) {
	for name, ways := range wrappers {
		for _, wrap := range ways {
			for i, a := range abilities {
				inner := newAble()
				s, err := wrap(having(inner, 1<<i))
				if err != nil {
					t.Fatal(err)
				}
				if got := found(s); got != 1<<i {
					t.Errorf("%s: around a %s stet.As finds the abilities %09b, not %09b", name, a.Name, got, 1<<i)
					continue
				}
				for method := range methods(a.Type) {
					callZero(reflect.ValueOf(ability.Of(s)).Field(i).MethodByName(method))
					if inner.asked[method] != 1 {
						t.Errorf("%s: %s asks the inner store %d times", name, method, inner.asked[method])
					}
				}
			}
			s, err := wrap(having(newAble(), 0))
			if err != nil || found(s) != 0 {
				t.Errorf("%s: around a store without abilities it has %09b, %v", name, found(s), err)
			}
		}
	}
}

func methods(t reflect.Type) func(func(string) bool) {
	return func(yield func(string) bool) {
		for m := range t.NumMethod() {
			if !yield(t.Method(m).Name) {
				return
			}
		}
	}
}

// callZero calls f with a context and zero values.
func callZero(f reflect.Value) {
	args := make([]reflect.Value, f.Type().NumIn())
	for i := range args {
		if args[i] = reflect.Zero(f.Type().In(i)); f.Type().In(i) == reflect.TypeFor[context.Context]() {
			args[i] = reflect.ValueOf(context.Background())
		}
	}
	f.Call(args)
}

// A Set has the abilities that package stet declares, each of them a method of All.
func TestSetHasEveryAbility(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../store.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, d := range file.Decls {
		if group, ok := d.(*ast.GenDecl); ok && strings.HasPrefix(group.Doc.Text(), "Optional abilities of a store") {
			for _, spec := range group.Specs {
				declared[spec.(*ast.TypeSpec).Name.Name] = true
			}
		}
	}
	if !declared["Waiter"] {
		t.Fatal("the abilities of a store are not where this test looks for them")
	}
	delete(declared, "Closer") // it is found on the inner store, or a wrapper has it always
	for _, a := range abilities {
		if delete(declared, a.Name); !reflect.TypeFor[ability.All]().Implements(a.Type) {
			t.Errorf("All has no %s", a.Name)
		}
	}
	for name := range declared {
		t.Errorf("stet.%s is an ability that ability.Set does not have: no wrapper forwards it", name)
	}
}

// Each package that wraps stores is among the wrappers of this test.
func TestEveryWrapperIsTested(t *testing.T) {
	const root = "../.."
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(") Unwrap() stet.Store")) || bytes.Contains(text, []byte("ability.Wrap(")) {
			dir, _ := filepath.Rel(root, filepath.Dir(path))
			seen[filepath.ToSlash(dir)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(seen, "internal/ability")
	delete(seen, "store/sqlstore")      // its stores unwrap to a part of themselves
	delete(seen, "cmd/internal/layers") // what it wraps is no store at all
	if got, want := slices.Sorted(maps.Keys(seen)), slices.Sorted(maps.Keys(wrappers)); !slices.Equal(got, want) {
		t.Errorf("wrappers are in %q, and those in %q are tested", got, want)
	}
}
