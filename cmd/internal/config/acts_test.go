package config

import (
	"encoding"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/outcome"
	"github.com/stet-dev/stet/stethttp"
)

// elsewhere are the fields of a guard that are no settings of a policy: the gateway sets them from
// other sections, or a program alone does.
var elsewhere = []string{"Route", "Mode", "BodyTimeout", "Errors", "Render", "AllowOrigins", "ProblemBase", "Limits", "Client", "Continue", "Key.Pattern"}

// A setting of a policy that is changed changes how requests are guarded, and what a guard can be
// told has a setting.
func TestEverySettingOfAPolicyActs(t *testing.T) {
	plain := profilePolicy("default")
	was := plain.HTTP()
	n := 0
	settings(reflect.ValueOf(&plain).Elem(), "", func(_ field, path string, _ reflect.Value) {
		n++
		p := profilePolicy("default")
		if path == "keep_expired_s" { // it counts with this one alone
			p.OnExpired = "reject"
			was := p.HTTP()
			p.KeepExpired++
			if reflect.DeepEqual(p.HTTP(), was) {
				t.Errorf("policy.%s changes nothing", path)
			}
			return
		}
		settings(reflect.ValueOf(&p).Elem(), "", func(f field, at string, _ reflect.Value) {
			if at == path {
				f.change()
			}
		})
		if reflect.DeepEqual(p.HTTP(), was) != (path == "upstream_key") { // that one is the proxy's
			t.Errorf("policy.%s changes nothing: give it the tag is", path)
		}
	})
	if n < 40 {
		t.Errorf("only %d settings were found", n)
	}
	set := map[any]bool{}
	plain.beside(&was, func(_ field, other reflect.Value) { set[other.Addr().Interface()] = true })
	leaves(reflect.ValueOf(&was).Elem(), "", func(path string, v reflect.Value) {
		if set[v.Addr().Interface()] == slices.Contains(elsewhere, path) {
			t.Errorf("stethttp.Config.%s: a policy has to have a setting for it, by the tag is, or elsewhere lists it", path)
		}
	})
}

// The words of a setting are those of its counterpart's type: none is forgotten, and each is read as
// it is written. What each stands for is in TestWords.
func TestWordsAreThoseOfTheTypes(t *testing.T) { // Y21
	var p Policy
	var c stethttp.Config
	n := 0
	compare := func(words []string, of reflect.Type) {
		n++
		if known := wordsOfType(t, of); !slices.Equal(known, slices.Sorted(slices.Values(words))) {
			t.Errorf("the file has %q, and %s has %q", words, of, known)
		}
	}
	p.beside(&c, func(f field, other reflect.Value) {
		words := f.enum()
		switch {
		case words == nil:
		case f.Kind() == reflect.Map:
			if known := slices.Sorted(maps.Keys(outcome.States)); !slices.Equal(known, slices.Sorted(slices.Values(words))) {
				t.Errorf("the file has %q, and statuses can mean %q", words, known)
			}
		case other.Kind() == reflect.Bool:
			if word := f.wordForTrue(); len(words) != 2 || words[1] != word {
				t.Errorf("%q stands for true, of %q", word, words)
			}
		default:
			compare(words, other.Type())
		}
	})
	settings(reflect.ValueOf(&Route{}).Elem(), "", func(f field, path string, _ reflect.Value) {
		if path == "mode" {
			compare(f.enum(), reflect.TypeFor[stethttp.Mode]())
		}
	})
	if n < 8 {
		t.Errorf("only %d settings", n)
	}
}

// wordsOfType returns, in order, the words that a file may have for the constants of a type.
func wordsOfType(t *testing.T, of reflect.Type) []string {
	t.Helper()
	var known []string
	for v := range uint64(256) {
		is, again := reflect.New(of), reflect.New(of)
		is.Elem().SetUint(v)
		text, err := is.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			continue
		}
		if err := again.Interface().(encoding.TextUnmarshaler).UnmarshalText(text); err != nil || again.Elem().Uint() != v {
			t.Errorf("%s %d is %s, which is %d: %v", of, v, text, again.Elem().Uint(), err)
		}
		if word := string(text); word != "atomic" && word != "by-method" { // for handlers in Go; no mode of a route
			known = append(known, word)
		}
	}
	slices.Sort(known)
	return known
}

// A value without a word does not get into what is shown as a configuration.
func TestAValueWithoutAWordIsNotShown(t *testing.T) { // Y21
	var p Policy
	c := stethttp.Config{Waiting: 9}
	defer func() {
		if recover() == nil {
			t.Errorf("wait_policy is %q", p.WaitPolicy)
		}
	}()
	p.beside(&c, func(f field, other reflect.Value) {
		if !other.IsZero() {
			f.takeFrom(other)
		}
	})
}

