package ledger

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBoundsAreInTheTable walks the source of the packages that clients' bytes pass through: every
// constant and every field that is a most of something is a row of docs/threats.md, a constant with
// its value.
func TestBoundsAreInTheTable(t *testing.T) { // C11
	doc, err := os.ReadFile("../../docs/threats.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, dir := range []string{".", "stethttp", "gateway", "reconcile", "operate", "operate/fleet", "admin", "admin/console", "internal/canon"} {
		for name, value := range boundsIn(t, filepath.Join("../..", dir)) {
			n++
			row := ""
			for line := range strings.Lines(string(doc)) {
				if strings.HasPrefix(line, "| ") && strings.Contains(line, "`"+name+"`") {
					row = line
				}
			}
			if row == "" {
				t.Errorf("%s bounds something, and is not in the table of docs/threats.md", name)
			} else if !says(row, value) {
				t.Errorf("%s is %s, and the table says\n%s", name, value, row)
			}
		}
	}
	if n < 70 {
		t.Errorf("only %d bounds were found", n)
	}
}

var most = regexp.MustCompile(`^[mM]ax[A-Z]`)

// boundsIn returns what bounds something in a package, and the values of constants, as far as they
// are plain.
func boundsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(dir, err)
	}
	found, fset := map[string]string{}, token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					if g.Tok == token.CONST && most.MatchString(s.Names[0].Name) && len(s.Values) == 1 {
						found[f.Name.Name+"."+s.Names[0].Name] = valueOf(fset, s.Values[0])
					}
				case *ast.TypeSpec:
					if st, ok := s.Type.(*ast.StructType); ok && s.Name.IsExported() {
						for _, field := range st.Fields.List {
							if kind := types.ExprString(field.Type); len(field.Names) == 1 && most.MatchString(field.Names[0].Name) && (kind == "int" || kind == "int64") {
								found[f.Name.Name+"."+s.Name.Name+"."+field.Names[0].Name] = ""
							}
						}
					}
				}
			}
		}
	}
	return found
}

func valueOf(fset *token.FileSet, e ast.Expr) string {
	v, err := types.Eval(fset, nil, token.NoPos, types.ExprString(e))
	if err != nil || v.Value.Kind() != constant.Int {
		return ""
	}
	return v.Value.ExactString()
}

// says reports whether a row of the table has the value, in bytes or as a number.
func says(row, value string) bool {
	var n int
	if _, err := fmt.Sscan(value, &n); err != nil {
		return true
	}
	for unit, size := range map[string]int{" KiB": 1 << 10, " MiB": 1 << 20} {
		if n%size == 0 && strings.Contains(row, fmt.Sprintf("| %d%s |", n/size, unit)) {
			return true
		}
	}
	for i := len(value) - 3; i > 0; i -= 3 {
		value = value[:i] + "," + value[i:]
	}
	return strings.Contains(row, "| "+value+" |")
}
