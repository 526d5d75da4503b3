package stet

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestRecipeText(t *testing.T) {
	for _, c := range []struct {
		recipe Recipe
		want   string
	}{
		{Recipe{}, "3 auto"},
		{Recipe{Body: BodyJCS, Decode: true}, "3 jcs decode"},
		{Recipe{Exclude: []string{"/meta"}}, "3 auto -/meta"},
		{Recipe{Body: BodyFields, Fields: []string{"/currency", "/amount", "/currency"}}, "3 fields +/amount +/currency"},
		{Recipe{Body: BodyFields, Fields: []string{""}, Exclude: []string{"/a", "/"}}, "3 fields + -/ -/a"},
		{Recipe{Body: BodyRaw, Headers: []string{"Api-Version"}}, "3 raw h:api-version"},
		{Recipe{Host: true, Headers: []string{"Api-Version"}, Decode: true}, "3 auto decode host h:api-version"},
		{Recipe{Headers: []string{"B", "a", "A", "b"}, Decode: true}, "3 auto decode h:a h:b"},
		{Recipe{ExcludeFields: []string{"ts", "-/", "a b", "ts"}, Headers: []string{"x"}}, "3 auto h:x x:-/ x:a%20b x:ts"},
		{Recipe{Exclude: []string{"/a b", "/100%", "/é", "/~0~1", "/\n", "/decode"}}, "3 auto -/%0A -/100%25 -/a%20b -/decode -/~0~1 -/%C3%A9"},
	} {
		if err := c.recipe.Validate(); err != nil {
			t.Errorf("%s: %v", c.want, err)
		}
		text := c.recipe.String()
		if text != c.want {
			t.Errorf("got %q, want %q", text, c.want)
		}
		again, err := parseRecipe(text)
		if err != nil || again.String() != text {
			t.Errorf("%q: %v, %v", text, again, err)
		}
	}
}

func TestParseRecipe(t *testing.T) {
	got, err := parseRecipe("3 fields decode +/a%20b +/c -/c/d h:accept h:x-a x:sent%20at")
	want := Recipe{Body: BodyFields, Fields: []string{"/a b", "/c"}, Exclude: []string{"/c/d"}, Headers: []string{"accept", "x-a"}, ExcludeFields: []string{"sent at"}, Decode: true}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseRecipeRefuses(t *testing.T) {
	for in, reason := range map[string]string{
		"":                     "unknown version",
		"4 auto":               `unknown version "4"`,
		"0 auto":               `unknown version "0"`,
		"+3 auto":              "canonical form",
		"auto":                 "unknown version",
		" 1 auto":              "unknown version",
		"1":                    "no body mode",
		"1 ":                   "unknown body mode",
		"1 xml":                `unknown body mode "xml"`,
		"1 auto fast":          `unknown word "fast"`,
		"1 auto ":              "unknown word",
		"1  auto":              "unknown body mode",
		"1 auto -/b -/a":       "canonical form",
		"1 auto -/a -/a":       "canonical form",
		"1 auto decode decode": "canonical form",
		"1 auto h:A":           "canonical form",
		"2 auto host decode":   "canonical form",
		"1 auto h:a -/a":       "canonical form",
		"1 auto -/%61":         "canonical form",
		"1 auto -/%e9%c3":      "UTF-8",
		"1 auto -/%c3%a9":      "canonical form",
		"1 auto -/%4":          "percent-encoding",
		"1 auto -/é":           "canonical form",
		"1 auto -a":            "begins with",
		"1 auto +/a":           "only body mode fields",
		"1 fields":             "at least one",
		"1 raw -/a":            "compares all bytes",
		"1 auto h:a(b":         "field name",
		"1 auto h:":            "field name",
		"1 auto -/" + strings.Repeat("a", maxRecipe): "longer than",
	} {
		r, err := parseRecipe(in)
		if !errors.Is(err, errRecipe) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.40q: got %v, %v; want %q", in, r, err, reason)
		}
	}
}

