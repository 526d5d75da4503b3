package config

import (
	"iter"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stet-dev/stet/internal/spell"
)

// What the walks over the tree of [File] share.

// kind is what a field of the tree is to a walk.
type kind uint8

const (
	setting  kind = iota // a value, or a list of them
	section              // has fields
	optional             // the same, and may not be there
	routes               // has a section for each route
)

func kindOf(t reflect.Type) kind {
	switch {
	case t.Kind() == reflect.Struct:
		return section
	case t.Kind() == reflect.Pointer:
		return optional
	case t == reflect.TypeFor[[]Route]():
		return routes
	}
	return setting
}

func (f field) kind() kind { return kindOf(f.Type()) }

// fields are those of a section, with their tags.
func fields(in reflect.Value) iter.Seq[field] {
	return func(yield func(field) bool) {
		for of, v := range in.Fields() {
			if !yield(field{v, of.Tag}) {
				return
			}
		}
	}
}

// settings visits those of a section and of all in it, but not those of routes. in is the section a
// setting is in.
func settings(in reflect.Value, prefix string, visit func(f field, path string, in reflect.Value)) {
	for f := range fields(in) {
		path := join(prefix, f.tag.Get("yaml"))
		switch f.kind() {
		case section:
			settings(f.Value, path, visit)
		case optional:
			if !f.IsNil() {
				settings(f.Elem(), path, visit)
			}
		case routes:
		case setting:
			visit(f, path, in)
		}
	}
}

// instead reports whether the value comes from a file that another setting of the section names.
func (f field) instead(in reflect.Value) bool {
	other, ok := member(in, f.tag.Get("or"))
	return ok && other.String() != ""
}

// member finds a struct's field by its key.
func member(v reflect.Value, key string) (field, bool) {
	for f := range fields(v) {
		if f.tag.Get("yaml") == key {
			return f, true
		}
	}
	return field{}, false
}

// at finds a field by its path.
func at(v reflect.Value, path string) (f field, ok bool) {
	for key := range strings.SplitSeq(path, ".") {
		if f, ok = member(v, key); !ok {
			return f, false
		}
		v = f.Value
	}
	return f, true
}

// keys are those of a struct type.
func keys(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		names = append(names, f.Tag.Get("yaml"))
	}
	return names
}

// paths lists every key of the tree with its place.
func paths(t reflect.Type, prefix string, visit func(path, key string)) {
	for f := range t.Fields() {
		key := f.Tag.Get("yaml")
		visit(join(prefix, key), key)
		switch kindOf(f.Type) {
		case section:
			paths(f.Type, join(prefix, key), visit)
		case optional:
			paths(f.Type.Elem(), join(prefix, key), visit)
		case routes:
			paths(f.Type.Elem(), join(prefix, key)+"[]", visit)
		case setting:
		}
	}
}

// suggest says which key was meant: a near one here, or the very one elsewhere.
func (d *decoder) suggest(v reflect.Value, here, key string) string {
	if near := spell.Nearest(key, keys(v.Type())); near != "" {
		return "; did you mean " + near + "?"
	}
	var elsewhere string
	paths(reflect.TypeFor[File](), "", func(path, name string) {
		if name == key && elsewhere == "" {
			elsewhere = path
		}
	})
	switch {
	case elsewhere != "" && strings.HasPrefix(here, "routes["):
		return "; in a route, the keys of policy go under policy:"
	case elsewhere != "":
		return "; it belongs at " + elsewhere
	}
	return "; stet config init prints all keys"
}

// setDefaults fills in the default tags, deeply.
func setDefaults(v reflect.Value) {
	for f := range fields(v) {
		if f.kind() == section {
			setDefaults(f.Value)
		} else {
			f.setDefault()
		}
	}
}

// setDefault reports whether there is a default.
func (f field) setDefault() bool {
	def, ok := f.tag.Lookup("default")
	switch {
	case !ok:
	case f.Kind() == reflect.Slice:
		words := strings.Split(def, ",")
		f.Set(reflect.MakeSlice(f.Type(), len(words), len(words)))
		for i, w := range words {
			must(field{f.Index(i), f.tag}.set(w))
		}
	default:
		must(f.set(def))
	}
	return ok
}

func must(err error) {
	if err != nil {
		panic("config: a default or a word that is none: " + err.Error())
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// wanted and describe are the two halves of a complaint about a type.
func wanted(f field) string {
	switch f.Kind() {
	case reflect.String:
		if words := f.enum(); words != nil {
			return "one of " + strings.Join(words, ", ")
		}
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	}
	if f.Type() == reflect.TypeFor[Seconds]() {
		return "a number of seconds"
	}
	return "a whole number"
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.DocumentNode, yaml.AliasNode, yaml.ScalarNode:
	}
	switch n.Tag {
	case "!!str":
		return "the text " + quote(shorten(redact(n.Value)))
	case "!!int", "!!float":
		return "the number " + shorten(n.Value)
	case "!!bool":
		return n.Value
	case "!!null":
		return "nothing"
	}
	return "a " + n.Tag
}

// quoteHint: what looks like a number can be meant as text.
func quoteHint(n *yaml.Node, f field) string {
	if f.Kind() == reflect.String && f.enum() == nil && (n.Tag == "!!int" || n.Tag == "!!float" || n.Tag == "!!bool" || n.Tag == "!!timestamp") {
		return "; put it in quotes"
	}
	return ""
}

// shorten keeps a value that does not belong there from filling the screen.
func shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:37]) + "..."
	}
	return s
}
