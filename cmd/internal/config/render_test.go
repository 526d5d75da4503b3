package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func initText(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	if err := Init(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What init prints is accepted, and is the defaults, with an upstream (D07: without one a gateway
// cannot run).
func TestInitIsTheDefaults(t *testing.T) {
	c := load(t, initText(t))
	defaults := load(t, "upstream: http://127.0.0.1:3000\n")
	if c.show(t) != defaults.show(t) {
		t.Errorf("init is\n%s\nthe defaults are\n%s", c.show(t), defaults.show(t))
	}
	for _, l := range strings.Split(initText(t), "\n") {
		if strings.TrimRight(l, " ") != l {
			t.Errorf("a line ends in blanks: %q", l)
		}
	}
}

// A profile that is filled in in a fresh file takes effect.
func TestInitLeavesRoomForAProfile(t *testing.T) {
	text := strings.Replace(initText(t), "profile: default", "profile: stripe ", 1)
	if p := load(t, text).Policy; p.Key.Syntax != "opaque" || p.Status.Mismatch != 400 || len(p.RequiredMethods) != 0 {
		t.Errorf("the profile has no effect: %+v", p)
	}
}

// Every key that exists is in init, and taking away the comment marks gives a configuration with
// known keys only.
func TestInitHasEveryKey(t *testing.T) {
	text := initText(t)
	body := text[strings.Index(text, "listen:"):]
	uncommented := regexp.MustCompile(`(?m)^( *)# `).ReplaceAllString(body, "$1")
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(uncommented), &root); err != nil {
		t.Fatalf("%v\n%s", err, uncommented)
	}
	paths(reflect.TypeFor[File](), "", func(path, _ string) {
		if strings.HasPrefix(path, "routes[].policy.") {
			return
		}
		n := root.Content[0]
		for _, key := range strings.Split(path, ".") {
			list, isList := strings.CutSuffix(key, "[]")
			if n = child(n, list); n == nil {
				t.Errorf("init does not mention %s", path)
				return
			}
			if isList {
				n = n.Content[0]
			}
		}
	})
}

func TestShow(t *testing.T) {
	c := load(t, `
store: { dsn: "memory:" }
scope: { api_key: { header: X-Api-Key } }
policy: { profile: stripe, on_5xx: release }
routes:
- match: POST /v1/payments
  policy: { wait_policy: no-wait, key: { min_len: 3 } }
- { match: "POST /v1/{search}", mode: off }
`)
	var b strings.Builder
	if err := c.Show(&b, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`dsn: "memory:"                            # stet.yaml:2:15`,
		`header: X-Api-Key                       # stet.yaml:3:29`,
		`required_methods: []                      # profile stripe`,
		`on_5xx: release                           # stet.yaml:4:36`,
		`listen: ":8080"                             # default`,
		`
routes:
- match: POST /v1/payments                  # stet.yaml:6:10
  policy:
    wait_policy: no-wait                    # stet.yaml:7:26
    key:
      min_len: 3                            # stet.yaml:7:51
- match: "POST /v1/{search}"                # stet.yaml:8:12
  mode: "off"                               # stet.yaml:8:39
`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("show lacks\n%s\nin\n%s", want, b.String())
		}
	}
}

// The schema knows what the decoder knows: it is made from the same tree. What is checked here is
// that it is well formed and says the things an editor needs.
func TestSchema(t *testing.T) {
	doc, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		AdditionalProperties *bool
		Properties           map[string]struct {
			Type, Description, Default any
			Enum                       []string
			Properties                 map[string]any
			Minimum                    *float64
			Items                      struct {
				Required   []string
				Properties map[string]map[string]any
			}
		}
		Definitions map[string]struct{ Properties map[string]any }
	}
	if err := json.Unmarshal(doc, &s); err != nil {
		t.Fatal(err)
	}
	if s.AdditionalProperties == nil || *s.AdditionalProperties {
		t.Error("unknown keys are allowed")
	}
	if p := s.Properties["replicas"]; p.Type != "integer" || p.Default != 1.0 || p.Minimum == nil || *p.Minimum != 1 {
		t.Errorf("replicas: %+v", p)
	}
	if p := s.Properties["read_timeout_s"]; p.Type != "number" || p.Default != 30.0 {
		t.Errorf("read_timeout_s: %+v", p)
	}
	routes := s.Properties["routes"].Items
	if len(routes.Required) != 1 || routes.Required[0] != "match" || routes.Properties["policy"]["$ref"] != "#/definitions/policy" {
		t.Errorf("routes: %+v", routes)
	}
	if got, want := len(s.Definitions["policy"].Properties), reflect.TypeFor[Policy]().NumField(); got != want {
		t.Errorf("the policy has %d keys, want %d", got, want)
	}
}

