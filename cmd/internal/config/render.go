package config

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet/admin"
)

// line is one line of a configuration as YAML.
type line struct {
	path   string
	depth  int
	key    string // with its colon, and its dash where it begins a list's element
	value  string
	off    int    // > 0: commented out, so far from the left
	remark string // for people
	doc    string // what it means, without its words and what a change takes
	unit   string // of a number
}

// renderer walks the tree of [File] and makes lines of it.
type renderer struct {
	template bool // show what could be set too, and why; otherwise only what is
	emit     func(line)
}

// fields makes lines of a struct. Where below is valid, what equals it is left out.
func (r *renderer) fields(v, below reflect.Value, path string, depth, off int) {
	for i := range v.NumField() {
		f := field{v.Field(i), v.Type().Field(i).Tag}
		if f.instead(v) {
			continue
		}
		var under reflect.Value
		if below.IsValid() {
			under = below.Field(i)
			if reflect.DeepEqual(f.Interface(), under.Interface()) {
				continue
			}
		}
		r.field(f, under, join(path, f.tag.Get("yaml")), depth, off)
	}
}

func (r *renderer) field(f field, below reflect.Value, path string, depth, off int) {
	l := line{path: path, depth: depth, off: off, key: f.tag.Get("yaml") + ":", remark: f.remark(), doc: f.tag.Get("doc"), unit: unit(f.Type(), f.tag)}
	_, later := f.tag.Lookup("later")
	_, dialect := f.tag.Lookup("dialect")
	first, filled := f.tag.Lookup("init")
	switch {
	case r.template && off == 0 && (later || dialect || f.absent() && !filled):
		l.off = depth + 1
	case !r.template && (later || f.absent() || f.idle()):
		return
	}
	switch f.kind() {
	case section:
		r.emit(l)
		r.fields(f.Value, below, path, depth+1, l.off)
	case optional:
		r.emit(l)
		in := reflect.New(f.Type().Elem()).Elem()
		if setDefaults(in); !f.IsNil() {
			in = f.Elem()
		}
		r.fields(in, reflect.Value{}, path, depth+1, l.off)
	case routes:
		r.routes(l, f)
	case setting:
		if l.value = f.sample(); filled && r.template {
			l.value = quote(first)
		}
		r.emit(l)
	}
}

// absent reports a setting that has no value; it can only be shown as an example.
func (f field) absent() bool {
	if f.Kind() == reflect.Pointer || f.Kind() == reflect.Map {
		return f.IsNil()
	}
	_, nonempty := f.tag.Lookup("nonempty")
	_, example := f.tag.Lookup("example")
	_, filled := f.tag.Lookup("init")
	return f.Kind() == reflect.String && f.String() == "" && (nonempty || example || filled || f.enum() != nil)
}

// sample is a setting's value, or an example of one.
func (f field) sample() string {
	switch example := f.tag.Get("example"); {
	case f.absent() && f.Kind() == reflect.Map:
		return example
	case f.absent():
		return quote(example)
	}
	return f.text()
}

// text is a value as it may be shown.
func (f field) text() string {
	how, secret := f.tag.Lookup("secret")
	switch {
	case !secret || f.IsZero():
		return format(f.Value)
	case how == "dsn":
		return quote(redact(f.String()))
	case how == "url":
		return quote(redactURL(f.String()))
	}
	return hidden
}

// idle reports a section in which this build can set nothing.
func (f field) idle() bool {
	if f.Kind() != reflect.Struct {
		return false
	}
	for in := range f.Type().Fields() {
		if _, later := in.Tag.Lookup("later"); !later {
			return false
		}
	}
	return true
}

func (f field) remark() string {
	remark := strings.Trim(strings.Join(f.enum(), " | ")+"; "+f.tag.Get("doc"), "; ")
	if later, ok := f.tag.Lookup("later"); ok {
		return strings.TrimSuffix("not in this build yet: "+later+"; "+remark, "; ")
	}
	if f.tag.Get("reload") == "restart" {
		remark = strings.TrimPrefix(remark+"; a change takes a restart", "; ")
	}
	return remark
}

// routes: each shows only where it differs from the file's policy.
func (r *renderer) routes(l line, f field) {
	if f.Len() == 0 && !r.template {
		l.value = "[]"
	}
	r.emit(l)
	if f.Len() == 0 && r.template {
		r.example()
	}
}

// example is a route, commented out.
func (r *renderer) example() {
	v := reflect.New(reflect.TypeFor[Route]()).Elem()
	setDefaults(v)
	dash := r.dashed()
	for f := range fields(v) {
		dash.emit(line{depth: 1, off: 1, key: f.tag.Get("yaml") + ":", remark: f.remark(),
			value: cmp.Or(f.tag.Get("example"), f.sample())})
	}
}

// dashed emits lines of a list's element: the first one has the dash.
func (r *renderer) dashed() renderer {
	first, emit := true, r.emit
	return renderer{template: r.template, emit: func(l line) {
		if first {
			l.depth, l.key, first = l.depth-1, "- "+l.key, false
		}
		emit(l)
	}}
}

// element makes lines of a route.
func (r *renderer) element(route *Route, file *Policy, path string) {
	dash := r.dashed()
	v := reflect.ValueOf(route).Elem()
	for f := range fields(v) {
		name := join(path, f.tag.Get("yaml"))
		if f.IsZero() { // as every route is that does not say so
			continue
		}
		if f.Kind() != reflect.Struct {
			dash.field(f, reflect.Value{}, name, 1, 0)
		} else if !reflect.DeepEqual(route.Policy, *file) {
			dash.field(f, reflect.ValueOf(file).Elem(), name, 1, 0)
		}
	}
}

