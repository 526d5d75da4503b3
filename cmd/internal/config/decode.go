package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/spell"
)

// decoder fills in a value from YAML nodes, by the tags of [File]. It collects what is wrong
// instead of stopping there, and notes where each value was given. What the nodes do not mention
// stays as it is, so that decoding one document over another is how layers are put on top of each
// other.
type decoder struct {
	file   string
	given  origins
	errs   Errors
	budget int // of nodes: aliases can make a small document an endless one
}

// maxNodes bounds a configuration. A file with a thousand routes has about 20,000.
const maxNodes = 300_000

func (d *decoder) at(n *yaml.Node) Origin {
	return Origin{Kind: FromFile, Name: d.file, Line: n.Line, Col: n.Column}
}

func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.errs.add(d.at(n), path, format, args...)
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// field is one setting: where its value goes and what its tags say.
type field struct {
	reflect.Value
	tag reflect.StructTag
}

// value decodes n into f.
func (d *decoder) value(n *yaml.Node, f field, path string) {
	n = resolve(n)
	if d.budget--; d.budget <= 0 {
		if d.budget == 0 {
			d.fail(n, path, "the document is too large")
		}
		return
	}
	switch f.Kind() {
	case reflect.Struct:
		d.structure(n, f.Value, path)
	case reflect.Pointer:
		if f.IsNil() {
			f.Set(reflect.New(f.Type().Elem()))
			setDefaults(f.Elem())
		}
		d.structure(n, f.Elem(), path)
	case reflect.Slice:
		d.list(n, f, path)
	case reflect.Map:
		d.table(n, f, path)
	default:
		d.scalar(n, f, path)
	}
}

// empty reports a key without a value.
func empty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// structure decodes what is there, and checks that it is all that has to be.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	var content []*yaml.Node
	if n.Kind == yaml.MappingNode {
		content = n.Content
	} else if !empty(n) {
		d.fail(n, path, "want keys and values, not %s", describe(n))
	}
	first := map[string]int{}
	for pair := range slices.Chunk(content, 2) {
		key, val := pair[0], pair[1]
		name := join(path, key.Value)
		f, ok := member(v, key.Value)
		switch line, twice := first[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			d.fail(key, path, "a key is a single word")
		case key.Tag == "!!merge":
			d.fail(key, path, "<< is not supported; an anchor on a whole value is")
		case !ok:
			d.fail(key, name, "there is no such key%s", d.suggest(v, path, key.Value))
		case twice:
			d.fail(key, name, "the key is given twice; the first is in line %d", line)
		default:
			first[key.Value] = key.Line
			d.given[name] = d.at(resolve(val))
			if empty(val) && val.Value == "" { // its own place is the next token's
				d.given[name] = d.at(key)
			}
			d.value(val, f, name)
		}
	}
	for f := range v.Type().Fields() {
		key := f.Tag.Get("yaml")
		if _, ok := d.given[join(path, key)]; !ok && f.Tag.Get("nonempty") == "required" {
			d.fail(n, path, "%s is missing", key)
		}
	}
}

func (d *decoder) list(n *yaml.Node, f field, path string) {
	switch {
	case empty(n):
		return
	case n.Kind != yaml.SequenceNode:
		d.fail(n, path, "want a list such as [a, b], not %s", describe(n))
		return
	}
	out := reflect.MakeSlice(f.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		name := fmt.Sprintf("%s[%d]", path, i)
		elem := field{out.Index(i), f.tag}
		d.given[name] = d.at(resolve(item))
		if elem.Kind() == reflect.Struct {
			setDefaults(elem.Value)
		}
		d.value(item, elem, name)
	}
	f.Set(out)
}

// table decodes words by numbers.
func (d *decoder) table(n *yaml.Node, f field, path string) {
	if n.Kind != yaml.MappingNode {
		if !empty(n) {
			d.fail(n, path, "want numbers with words, such as %s, not %s", f.tag.Get("example"), describe(n))
		}
		return
	}
	out := reflect.MakeMap(f.Type())
	for pair := range slices.Chunk(n.Content, 2) {
		name := join(path, pair[0].Value)
		number, word := field{reflect.New(f.Type().Key()).Elem(), f.tag}, field{reflect.New(f.Type().Elem()).Elem(), f.tag}
		d.given[name] = d.at(resolve(pair[1]))
		d.scalar(pair[0], number, name)
		d.value(pair[1], word, name)
		if out.MapIndex(number.Value).IsValid() {
			d.fail(pair[0], name, "the key is given twice")
		}
		out.SetMapIndex(number.Value, word.Value)
	}
	f.Set(out)
}

