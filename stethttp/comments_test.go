package stethttp_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// A default that the comment of a field gives as a number is the one that is filled in.
func TestCommentsSayTheDefaults(t *testing.T) {
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := stethttp.New(e, stethttp.SingleTenant, stethttp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, in := range []struct {
		file, name string
		filled     any
	}{
		{"../config.go", "Policy", e.Policy()},
		{"config.go", "Config", g.Config()},
		{"limits.go", "LimitsConfig", g.Config().Limits.Config()},
	} {
		for field, said := range saidDefaults(t, in.file, in.name) {
			v := reflect.ValueOf(in.filled).FieldByName(field)
			var got float64
			switch {
			case v.IsZero(): // filled in where it is used
				continue
			case v.Type() == reflect.TypeFor[time.Duration]():
				got = time.Duration(v.Int()).Seconds()
			case v.CanInt():
				got = float64(v.Int())
			case v.CanFloat():
				got = v.Float()
			default:
				continue
			}
			if n++; got != said {
				t.Errorf("the comment of %s.%s says that its default is %v, and it is %v", in.name, field, said, got)
			}
		}
	}
	if n < 12 {
		t.Errorf("only %d defaults were found in comments", n)
	}
}

var sayDefault = regexp.MustCompile(`(?:default|0 means) ([0-9][0-9,.]*)(?: (s|h|days|KiB|MiB)\b)?`)

// saidDefaults are the numbers that comments of a struct's fields give, times in seconds.
func saidDefaults(t *testing.T, file, name string) map[string]float64 {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	ast.Inspect(tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			text := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
			m := sayDefault.FindStringSubmatch(text)
			if m == nil || len(f.Names) != 1 {
				continue
			}
			number, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimRight(m[1], ",."), ",", ""), 64)
			if err != nil {
				t.Errorf("%s.%s: %v", name, f.Names[0].Name, err)
			}
			all[f.Names[0].Name] = number * map[string]float64{"": 1, "s": 1, "h": 3600, "days": 86400, "KiB": 1 << 10, "MiB": 1 << 20}[m[2]]
		}
		return false
	})
	return all
}