// format writes a value as YAML.
func format(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case Seconds:
		return x.String()
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case string:
		return quote(x)
	}
	if v.Kind() == reflect.Slice {
		words := make([]string, v.Len())
		for i := range words {
			words[i] = format(v.Index(i))
		}
		return "[" + strings.Join(words, ", ") + "]"
	}
	if v.Kind() == reflect.Map {
		words := make([]string, 0, v.Len())
		for _, number := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return cmp.Compare(a.Int(), b.Int()) }) {
			words = append(words, format(number)+": "+format(v.MapIndex(number)))
		}
		return "{" + strings.Join(words, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// lines emits the effective configuration.
func (c *Config) lines(emit func(line)) {
	r := renderer{emit: emit}
	r.fields(reflect.ValueOf(&c.File).Elem(), reflect.Value{}, "", 0, 0)
	for i := range c.Routes {
		r.element(&c.Routes[i], &c.Policy, fmt.Sprintf("routes[%d]", i))
	}
}

// column is where remarks begin.
const column = 44

func (l line) write(w *bufio.Writer) {
	text := strings.Repeat("  ", l.depth)
	if l.off > 0 {
		text = strings.Repeat("  ", l.off-1) + "# " + strings.Repeat("  ", l.depth-l.off+1)
	}
	text += l.key
	if l.value != "" {
		text += " " + l.value
	}
	if l.remark != "" {
		text += strings.Repeat(" ", max(2, column-len(text))) + "# " + l.remark
	}
	_, _ = w.WriteString(text + "\n")
}

// Show writes the effective configuration as YAML that means the same, but for secrets, which are
// hidden: what routes have in common with the file's policy is said once. With origin, each line
// says where its value comes from.
func (c *Config) Show(w io.Writer, origin bool) error {
	b := bufio.NewWriter(w)
	c.lines(func(l line) {
		if l.remark = ""; origin && l.value != "" {
			l.remark = c.Origin(l.path).String()
		}
		l.write(b)
	})
	return b.Flush()
}

// Init writes a configuration with every setting at its default, and what each means.
func Init(w io.Writer) error {
	var f File
	setDefaults(reflect.ValueOf(&f).Elem())
	b := bufio.NewWriter(w)
	_, _ = b.WriteString(`# Stet gateway. Every value below is the default, but for the upstream, which is your API: keep what you change, delete the
# rest. The keys of policy are commented out because a key that is given beats the profile.
# stet config check --config FILE finds mistakes; stet config schema > stet.schema.json is for editors:
# yaml-language-server: $schema=stet.schema.json
# Names that end in _s are seconds, whole or decimal.
`)
	r := renderer{template: true, emit: func(l line) { l.write(b) }}
	r.fields(reflect.ValueOf(&f).Elem(), reflect.Value{}, "", 0, 0)
	return b.Flush()
}

// Settings lists the effective configuration as [Config.Show] writes it, without quotes. pending
// has the settings of the file that wait for the next start.
func (c *Config) Settings(pending []Change) (all []admin.Setting) {
	waiting := map[string]string{}
	for _, p := range pending {
		waiting[p.Path] = unquote(p.Is)
	}
	c.lines(func(l line) {
		if l.value != "" {
			all = append(all, admin.Setting{Path: l.path, Value: unquote(l.value), Origin: c.Origin(l.path).String(),
				Doc: l.doc, Unit: l.unit, Pending: waiting[l.path]})
		}
	})
	return all
}

// unquote returns a string as it is, and any other value as it was written.
func unquote(value string) string {
	if s, err := strconv.Unquote(value); err == nil {
		return s
	}
	return value
}

// Origin is where the value of a setting comes from.
func (c *Config) Origin(path string) Origin {
	if at, ok := c.given[path]; ok {
		return at
	}
	var route int
	profile, key, ok := c.profiles[-1], "", false
	if key, ok = strings.CutPrefix(path, "policy."); !ok {
		if n, _ := fmt.Sscanf(path, "routes[%d].policy.%s", &route, &key); n != 2 {
			return Origin{}
		}
		profile = c.profiles[route]
		if at, ok := c.given["policy."+key]; ok {
			return at
		}
	}
	plain, dialect := profilePolicy("default"), profilePolicy(profile)
	usual, known := at(reflect.ValueOf(&plain).Elem(), key)
	is, _ := at(reflect.ValueOf(&dialect).Elem(), key)
	if !known || reflect.DeepEqual(usual.Interface(), is.Interface()) {
		return Origin{}
	}
	return Origin{Kind: fromProfile, Name: profile}
}

// Setting is one value that is in force, and where it comes from.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// Differing lists what the policy of a route, or for -1 of requests that no route matches, has
// otherwise than the default profile.
func (c *Config) Differing(route int) []Setting {
	p, path := &c.Policy, "policy"
	if route >= 0 {
		p, path = &c.Routes[route].Policy, fmt.Sprintf("routes[%d].policy", route)
	}
	plain, found := profilePolicy("default"), []Setting{}
	r := renderer{emit: func(l line) {
		if l.value != "" {
			found = append(found, Setting{strings.TrimPrefix(l.path, path+"."), l.value, c.Origin(l.path).String()})
		}
	}}
	r.fields(reflect.ValueOf(p).Elem(), reflect.ValueOf(&plain).Elem(), path, 0, 0)
	return found
}