func (d *decoder) scalar(n *yaml.Node, f field, path string) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, path, "want %s, not %s", wanted(f), describe(n))
		return
	}
	if n.Tag == "!!null" {
		d.errs.add(d.given.of(path), path, "has no value; want %s", wanted(f))
		return
	}
	want := "!!str"
	switch f.Kind() {
	case reflect.Bool:
		want = "!!bool"
	case reflect.Int, reflect.Int64, reflect.Float64:
		want = "" // said by the number's own reader, which also knows what 24h would be
	}
	if want != "" && n.Tag != want {
		d.fail(n, path, "want %s, not %s%s", wanted(f), describe(n), quoteHint(n, f))
		return
	}
	if want == "" && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 && decimal.MatchString(n.Value) {
		d.fail(n, path, "want %s; take the quotes away", wanted(f))
		return
	}
	if err := f.set(n.Value); err != nil {
		d.fail(n, path, "%s", err)
	}
}

// set reads a scalar and checks its range.
func (f field) set(s string) error {
	switch f.Kind() {
	case reflect.String:
		if err := f.checkText(s); err != nil {
			return err
		}
		f.SetString(s)
	case reflect.Bool:
		word := strings.ToLower(s)
		if word != "true" && word != "false" {
			return fmt.Errorf("%q is neither true nor false", s)
		}
		f.SetBool(word == "true")
	case reflect.Int, reflect.Int64, reflect.Float64:
		return f.setNumber(s)
	default:
		panic("config: a setting of type " + f.Type().String())
	}
	return nil
}

func (f field) checkText(s string) error {
	if words := f.enum(); words != nil && !slices.Contains(words, s) {
		return fmt.Errorf("%q is not one of %s%s", s, strings.Join(words, ", "), spell.Hint(s, words))
	}
	if _, ok := f.tag.Lookup("nonempty"); ok && s == "" {
		return fmt.Errorf("cannot be empty")
	}
	return nil
}

func (f field) setNumber(s string) error {
	var n float64
	switch {
	case f.Type() == reflect.TypeFor[Seconds]():
		sec, err := parseSeconds(s)
		if err != nil {
			return err
		}
		f.SetInt(int64(sec))
		n = float64(sec) / 1e9
	case f.Kind() == reflect.Float64:
		x, err := strconv.ParseFloat(s, 64)
		if !decimal.MatchString(s) || err != nil || math.IsInf(x, 0) {
			return fmt.Errorf("%q is not a number, such as 100 or 0.5", s)
		}
		f.SetFloat(x)
		n = x
	default:
		i, err := strconv.ParseInt(s, 10, f.Type().Bits())
		if !integer.MatchString(s) || err != nil {
			return fmt.Errorf("%q is not a whole number, such as 100", s)
		}
		f.SetInt(i)
		n = float64(i)
	}
	if lo, ok := f.bound("min"); ok && n < lo {
		return fmt.Errorf("%s is too little: at least %s", s, f.tag.Get("min"))
	}
	if hi, ok := f.bound("max"); ok && n > hi {
		return fmt.Errorf("%s is too much: at most %s", s, f.tag.Get("max"))
	}
	return f.withinAny(s, n)
}

// withinAny compares a number with the bounds that all settings of its type have, which are the
// library's.
func (f field) withinAny(s string, n float64) error {
	most := float64(bounds.Many)
	switch {
	case f.Type() == reflect.TypeFor[Seconds]():
		if most = bounds.Long.Seconds(); n != 0 && n < bounds.Short.Seconds() {
			return fmt.Errorf("%s is too little: at least %v", s, bounds.Short.Seconds())
		}
	case f.Kind() == reflect.Int64:
		most = bounds.Huge
	}
	if n > most {
		return fmt.Errorf("%s is too much: at most %.0f", s, most)
	}
	return nil
}

func (f field) bound(name string) (float64, bool) {
	s, ok := f.tag.Lookup(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic("config: the tag " + name + " is " + s)
	}
	return n, true
}

func (f field) enum() []string {
	if e, ok := f.tag.Lookup("enum"); ok {
		return strings.Split(e, "|")
	}
	return nil
}
