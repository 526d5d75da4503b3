package canon

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

func formText(src string) (string, bool) { return formBy((*Form).Write, src) }

func formBy(write func(*Form, *Writer), src string) (string, bool) {
	var f Form
	if !f.Parse([]byte(src)) {
		return "", false
	}
	return written(func(w *Writer) { write(&f, w) }), true
}

func TestFormGroups(t *testing.T) {
	forms := map[string]string{}
	for _, g := range [][]string{ // texts of one line are the same pairs, those of two lines are not
		{"a=1&b=2", "b=2&a=1", "&a=1&&b=2&"}, // FP-14, FP-23
		{"a=1&a=2"}, {"a=2&a=1"}, {"a=1"}, {"a=12"}, {"a1=2"}, {"b=2"},
		{"q=a%20b", "q=a+b", "%71=a%20b"}, // FP-15
		{"q=a%2bb", "q=a%2Bb"},
		{"x", "x="}, {"=x"}, {"=", "=&"}, {"", "&", "&&&"},
		{"a=~", "a=%7e", "a=%7E"},
		{"a=b=c", "a=b%3Dc"}, {"a%3Db=c"}, {"a=b%26c=d"}, {"a=b&c=d", "c=d&a=b"}, // FP-28
		{"a=1%3B2"}, {"a=%00"}, {"a=%0a"}, {"a=%ff"}, {"a=é", "a=%c3%a9"},
		{"a=1&b=x&a=2&b=y", "b=x&b=y&a=1&a=2", "a=1&a=2&b=x&b=y"}, {"a=2&b=x&a=1&b=y"},
		{strings.Repeat("b=1&a=1&b=2&a=2&", 20), strings.Repeat("a=1&a=2&", 20) + strings.Repeat("b=1&b=2&", 20)}, // too many to sort by insertion
		// A19: who reads these as lists begins a new element where a name comes again.
		{"l[][id]=1&l[][qty]=2&l[][id]=3", "l%5B%5D%5Bid%5D=1&l[][qty]=2&l[][id]=3"}, {"l[][id]=1&l[][id]=3&l[][qty]=2"},
		{"l[][id]=1&l[][id]=3&l[][qty]=2&l[][qty]=4"}, {"l[][id]=1&l[][qty]=2&l[][id]=3&l[][qty]=4"},
		{"z=1&l[]=1&a=2&l[]=2", "a=2&l[]=1&l[]=2&z=1", "l[]=1&l[]=2&z=1&a=2"}, {"z=1&l[]=2&a=2&l[]=1"},
		{"l[0][id]=1&l[1][id]=2", "l[1][id]=2&l[0][id]=1"}, {"l[]"}, {"[]=l"},
		{"=&="}, {"a&a"}, {"ab"}, {"a&b"}, {"a=1&b=1"}, {"a=1&b=1&b=1"},
	} {
		for _, src := range g {
			form, ok := formText(src)
			if first, seen := forms[form]; !ok || seen && first != g[0] || !seen && src != g[0] {
				t.Errorf("%q: read = %v, seen = %v, first as %q", src, ok, seen, first)
			}
			forms[form] = g[0]
		}
	}
}

func TestFormRefuses(t *testing.T) {
	for _, src := range []string{"a=%", "a=%2", "a=%zz", "a=%2g", "%=1", "a=1;b=2", "a=%%31", "a=%é"} {
		if _, ok := formText(src); ok {
			t.Errorf("%q was read", src)
		}
	}
}

func FuzzForm(f *testing.F) {
	for _, s := range []string{"a=1&b=2", "x&y=&=z", "%7e=+%20", "a;b", "%", "a=1&b&a=2", "é=%ff", "l[][a]=1&l[][b]=2&l[][a]=3", "l[][a]=1&x&l[][a]=3&l%5b%5d[b]=2"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		fa, ok := formText(a)
		values, err := url.ParseQuery(a)
		if ok != (err == nil) {
			t.Fatalf("%q: read = %v, net/url says %v", a, ok, err)
		}
		if !ok {
			return
		}
		byName, _ := formBy((*Form).WriteByName, a)
		if encoded, ok := formBy((*Form).WriteByName, values.Encode()); !ok || encoded != byName {
			t.Fatalf("%q is not the same as %q", a, values.Encode())
		}
		fb, ok := formText(b)
		if !ok {
			return
		}
		others, _ := url.ParseQuery(b)
		same := equalValues(values, others)
		if others, _ := formBy((*Form).WriteByName, b); same != (byName == others) {
			t.Fatalf("%q and %q by name: same = %v, want %v", a, b, !same, same)
		}
		if same = same && slices.Equal(lists(a), lists(b)); same != (fa == fb) {
			t.Fatalf("%q and %q: same = %v, want %v", a, b, fa == fb, same)
		}
	})
}

// lists are the pairs of src with "[]" in their names, in order.
func lists(src string) (pairs []string) {
	for one := range strings.SplitSeq(src, "&") {
		name, value, _ := strings.Cut(one, "=")
		name, _ = url.QueryUnescape(name)
		value, _ = url.QueryUnescape(value)
		if strings.Contains(name, "[]") {
			pairs = append(pairs, name+"="+value)
		}
	}
	return pairs
}

func equalValues(a, b url.Values) bool {
	if len(a) != len(b) {
		return false
	}
	for name, values := range a {
		if !slices.Equal(values, b[name]) {
			return false
		}
	}
	return true
}

func TestFormReuse(t *testing.T) {
	var f Form
	for _, src := range []string{"b=2&a=1", "a=%", "", strings.Repeat("abc=def&", 100_000), "a=1"} {
		ok := f.Parse([]byte(src))
		want, good := formText(src)
		if ok != good || ok && written(f.Write) != want {
			t.Errorf("%.20q: another result when used again", src)
		}
		f.Release()
	}
}