// A setting beside those of policies is read by some code of the program. A name that other types
// have as well is not told apart.
func TestEverySettingIsHeeded(t *testing.T) {
	heeded := map[string]bool{}
	for _, dir := range []string{".", "../dsn", "../layers", "../../stet"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) < 3 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") {
				ast.Inspect(file, func(n ast.Node) bool {
					if s, ok := n.(*ast.SelectorExpr); ok {
						heeded[s.Sel.Name] = true
					}
					return true
				})
			}
		}
	}
	instead := map[string]bool{} // of another setting, which the decoder sees to
	eachField(func(_ reflect.Type, f reflect.StructField) { instead[f.Tag.Get("or")] = true })
	policies := map[reflect.Type]bool{}
	for f := range reflect.TypeFor[Policy]().Fields() {
		policies[f.Type] = true
	}
	n := 0
	eachField(func(typ reflect.Type, f reflect.StructField) {
		_, later := f.Tag.Lookup("later")
		if kindOf(f.Type) != setting || later || instead[f.Tag.Get("yaml")] || typ == reflect.TypeFor[Policy]() || policies[typ] || typ == reflect.TypeFor[jwt]() {
			return
		}
		if n++; !heeded[f.Name] {
			t.Errorf("%s.%s is read by no code: a setting is its field, and what heeds it", typ.Name(), f.Name)
		}
	})
	if n < 60 {
		t.Errorf("only %d settings", n)
	}
}

// change gives a setting a value that it does not have.
func (f field) change() {
	switch words := f.enum(); {
	case f.Kind() == reflect.Map:
		f.Set(reflect.ValueOf(map[int]string{502: words[0]}))
	case words != nil:
		f.SetString(words[(slices.Index(words, f.String())+1)%len(words)])
	case f.Kind() == reflect.String:
		f.SetString("[a-z]")
	case f.Kind() == reflect.Bool:
		f.SetBool(!f.Bool())
	case f.Kind() == reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	default:
		f.SetInt(f.Int() + 1)
	}
}

// leaves visits the exported fields of a struct, and of those in it.
func leaves(v reflect.Value, prefix string, visit func(path string, v reflect.Value)) {
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case !f.IsExported():
		case f.Type.Kind() == reflect.Struct && f.Anonymous:
			leaves(v.Field(i), prefix, visit)
		case f.Type.Kind() == reflect.Struct:
			leaves(v.Field(i), join(prefix, f.Name), visit)
		default:
			visit(join(prefix, f.Name), v.Field(i))
		}
	}
}

// What a document says in parentheses after the name of a setting, as in `listen` (:8080), is its
// default.
func TestDefaultsInTheDocs(t *testing.T) {
	defaults := map[string]reflect.StructTag{}
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for f := range t.Fields() {
			path := join(prefix, f.Tag.Get("yaml"))
			switch kindOf(f.Type) {
			case section:
				walk(f.Type, path)
			case optional:
				walk(f.Type.Elem(), path)
			case setting, routes:
				for name := path; name != ""; _, name, _ = strings.Cut(name, ".") {
					if _, twice := defaults[name]; twice {
						defaults[name] = "" // it names two settings
					} else {
						defaults[name] = f.Tag
					}
				}
			}
		}
	}
	walk(reflect.TypeFor[File](), "")
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile("`([a-z_0-9.]+)`\\s\\(([^()]+)\\)")
	n := 0
	for _, file := range append(files, "../../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range said.FindAllStringSubmatch(string(text), -1) {
			tag, known := defaults[m[1]]
			if !known || tag == "" {
				continue
			}
			want, ok := tag.Lookup("default")
			got, isNumber := plainNumber(m[2])
			if !ok || !isNumber {
				continue
			}
			n++
			if seconds, err := strconv.ParseFloat(want, 64); err != nil || got != seconds {
				t.Errorf("%s says %s (%s), and its default is %s", filepath.Base(file), m[1], m[2], want)
			}
		}
	}
	if n < 12 {
		t.Errorf("only %d defaults were found in the documents", n)
	}
}

// plainNumber reads a number as documents write it: 1,000 or 64 KiB, and times in seconds.
func plainNumber(text string) (float64, bool) {
	switch text {
	case "half":
		return 0.5, true
	case "a day":
		return (24 * time.Hour).Seconds(), true
	case "a minute":
		return time.Minute.Seconds(), true
	}
	var n float64
	var unit string
	if k, _ := fmt.Sscan(strings.ReplaceAll(text, ",", ""), &n, &unit); k == 0 {
		return 0, false
	}
	factor, ok := map[string]float64{"": 1, "s": 1, "min": 60, "minutes": 60, "h": 3600, "days": 86400, "KiB": 1 << 10, "MiB": 1 << 20}[unit]
	return n * factor, ok
}
