package canon

import "testing"

func TestEssence(t *testing.T) {
	for in, want := range map[string]string{
		"application/json": "application/json", "Application/JSON": "application/json", "application/json; charset=UTF-8": "application/json",
		" text/plain \t;x": "text/plain", "application/vnd.api+json": "application/vnd.api+json", "*/*": "*/*",
		"": "", "json": "", "/json": "", "application/": "", "a b/c": "", "a/b/c": "", "a/b,c/d": "", ";": "", "application/json ;": "application/json",
	} {
		if got, ok := Essence(in); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v", in, got, ok)
		}
	}
}

func TestIsJSON(t *testing.T) {
	for essence, want := range map[string]bool{
		"application/json": true, "application/vnd.api+json": true, "application/merge-patch+json": true, "application/json-patch+json": true,
		"text/json": false, "application/jsonx": false, "application/json-seq": false, "application/x-ndjson": false, "text/plain": false, "": false,
	} {
		if got := IsJSON(essence); got != want {
			t.Errorf("%q: got %v", essence, got)
		}
	}
}

func TestBoundary(t *testing.T) {
	for in, want := range map[string]string{
		`multipart/form-data; boundary=abc`: "abc", `multipart/form-data; boundary="a b"`: "a b", `multipart/form-data;BOUNDARY=x;charset=y`: "x",
		`multipart/form-data`: "", `multipart/form-data; boundary="a "`: "", `multipart/form-data; boundary=a; boundary=b`: "", `multipart/form-data; boundary`: "",
	} {
		if got := Boundary(in); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
}

func TestIsToken(t *testing.T) {
	for c := range 256 {
		want := c > ' ' && c < 0x7f
		for _, d := range []byte("\"(),/:;<=>?@[\\]{}") {
			want = want && byte(c) != d
		}
		if got := IsToken("a" + string([]byte{byte(c)})); got != want {
			t.Errorf("%q: got %v", byte(c), got)
		}
	}
	if IsToken("") {
		t.Error("the empty text is a token")
	}
}
