package config

import (
	"encoding/json"
	"reflect"
	"regexp"
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

// What init prints is accepted, and is the defaults, with an upstream (D07: without one a gateway cannot run).
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

// Somebody who fills in the profile of a fresh file gets that profile.
func TestInitLeavesRoomForAProfile(t *testing.T) {
	text := strings.Replace(initText(t), "profile: default", "profile: stripe ", 1)
	if p := load(t, text).Policy; p.Key.Syntax != "opaque" || p.Status.Mismatch != 400 || len(p.RequiredMethods) != 0 {
		t.Errorf("the profile has no effect: %+v", p)
	}
}

// Every key that exists is in init, and taking away the comment marks gives a configuration with known keys only.
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

// The schema knows what the decoder knows: it is made from the same tree. What is checked here is that it is well formed
// and says the things an editor needs.
func TestSchema(t *testing.T) {
	var b strings.Builder
	if err := Schema(&b); err != nil {
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
	if err := json.Unmarshal([]byte(b.String()), &s); err != nil {
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

// Every tag is one the walks know; a misspelt one would be silently without effect.
func TestTags(t *testing.T) {
	known := regexp.MustCompile(`^(yaml|default|enum|min|max|nonempty|later|dialect|example|init|doc)$`)
	word := regexp.MustCompile(`(\w+):"`)
	quoted := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for f := range structFields(typ) {
			names := word.FindAllStringSubmatch(quoted.ReplaceAllString(string(f.Tag), `""`), -1)
			for _, name := range names {
				if !known.MatchString(name[1]) {
					t.Errorf("%s.%s has the tag %s", typ.Name(), f.Name, name[1])
				}
			}
			switch in := f.Type; {
			case in.Kind() == reflect.Struct:
				visit(in)
			case in.Kind() == reflect.Pointer, in == reflect.TypeFor[[]Route]():
				visit(in.Elem())
			}
		}
	}
	visit(reflect.TypeFor[File]())
}
