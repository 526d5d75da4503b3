package stet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unbounded are the exported structs with numbers that no caller hands over for something to rest
// on, and the reason for each.
var unbounded = map[string]string{
	"Body":        "what a store has: Left comes out of it alone",
	"Change":      "what a history answers; what enters it is a Note",
	"Event":       "what an observer is told",
	"Execution":   "names, which are compared",
	"Fingerprint": "sums, which are compared",
	"Head":        "the engine writes it from what it has checked, and a store answers with it",
	"Identity":    "what a store is, and what it is compared with",
	"KeyRule":     "stethttp.Config has its rows; a Parse with any other rule refuses keys, and makes none valid",
	"Refused":     "an error that tells",
	"Response":    "Outcome and Resolution have its rows",
	"Result":      "an answer",
	"Sizes":       "a store answers with it",
	"Rules":       "Policy has its rows",
	"Decision":    "an answer",

	"operate.Asking":            "an answer",
	"operate.Caller":            "who asks: admin.Config has the rows of its tokens",
	"operate.ClientAnswer":      "an answer",
	"operate.Count":             "an answer",
	"operate.Ended":             "an answer",
	"operate.Erased":            "an answer",
	"operate.Extension":         "a client's request: the server reads it with readers of its own, and ends at the engine's bounds",
	"operate.Filter":            "an answer",
	"operate.Gateway":           "an answer",
	"operate.Health":            "an answer",
	"operate.Incident":          "an answer",
	"operate.Job":               "an answer",
	"operate.KnownName":         "an answer",
	"operate.LateAnswer":        "an answer",
	"operate.Message":           "an answer",
	"operate.MessageError":      "an answer",
	"operate.Mismatch":          "an answer",
	"operate.Order":             "as Extension",
	"operate.Outlook":           "an answer",
	"operate.Page":              "a client's request, which checks itself",
	"operate.Shown":             "as Page",
	"operate.ProbeAnswer":       "an answer",
	"operate.Problem":           "an answer",
	"operate.Record":            "an answer",
	"operate.Resolution":        "as Extension",
	"operate.Response":          "an answer",
	"operate.RouteFigures":      "an answer",
	"operate.Snoozing":          "as Extension",
	"operate.Unstored":          "an answer",
	"operate.Status":            "an answer",
	"operate.StoreIdentity":     "an answer",
	"admin.Token":               "Config has its row",
	"adminclient.StrangerError": "an error that tells",

	"compare.Difference": "an answer",
	"compare.Entry":      "amounts of other people's ledgers, which are compared",

	"gateway.Route": "Config has its rows",

	"outbox.Seen":    "names that are compared: another version is another message",
	"outbox.Event":   "what an observer is told",
	"outbox.Failure": "an answer",
	"outbox.Stored":  "an answer",

	"reconcile.Outlook": "an answer",
	"reconcile.Plan":    "what is made of a Reconciler, for people to look at",
	"reconcile.Tally":   "an answer",

	"riveroutbox.Args": "a Message as River keeps it, which was checked",

	"stethttp.Problem":      "an answer",
	"stethttp.ReplayConfig": "Config has its row",

	"storetest.Backend":   "for tests",
	"storetest.Tampering": "for tests",
}

// TestEveryStructHasBounds walks all packages that can be imported, of each module: an exported
// struct with a number in it has a table (bounds.For), which a test of its package tries at the
// struct's door (bounds.Refuses), or is named above with the reason why it needs none.
func TestEveryStructHasBounds(t *testing.T) { // K12
	w := readPackages(t)
	needs := w.structsWithNumbers()
	if len(needs) < 70 {
		t.Errorf("only %d structs were found", len(needs))
	}
	for _, name := range needs {
		switch table, why := w.tables[name], unbounded[name]; {
		case table == "" && why == "":
			t.Errorf("%s has numbers and no table of bounds: write var xBounds = bounds.For[%[2]s](bounds.Duration(\"Field\", bounds.Short, bounds.Long).OrDefault(), …) "+
				"beside it, call xBounds.Check where it enters, and bounds.Refuses in a test; or, if nothing that enters rests on it, "+
				"name it in unbounded of walk_bounds_test.go with the reason", name, path.Ext("." + name)[1:])
		case table != "" && why != "":
			t.Errorf("%s has a table, and a reason for none", name)
		case table != "" && !w.tried[table]:
			t.Errorf("%s: no test of its package calls bounds.Refuses(t, %s, …), which tries it at its door", name, path.Ext(table)[1:])
		}
	}
	for name := range unbounded {
		if !slices.Contains(needs, name) {
			t.Errorf("%s is named in unbounded, and is no exported struct with a number", name)
		}
	}
}

// packages is what is read of all packages: names are prefixed with that of their package.
type packages struct {
	types  map[string]typeIn
	tables map[string]string // of a struct
	tried  map[string]bool   // tables
}

type typeIn struct {
	spec *ast.TypeSpec
	in   source
}

// source is a file, and where its names come from.
type source struct {
	pkg     string // "" for the root
	imports map[string]string
}