func TestRecipeValidate(t *testing.T) {
	for _, c := range []struct {
		recipe Recipe
		want   []string
	}{
		{Recipe{Body: 9}, []string{"Body", "9"}},
		{Recipe{Fields: []string{"/a"}}, []string{"Fields", "auto"}},
		{Recipe{Body: BodyJCS, Fields: []string{"/a"}}, []string{"Fields", "jcs"}},
		{Recipe{Body: BodyFields}, []string{"Fields", "at least one"}},
		{Recipe{Body: BodyFields, Fields: []string{"/a", "b"}}, []string{"Fields", `"b"`}},
		{Recipe{Body: BodyRaw, Exclude: []string{"/a"}}, []string{"Exclude", "raw"}},
		{Recipe{Exclude: []string{"/a~"}}, []string{"Exclude", `"/a~"`, "~"}},
		{Recipe{Exclude: []string{""}}, []string{"Exclude", "whole body"}},
		{Recipe{ExcludeFields: []string{"a", ""}}, []string{"ExcludeFields", "without a name"}},
		{Recipe{Headers: []string{"X Y"}}, []string{"Headers", `"X Y"`}},
		{Recipe{Headers: []string{""}}, []string{"Headers"}},
		{Recipe{Headers: []string{"Content-Length"}}, []string{"Headers", "Content-Length", "travels"}}, // FP-27
		{Recipe{Headers: []string{"host"}}, []string{"Headers", "host", "set Host"}},
		{Recipe{Exclude: []string{"/" + strings.Repeat("a", maxRecipe)}}, []string{"bytes long"}},
	} {
		err := c.recipe.Validate()
		if err == nil {
			t.Errorf("%v is valid", c.recipe)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: %v does not say %q", c.recipe, err, w)
			}
		}
		if _, err := c.recipe.Compile(); err == nil {
			t.Errorf("%v compiles", c.recipe)
		}
		if _, err := c.recipe.fingerprint(&Subject{}); err == nil {
			t.Errorf("%v makes fingerprints", c.recipe)
		}
	}
}

func TestBodyModeText(t *testing.T) {
	for _, m := range []BodyMode{BodyAuto, BodyJCS, BodyRaw, BodyFields} {
		var again BodyMode
		if again.UnmarshalText([]byte(m.String())) != nil || again != m {
			t.Errorf("%s does not come back", m)
		}
	}
	if got := BodyMode(9).String(); got != "BodyMode(9)" {
		t.Errorf("an unknown mode has the word %s", got)
	}
	if err := new(BodyMode).UnmarshalText([]byte("AUTO")); err == nil || !strings.Contains(err.Error(), "auto, jcs, raw, fields") {
		t.Errorf("got %v", err)
	}
}

func FuzzRecipe(f *testing.F) {
	for _, s := range []string{"1 auto", "1 fields decode +/a%20b + -/c/d h:accept", "1 raw h:x", "3 auto x:-/", "2 fields +/a", "1 auto -/%C3%A9", "1 jcs -/~0~1"} {
		f.Add(s, byte(0), "/a b%\x00é", "/x~0", "X-Y")
	}
	f.Add("", byte(3), "", "/", "!#$%&'*+-.^_`|~")
	f.Fuzz(func(t *testing.T, text string, mode byte, pointer, other, header string) {
		if r, err := parseRecipe(text); err == nil && r.String() != text {
			t.Fatalf("%q comes back as %q", text, r)
		}
		r := Recipe{Body: BodyMode(mode % 4), Exclude: []string{pointer, other}, Headers: []string{header, "B", "a"}, Decode: mode&4 != 0}
		if r.Body == BodyFields {
			r.Fields = []string{other, pointer, other}
		}
		if r.Validate() != nil {
			return
		}
		again, err := parseRecipe(r.String())
		if err != nil || again.String() != r.String() || len(again.Exclude) != len(sortedSet(r.Exclude)) || !contains(again.Exclude, pointer) {
			t.Fatalf("%q comes back as %q, %v", r, again, err)
		}
		if r.Compile(); again.Validate() != nil {
			t.Fatalf("%q is no longer valid", again)
		}
	})
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
