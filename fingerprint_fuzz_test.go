package stet

import (
	"bytes"
	"testing"
)

// Whatever arrives: no panic, the same twice, also by the recipe's text; and in raw mode two
// requests are the same exactly if method, path and body are, and no part runs into another (FP-28,
// W25).
func FuzzFingerprint(f *testing.F) {
	f.Add("POST", "/a", "x=1", "application/json", "", []byte(`{"a":[1.0,"é"]}`), "POST", "/a", []byte(`{"a":[1.0,"é"]}`), byte(0))
	f.Add("POST", "/a", "b\nc", "multipart/form-data; boundary=b", "gzip", []byte("--b\r\nA: 1\r\n\r\nx\r\n--b--"), "POST/", "a", []byte(""), byte(4))
	f.Add("", "", "%", "application/x-www-form-urlencoded", "br", []byte("a=1&b;"), "", "", []byte("\x1f\x8b"), byte(255))
	f.Fuzz(func(t *testing.T, method, path, query, media, coding string, body []byte, method2, path2 string, body2 []byte, mode byte) {
		r := Recipe{Body: BodyMode(mode % 4), Decode: mode&4 != 0, Headers: []string{"Content-Type"}}
		if r.Body == BodyFields {
			r.Fields = []string{"/a", "", "/a/0"}
		}
		if r.Body != BodyRaw {
			r.Exclude = []string{"/b", "/a/1"}
		}
		p, err := r.Compile()
		if err != nil {
			t.Fatal(err)
		}
		s := &Subject{Method: method, Path: path, RawQuery: query, Body: body, Header: map[string][]string{"Content-Type": {media}}}
		if coding != "" {
			s.Header["Content-Encoding"] = []string{coding}
		}
		kept := bytes.Clone(body)
		fp := p.Fingerprint(s)
		if !bytes.Equal(body, kept) {
			t.Fatal("the body was changed")
		}
		stored, err := parseRecipe(fp.Recipe)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := stored.fingerprint(s); err != nil || again != fp {
			t.Fatalf("by the stored recipe: another fingerprint, %v", err)
		}
		if r.Body != BodyRaw || r.Decode {
			return
		}
		other := *s
		other.Method, other.Path, other.Body = method2, path2, body2
		same := method == method2 && path == path2 && bytes.Equal(body, body2)
		if p.Fingerprint(&other).equal(fp) != same {
			t.Fatalf("equal = %v", !same)
		}
	})
}