const boundsPath = module + "/internal/bounds"

func readPackages(t *testing.T) *packages {
	t.Helper()
	w := &packages{map[string]typeIn{}, map[string]string{}, map[string]bool{}}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"internal", "testdata", "cmd", "examples", ".git"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err == nil {
			w.read(name, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *packages) read(name string, f *ast.File) {
	in := source{pkg: strings.TrimSuffix(f.Name.Name, "_test"), imports: map[string]string{}}
	if in.pkg == "stet" {
		in.pkg = ""
	}
	for _, i := range f.Imports {
		from, _ := strconv.Unquote(i.Path.Value)
		as := path.Base(from)
		if i.Name != nil {
			as = i.Name.Name
		}
		in.imports[as] = from
	}
	test := strings.HasSuffix(name, "_test.go")
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if !test {
				w.types[in.name(n.Name.Name)] = typeIn{n, in}
			}
		case *ast.ValueSpec:
			if len(n.Values) == 1 && !test {
				w.table(in, n.Names[0].Name, n.Values[0])
			}
		case *ast.CallExpr:
			if test && in.isOf(boundsPath, n.Fun, "Refuses") && len(n.Args) > 1 {
				if id, ok := n.Args[1].(*ast.Ident); ok {
					w.tried[in.name(id.Name)] = true
				}
			}
		}
		return true
	})
}

// table notes var name = bounds.For[T](…).
func (w *packages) table(in source, name string, value ast.Expr) {
	call, ok := value.(*ast.CallExpr)
	if !ok {
		return
	}
	of, ok := call.Fun.(*ast.IndexExpr)
	if !ok || !in.isOf(boundsPath, of.X, "For") {
		return
	}
	if generic, ok := of.Index.(*ast.IndexExpr); ok {
		of = &ast.IndexExpr{Index: generic.X}
	}
	if id, ok := of.Index.(*ast.Ident); ok {
		w.tables[in.name(id.Name)] = in.name(name)
	}
}

func (s *source) name(of string) string {
	if s.pkg == "" {
		return of
	}
	return s.pkg + "." + of
}

// isOf reports whether x is a name of the package that is imported from a path.
func (s *source) isOf(from string, x ast.Expr, name string) bool {
	if i, ok := x.(*ast.IndexExpr); ok {
		x = i.X
	}
	sel, ok := x.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && s.imports[id.Name] == from && sel.Sel.Name == name
}

func (w *packages) structsWithNumbers() (names []string) {
	for name, t := range w.types {
		if s, ok := t.spec.Type.(*ast.StructType); ok && t.spec.Name.IsExported() && w.fields(t.in, s) {
			names = append(names, name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

func (w *packages) fields(in source, s *ast.StructType) bool {
	return slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
		exported := len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported)
		return exported && w.number(in, f.Type)
	})
}

var numbers = []string{"int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "uintptr", "float32", "float64"}

// number reports whether a field of type x is a number, or has one in it that is not another
// struct's to bound.
func (w *packages) number(in source, x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		if t, known := w.types[in.name(x.Name)]; known {
			return w.named(t)
		}
		return slices.Contains(numbers, x.Name)
	case *ast.SelectorExpr:
		id, ok := x.X.(*ast.Ident)
		if !ok {
			return false
		}
		from := in.imports[id.Name]
		if from == "time" {
			return x.Sel.Name == "Duration"
		}
		of := source{pkg: path.Base(from)}
		if from == module {
			of.pkg = ""
		}
		t, known := w.types[of.name(x.Sel.Name)]
		return known && strings.HasPrefix(from, module) && w.named(t)
	case *ast.StarExpr:
		return w.number(in, x.X)
	case *ast.ArrayType:
		elem, ok := x.Elt.(*ast.Ident)
		return (!ok || elem.Name != "byte") && w.number(in, x.Elt)
	case *ast.StructType:
		return w.fields(in, x)
	}
	return false
}

// named is number for a type with a name. An exported struct has a table of its own.
func (w *packages) named(t typeIn) bool {
	s, is := t.spec.Type.(*ast.StructType)
	if !is {
		return w.number(t.in, t.spec.Type)
	}
	return !t.spec.Name.IsExported() && w.fields(t.in, s)
}

// Names that two packages share would hide each other.
func TestPackagesHaveNamesOfTheirOwn(t *testing.T) { // K12
	dirs := map[string]string{}
	for _, p := range slices.Sorted(maps.Keys(packageDirs(t))) {
		if other, twice := dirs[path.Base(p)]; twice {
			t.Errorf("%s and %s have the same name: the walk over bounds takes them for one", p, other)
		}
		dirs[path.Base(p)] = p
	}
}

func packageDirs(t *testing.T) map[string]bool {
	t.Helper()
	dirs := map[string]bool{}
	for _, p := range goList(t) {
		if strings.HasPrefix(p.ImportPath, module) && !strings.Contains(p.ImportPath, "/internal/") && !strings.Contains(p.ImportPath, "/examples/") {
			dirs[p.ImportPath] = true
		}
	}
	return dirs
}
