package canon

import (
	"slices"
	"testing"
)

func TestParsePointer(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string // nil: refused
	}{
		{"", []string{}}, {"/", []string{""}}, {"/a", []string{"a"}}, {"/a/b", []string{"a", "b"}}, {"//", []string{"", ""}},
		{"/a~1b", []string{"a/b"}}, {"/m~0n", []string{"m~n"}}, {"/~01", []string{"~1"}}, {"/~10", []string{"/0"}}, {"/~0~1", []string{"~/"}},
		{"/ /é/%25", []string{" ", "é", "%25"}}, {"/0/-", []string{"0", "-"}},
		{"a", nil}, {"#/a", nil}, {"/~", nil}, {"/a~2", nil}, {"/~/x", nil}, {"/~0~", nil}, {"/\xff", nil},
	} {
		p, err := ParsePointer(c.in)
		if (err == nil) != (c.want != nil) {
			t.Errorf("%q: error %v", c.in, err)
			continue
		}
		var names []string
		for _, tok := range p.tokens {
			names = append(names, tok.name)
		}
		if err == nil && !slices.Equal(names, c.want) {
			t.Errorf("%q: got %q", c.in, names)
		}
	}
}

// The document of RFC 6901 section 5, and what its pointers point to there.
func TestFind(t *testing.T) {
	const doc = `{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,"00":[[9]],"null":null}`
	for pointer, want := range map[string]string{
		"/foo": `["bar","baz"]`, "/foo/0": `"bar"`, "/foo/1": `"baz"`, "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4", "/i\\j": "5",
		"/k\"l": "6", "/ ": "7", "/m~0n": "8", "/00/0/0": "9", "/null": "null", "": doc,
		"/foo/2": "", "/foo/-": "", "/foo/00": "", "/foo/01": "", "/foo/+1": "", "/foo/0/0": "", "/foo/length": "", "/bar": "", "/FOO": "", "/null/x": "",
		"/foo/9999999999999999999999": "", "/foo/4294967296": "",
	} {
		var d Doc
		if !d.Parse([]byte(doc)) {
			t.Fatal("refused")
		}
		value := "!" // absent
		if want != "" {
			value, _ = exactForm(want)
		}
		got := written(func(w *Writer) { d.WriteFields(w, []Pointer{mustPointer(pointer)}) })
		if got != "\x01"+value {
			t.Errorf("%q: got %q, want %q", pointer, got, value)
		}
	}
}

func TestDrop(t *testing.T) {
	for _, c := range []struct {
		src  string
		drop []string
		want string
	}{
		{`{"a":1,"b":2,"c":3}`, []string{"/b"}, `{"a":1,"c":3}`},
		{`{"a":1}`, []string{"/a"}, `{}`},
		{`{"a":1}`, []string{"/b", "/a/x", "/0"}, `{"a":1}`},
		{`[1,2,3]`, []string{"/0", "/1"}, `[3]`}, // indexes do not move
		{`[1,2,3]`, []string{"/1", "/0"}, `[3]`},
		{`[1]`, []string{"/0"}, `[]`},
		{`{"a":{"b":[{"c":1,"d":2}]}}`, []string{"/a/b/0/c"}, `{"a":{"b":[{"d":2}]}}`},
		{`{"a":{"b":1}}`, []string{"/a", "/a/b"}, `{}`},
		{`{"é":1,"x":2}`, []string{"/é"}, `{"x":2}`},
		{`{"\u00e9":1,"x":2}`, []string{"/é"}, `{"x":2}`},
	} {
		got, ok := exactForm(c.src, c.drop...)
		want, _ := exactForm(c.want)
		if !ok || got != want {
			t.Errorf("%s without %q: got %q, want %q", c.src, c.drop, got, want)
		}
		var d Doc
		d.Parse([]byte(c.src))
		for _, p := range c.drop {
			d.Drop(mustPointer(p))
		}
		if text := written(d.WriteJCS); text != jcsText(t, c.want) {
			t.Errorf("%s without %q: got %s", c.src, c.drop, text)
		}
	}
}

func TestFieldsAndDropTogether(t *testing.T) {
	var d Doc
	d.Parse([]byte(`{"a":{"x":1,"y":2},"b":3}`))
	d.Drop(mustPointer("/a/x"))
	d.Drop(mustPointer("/b"))
	got := written(func(w *Writer) {
		d.WriteFields(w, []Pointer{mustPointer("/a"), mustPointer("/a/x"), mustPointer("/b")})
	})
	form, _ := exactForm(`{"y":2}`)
	if want := "\x03" + form + "!!"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
