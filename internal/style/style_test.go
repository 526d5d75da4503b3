// Package style_test checks how the comments of the tree are written.
package style_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/tier"
)

// words are those that stand for a name: the holder, the caller, the operator, another process.
var words = regexp.MustCompile(`(?i)\b(somebody|nobody|whoever)\b`)

// fault is one place where a comment breaks a rule.
type fault struct {
	rule string // "words" or "names"
	text string
}

// TestComments holds the comments of every package to two rules: no word stands in for a name, and
// the comment of an exported name begins with that name.
func TestComments(t *testing.T) {
	tier.Campaign(t, "how comments are written breaks nothing")
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") && d.Name() != "..":
			return filepath.SkipDir
		case d.IsDir() || path.Ext(file) != ".go":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(file), "../../")
		faults, err := check(name, text)
		for _, f := range faults {
			t.Errorf("%s:%s", name, f.text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The rules find what they are for, and nothing else.
func TestRules(t *testing.T) {
	tier.Campaign(t, "how comments are written breaks nothing")
	for _, tt := range []struct{ name, file, source, want string }{
		{"clean", "a/a.go", "// Package a is one.\npackage a\n\n// Do does it.\nfunc Do() {}\n", ""},
		{"a word", "a/a.go", "package a\n\n// Somebody else has it.\nfunc f() {}\n", "words 3"},
		{"a word after code", "a/a.go", "package a\n\nvar f = 1 // for whoever asks\n", "words 3"},
		{"a word in a string", "a/a.go", "package a\n\nvar f = \"nobody\"\n", ""},
		{"a function", "a/a.go", "package a\n\nfunc Do() {}\n", "names 3"},
		{"a comment that begins otherwise", "a/a.go", "package a\n\n// It does it.\nfunc Do() {}\n", "names 4"},
		{"a longer name is another one", "a/a.go", "package a\n\n// Doing it.\nfunc Do() {}\n", "names 4"},
		{"an article", "a/a.go", "package a\n\n// A Store stores.\ntype Store struct{}\n", ""},
		{"a method", "a/a.go", "package a\n\n// T is one.\ntype T struct{}\n\nfunc (*T) Do() {}\n", "names 6"},
		{"a method of a hidden type", "a/a.go", "package a\n\ntype t struct{}\n\nfunc (*t) Do() {}\n", ""},
		{"a generic method", "a/a.go", "package a\n\n// T is one.\ntype T[P any] struct{}\n\nfunc (*T[P]) Do() {}\n", "names 6"},
		{"a method that a standard interface describes", "a/a.go", "package a\n\n// E is one.\ntype E struct{}\n\nfunc (E) Error() string { return \"\" }\n", ""},
		{"a value", "a/a.go", "package a\n\nvar Max = 1\n", "names 3"},
		{"values under one comment", "a/a.go", "package a\n\n// The states.\nconst (\n\tA = 1\n\tB = 2\n)\n", ""},
		{"a value with a comment beside it", "a/a.go", "package a\n\nconst (\n\tA = 1 // the first\n)\n", ""},
		{"a value in a group without any", "a/a.go", "package a\n\nconst (\n\tA = 1\n)\n", "names 4"},
		{"a test", "a/a_test.go", "package a\n\nfunc TestDo() {}\n", ""},
		{"a program", "a/main.go", "package main\n\nfunc Do() {}\n", ""},
	} {
		faults, err := check(tt.file, []byte(tt.source))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var got []string
		for _, f := range faults {
			line, _, _ := strings.Cut(f.text, ":")
			got = append(got, f.rule+" "+line)
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func check(file string, text []byte) (faults []fault, err error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	report := func(rule string, line int, format string, args ...any) {
		faults = append(faults, fault{rule, fmt.Sprintf("%d: ", line) + fmt.Sprintf(format, args...)})
	}
	for _, group := range tree.Comments {
		for _, c := range group.List {
			first := fset.Position(c.Pos()).Line
			for i, line := range strings.Split(c.Text, "\n") {
				if w := words.FindString(line); w != "" {
					report("words", first+i, "%q: name the one that is meant", w)
				}
			}
		}
	}
	if tree.Name.Name != "main" && !strings.HasSuffix(file, "_test.go") {
		for _, d := range tree.Decls {
			names(d, func(name *ast.Ident, doc string) {
				if name.IsExported() && !begins(doc, name.Name) {
					report("names", fset.Position(name.Pos()).Line, "the comment of %s does not begin with its name", name.Name)
				}
			})
		}
	}
	return faults, nil
}

// described are methods whose meaning an interface of the standard library fixes.
var described = []string{"As", "Close", "Error", "Flush", "Format", "Header", "Is", "Len", "Less", "LogValue", "MarshalJSON",
	"MarshalText", "Read", "RoundTrip", "Scan", "ServeHTTP", "String", "Swap", "UnmarshalJSON", "UnmarshalText", "UnmarshalYAML",
	"Unwrap", "Value", "Write", "WriteHeader", "WriteString"}

// names calls f with each name that a declaration exports, and its comment.
func names(d ast.Decl, f func(name *ast.Ident, doc string)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			if !exportedReceiver(d.Recv.List[0].Type) || d.Doc == nil && slices.Contains(described, d.Name.Name) {
				return
			}
		}
		f(d.Name, d.Doc.Text())
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				f(s.Name, cmp.Or(s.Doc.Text(), d.Doc.Text()))
			case *ast.ValueSpec:
				for _, name := range s.Names {
					switch {
					case s.Doc == nil && (s.Comment != nil || d.Lparen.IsValid() && d.Doc != nil):
					case len(s.Names) > 1 && (s.Doc != nil || d.Doc != nil):
					default:
						f(name, cmp.Or(s.Doc.Text(), d.Doc.Text()))
					}
				}
			}
		}
	}
}

func exportedReceiver(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.StarExpr:
		return exportedReceiver(e.X)
	case *ast.IndexExpr:
		return exportedReceiver(e.X)
	case *ast.IndexListExpr:
		return exportedReceiver(e.X)
	case *ast.Ident:
		return e.IsExported()
	}
	return false
}

func begins(doc, name string) bool {
	for _, article := range []string{"", "A ", "An ", "The "} {
		if rest, ok := strings.CutPrefix(doc, article+name); ok && !regexp.MustCompile(`^\w`).MatchString(rest) {
			return true
		}
	}
	return false
}
