package door

import (
	"net/http"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// reading is one way in which a program behind the layer may read a path.
type reading struct {
	decodings int  // how often it is percent-decoded
	cut       bool // segments end at a semicolon
	merge     bool // empty segments do not count
	backslash bool // it is a slash
}

// segments reads a path, and reports whether a dot segment was there to be resolved.
func (v reading) segments(p string) (left []string, dots bool) {
	for range v.decodings {
		p = unescape(p)
	}
	if v.backslash {
		p = strings.ReplaceAll(p, `\`, "/")
	}
	for s := range strings.SplitSeq(strings.TrimPrefix(p, "/"), "/") {
		if v.cut {
			s, _, _ = strings.Cut(s, ";")
		}
		switch {
		case s == ".":
			dots = true
		case s == "..":
			dots = true
			left = left[:max(0, len(left)-1)]
		case s != "" || !v.merge:
			left = append(left, s)
		}
	}
	return slices.DeleteFunc(left, func(s string) bool { return s == "" }), dots
}

// unescape decodes a path once, and leaves what is no escape.
func unescape(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if i+3 <= len(p) {
			if s, err := url.PathUnescape(p[i : i+3]); err == nil && p[i] == '%' {
				b.WriteString(s)
				i += 2
				continue
			}
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

var readings = func() (all []reading) {
	for n := range 4 {
		for i := range 8 {
			all = append(all, reading{n, i&1 != 0, i&2 != 0, i&4 != 0})
		}
	}
	return all
}()

// FuzzTarget: whatever is let in leads every reader to the place that its route was looked up for,
// which is the path's clean form.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "/public/%2e%2e/v1", "/a/%252e%252e/b", "/a/..;x/b", "/v1//../x", "/a%2F/../b", "/;x/../b", "/a/..%5cb",
		"/a%2Fb/c/../d?x=1", "//a/../b%2Fc", "http://h.example/a/.", "*", "/a;%2e%2e/b", "/%2%35e", "/a/b;/../c", "/a%0Ab%2509"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		r := sent("GET", target)
		if r != nil {
			judged(t, r)
		}
	})
}

// TestTargetsOfAllPieces: as [FuzzTarget], of everything that can be put together from what readers
// differ in.
func TestTargetsOfAllPieces(t *testing.T) { // C03
	pieces := [...]string{"/", "a", "..", ".", "%2e", "%2F", "%252f", ";", "%3b"}
	var grow func(path string, left int)
	grow = func(path string, left int) {
		judged(t, sent("GET", path))
		if left > 0 {
			for _, p := range pieces {
				grow(path+p, left-1)
			}
		}
	}
	grow("/", 4)
	grow("/a/", 3)
	grow("/a/b;/", 3)
}

// judged demands that a request is refused with a reason, or leads all readers to one place.
func judged(t *testing.T, r *http.Request) {
	target := r.RequestURI
	entered, fault := rules.Enter(r)
	if fault != nil {
		if fault.Detail == "" || entered != r {
			t.Fatalf("%q: %+v", target, fault)
		}
		return
	}
	raw := Path(target)
	if !strings.HasPrefix(raw, "/") {
		return
	}
	clean := path.Clean(raw)
	for _, v := range readings {
		got, _ := v.segments(raw)
		want, moves := v.segments(clean)
		if moves || !slices.Equal(got, want) {
			t.Fatalf("%q is matched as %q and read as %q, %+v", target, clean, got, v)
		}
	}
	decoded := Decoded(raw)
	if strings.ContainsFunc(decoded, func(c rune) bool { return c < ' ' && c != '\t' && c != '\n' || c == 0x7f || c == '\\' }) {
		t.Fatalf("%q is let in, and decodes to %q", target, decoded)
	}
	once := unescape(raw)
	for twice := unescape(once); twice != once; once, twice = twice, unescape(twice) {
	}
	if decoded != once {
		t.Fatalf("%q decodes to %q, and not to %q", raw, once, decoded)
	}
}

// FuzzEnter: nothing makes it panic, what it returned it lets in again unchanged, and the server's
// request stays as it is.
func FuzzEnter(f *testing.F) {
	f.Add("POST", "/v1/x", "", "X-Tenant-Id", " sec\t", "Upgrade", " API.Example.:080", uint8(2))
	f.Add("post", "/a#b", "x=%zz;_method=PUT", "Upgrade", "websocket", "keep-alive, upgrade", "[0::1]:443", uint8(1))
	f.Add("GET", "", "_method=POST", "X_http_method_override", " POST ", ",,", "a,b", uint8(1))
	f.Fuzz(func(t *testing.T, method, path, query, name, value, connection, host string, major uint8) {
		for _, sent := range []string{"", path + "?" + query, query} {
			r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, RequestURI: sent, ProtoMajor: int(major % 4), Host: host,
				Header: http.Header{http.CanonicalHeaderKey(name): {value, value + connection}}}
			if connection != "" {
				r.Header["Connection"] = []string{connection, value}
			}
			header := r.Header.Clone()
			for _, d := range []Rules{{}, rules, {Methods: rules.Methods, RefuseOverride: true, MaxTarget: 10}} {
				once, fault := d.Enter(r)
				if !reflect.DeepEqual(r.Header, header) || r.Host != host {
					t.Fatalf("the server's request was changed: %v", r.Header)
				}
				if fault != nil {
					continue
				}
				if twice, fault := d.Enter(once); fault != nil || twice != once {
					t.Fatalf("%s %q %v was let in, and then %+v, %v", method, sent, once.Header, fault, twice.Header)
				}
			}
			Forwardable(r)
		}
	})
}