// What `config init` prints is valid under what `config schema` prints.
func TestInitFitsTheSchema(t *testing.T) { // R09
	var b strings.Builder
	if err := Init(&b); err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := yaml.Unmarshal([]byte(b.String()), &file); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	n := 0
	var fits func(path string, v any, s map[string]any)
	fits = func(path string, v any, s map[string]any) {
		if n++; s["$ref"] != nil {
			s = schema["definitions"].(map[string]any)["policy"].(map[string]any)
		}
		is := map[bool]string{true: "null"}[v == nil]
		switch v := v.(type) {
		case map[string]any:
			is = "object"
			for key, member := range v {
				p, known := s["properties"].(map[string]any)[key].(map[string]any)
				if !known {
					t.Errorf("%s.%s is not in the schema", path, key)
				}
				fits(path+"."+key, member, p)
			}
		case []any:
			is = "array"
			for _, item := range v {
				fits(path+"[]", item, s["items"].(map[string]any))
			}
		case string:
			is = "string"
			if words, ok := s["enum"].([]any); ok && !slices.Contains(words, any(v)) {
				t.Errorf("%s is %q", path, v)
			}
		case bool:
			is = "boolean"
		case int:
			is = "integer"
		case float64:
			is = "number"
		}
		if types := fmt.Sprint(s["type"]); !strings.Contains(types, is) && (is != "integer" || types != "number") {
			t.Errorf("%s is a %s, and the schema says %s", path, is, types)
		}
	}
	fits("", file, schema)
	if n < 60 {
		t.Errorf("only %d values", n)
	}
}

// Every tag is one the walks know; a misspelt one would be silently without effect.
func TestTags(t *testing.T) {
	known := regexp.MustCompile(`^(yaml|default|enum|min|max|nonempty|later|dialect|example|init|doc|is|unit|secret|or|reload|why|file|public)$`)
	word := regexp.MustCompile(`(\w+):"`)
	quoted := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	eachField(func(typ reflect.Type, f reflect.StructField) {
		for _, name := range word.FindAllStringSubmatch(quoted.ReplaceAllString(string(f.Tag), `""`), -1) {
			if !known.MatchString(name[1]) {
				t.Errorf("%s.%s has the tag %s", typ.Name(), f.Name, name[1])
			}
		}
	})
}

// Every setting says for itself what it is without one, what its number counts, and whether a
// reload puts it in force.
func TestTagsSayWhatTheyHaveTo(t *testing.T) { // D01
	eachField(func(typ reflect.Type, f reflect.StructField) {
		missing := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s.%s %s", typ.Name(), f.Name, fmt.Sprintf(format, args...))
		}
		has := func(tag string) bool { _, ok := f.Tag.Lookup(tag); return ok }
		reload, file := f.Tag.Get("reload"), f.Tag.Get("file")
		switch k := kindOf(f.Type); {
		case k == section:
			if has("reload") || has("file") {
				missing("is a section: its settings say for themselves")
			}
			return
		case reload != "live" && reload != "restart":
			missing("does not say whether a reload puts it in force: reload:\"live\", or reload:\"restart\" and why")
		case (reload == "restart" || file == "restart") != has("why"):
			missing("has to say why it takes a restart, and nothing else has to")
		case strings.HasSuffix(f.Name, "File") != has("file") || file != "" && file != "live" && file != "restart":
			missing("names a file exactly if its name ends in File, and says what a change of the contents does: file:\"live\" or file:\"restart\"")
		}
		number := false
		switch f.Type.Kind() {
		case reflect.Bool:
			if !has("default") {
				missing("needs a default")
			}
		case reflect.Int, reflect.Int64, reflect.Float64:
			number = true
			if !has("default") {
				missing("needs a default")
			}
		case reflect.Slice:
			number = f.Type.Elem().Kind() == reflect.Int
		case reflect.String:
			if has("enum") && !has("default") && !has("example") {
				missing("needs a default, or an example where none is one of the words")
			}
		}
		if number != (unit(f.Type, f.Tag) != "") || number && strings.HasSuffix(f.Tag.Get("yaml"), "_s") != (unit(f.Type, f.Tag) == "s") {
			missing("has the unit %q", unit(f.Type, f.Tag))
		}
		if has("secret") && f.Type.Kind() != reflect.String {
			missing("is secret and no text")
		}
		for _, word := range []string{"dsn", "token", "password", "secret", "key_file"} {
			if key := f.Tag.Get("yaml"); strings.Contains(key, word) && f.Type.Kind() == reflect.String && !has("secret") && !has("file") {
				missing("sounds secret")
			}
		}
	})
}

// eachField visits every field of the tree, with the type it is in.
func eachField(visit func(reflect.Type, reflect.StructField)) {
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for f := range typ.Fields() {
			visit(typ, f)
			switch kindOf(f.Type) {
			case section:
				walk(f.Type)
			case optional, routes:
				walk(f.Type.Elem())
			case setting:
			}
		}
	}
	walk(reflect.TypeFor[File]())
}
