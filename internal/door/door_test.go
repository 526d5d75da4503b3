package door

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

var rules = Rules{Methods: []string{"POST", "PUT", "PATCH", "DELETE"}, MaxTarget: 8192}

// sent is a request as net/http hands it over, or nil where net/http would refuse the target
// itself.
func sent(method, target string) *http.Request {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil
	}
	return &http.Request{Method: method, URL: u, RequestURI: target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
}

func kindOf(f *Fault) kind {
	if f == nil {
		return ""
	}
	return f.Kind
}

func TestTargets(t *testing.T) { // C03
	for target, want := range map[string]string{
		// One form to all readers, and plain dot segments.
		"/": "", "/v1/payments": "", "*": "", "/a/./b/../c": "", "/a/b/../../..": "", "//v1//payments": "", "//a/../b%2Fc?x=%zz;": "",
		"/v1/%70ayments": "", "/v1%2Fpayments": "", "/v1/payments;x=1": "", "/v1/payments/": "", "/V1/Payments": "",
		"/.well-known/x": "", "/a/...": "", "/a/..b": "", "/a/b..": "", "/%25": "", "/100%25/x": "", "/a%2F/b/../c": "", "/a;x/../b": "",
		"/?x=%2e%2e/%0A%00%5C": "", "/?a/../../b": "", "/\xc3\xa9|\"<>": "", "http://h.example/v1/x": "", "http://h.example?x": "",
		"/x?y=%2F..": "",
		// Dot segments in disguise.
		"/public/%2e%2e/v1": "disguise", "/v1/%2e/payments": "disguise", "/a/.%2E/b": "disguise", "/a/%2e": "disguise",
		"/a/%252e%252e/b": "disguise", "/a/%25252e./b": "disguise", "/a/%25%32%65./b": "disguise", "/a/..;/b": "disguise",
		"/a/..;x=1/b": "disguise", "/a/..%3Bx/b": "disguise", "/a/..%2Fb": "disguise", "/a/..%2fb": "disguise", "/a/b%2F../c": "disguise",
		"/a/x%252F..%252Fc": "disguise", "/%2e%2e": "disguise", "http://h.example/%2e%2e/x": "disguise", "/a;/..%2f": "disguise",
		// Two dots that remove different things.
		"/v1//../payments": "readers differ", "/v1/payments%2F/../../public": "readers differ", "/public/;x/../v1": "readers differ",
		"/a%252Fb/..": "readers differ", "/a;x=%2F/../b": "readers differ",
		// Bytes.
		"/a#b": "number sign", "/a?b#c": "number sign", `/a\..\b`: "backslash", `/a?\`: "backslash", "/a b": "space", "/a?b c": "space",
		"/a%00b": "control", "/a%0Ab": "", "/a%09b": "", "/a%0D%0Ab": "control", "/a%7fb": "control", "/a%250Db": "control", "/a%5Cb": "backslash", "/a%255cb": "backslash",
		"mailto:x": "names no path",
	} {
		r := sent("GET", target)
		if r == nil {
			t.Errorf("%q does not reach a handler", target)
			continue
		}
		got, f := rules.Enter(r)
		switch {
		case got != r:
			t.Errorf("%q: the request was changed", target)
		case want == "" && f != nil:
			t.Errorf("%q: %+v", target, *f)
		case want != "" && (kindOf(f) != badTarget || !strings.Contains(f.Detail, want)):
			t.Errorf("%q: want a fault about %q, got %+v", target, want, f)
		}
	}
}

// A request that was made by hand, as for a test, has no target but a URL.
func TestTargetsThatNobodySent(t *testing.T) {
	for _, c := range []struct {
		url  url.URL
		want kind
	}{
		{url.URL{Path: "/v1/a b#c"}, ""}, // it would be encoded
		{url.URL{Path: "/v1/../x"}, ""},
		{url.URL{Path: "/v1/../x", RawPath: "/v1/%2e%2e/x"}, badTarget},
		{url.URL{Path: `/a\b`}, badTarget},
		{url.URL{Path: "/a\rb"}, badTarget},
		{url.URL{Path: "/", RawQuery: "a#b"}, badTarget},
		{url.URL{Path: "/", RawQuery: "a\nb"}, badTarget},
		{url.URL{Opaque: "/x"}, badTarget},
		{url.URL{Path: "/" + strings.Repeat("x", 8190), RawQuery: "y"}, badTarget},
		{url.URL{Path: "/" + strings.Repeat("x", 8190), RawQuery: ""}, ""},
	} {
		if _, f := rules.Enter(&http.Request{Method: "POST", URL: &c.url}); kindOf(f) != c.want {
			t.Errorf("%.80s: %+v, want %q", c.url.String(), f, c.want)
		}
	}
}

func TestLongTargets(t *testing.T) {
	long := "/?" + strings.Repeat("x", 8190)
	if _, f := rules.Enter(sent("GET", long)); f != nil {
		t.Errorf("8192 bytes: %+v", *f)
	}
	if _, f := rules.Enter(sent("GET", long+"x")); kindOf(f) != badTarget || !strings.Contains(f.Detail, "8192 bytes") {
		t.Errorf("8193 bytes: %+v", f)
	}
	if _, f := (&Rules{}).Enter(sent("GET", long+"x")); f != nil {
		t.Errorf("no limit: %+v", *f)
	}
}

func TestMethods(t *testing.T) { // C04, C14
	for method, want := range map[string]string{
		"POST": "", "GET": "", "get": "", "HEAD": "", "PURGE": "", "M-SEARCH": "", "CONNECT": "", "": "",
		"post": "POST", "Patch": "PATCH", "dELETE": "DELETE", "PRI": "PRI", "POST ": "token", "PO\u017fT": "token", "GE T": "token",
	} {
		_, f := rules.Enter(sent(method, "/"))
		if want == "" && f != nil || want != "" && (kindOf(f) != badMethod || !strings.Contains(f.Detail, want)) {
			t.Errorf("%q: %+v, want one about %q", method, f, want)
		}
	}
}

func TestOverrides(t *testing.T) { // C04
	for _, c := range []struct {
		method, target string
		header         http.Header
		want           string
	}{
		{"GET", "/", http.Header{"X-Http-Method-Override": {"POST"}}, "POST"},
		{"GET", "/", http.Header{"X-Http-Method": {" delete"}}, "DELETE"},
		{"POST", "/", http.Header{"X-Method-Override": {"patch"}}, "PATCH"},
		{"GET", "/", http.Header{"X_http_method_override": {"x", "POST"}}, "POST"},
		{"GET", "/?_method=put", nil, "PUT"},
		{"GET", "/?a=%zz;%5Fmethod=PUT", nil, "PUT"},
		{"POST", "/?_method=POST", http.Header{"X-Http-Method-Override": {"POST"}}, ""}, // its own
		{"GET", "/?_method=HEAD", http.Header{"X-Http-Method-Override": {"OPTIONS"}}, ""},
		{"GET", "/?method=PUT&x=_method", http.Header{"X-Method": {"POST"}}, ""},
	} {
		r := sent(c.method, c.target)
		r.Header = c.header
		if _, f := rules.Enter(r); f != nil {
			t.Errorf("%+v, overrides are ignored: %+v", c, f)
		}
		strict := rules
		strict.RefuseOverride = true
		if _, f := strict.Enter(r); c.want == "" && f != nil || c.want != "" && (kindOf(f) != badMethod || !strings.Contains(f.Detail, c.want)) {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

// A target in a field, as Symfony, Laminas and IIS take it, is another request's.
func TestTargetsInFields(t *testing.T) { // H05
	strict := rules
	strict.RefuseOverride = true
	for _, c := range []struct {
		name, value string
		same        bool
	}{
		{"X-Original-Url", "/v1/refunds", false}, {"X-Rewrite-Url", "/v1/pay?amount=2", false}, {"X-Original-Uri", "/v1/pay", false},
		{"X.Original.Url", "/v1/refunds", false}, {"X_rewrite_url", "/v1/refunds", false}, {"X-Original-Url", "", false},
		{"X-Original-Url", "https://other.example/v1/refunds?amount=1", false},
		{"X-Original-Url", "/v1/pay?amount=1", true}, {"X-Original-Url", " https://api.example/v1/pay?amount=1", true}, {"X-Original-Uri", "/v1/pay?amount=1", true},
		{"X-Original", "/v1/refunds", true},
	} {
		r := sent("POST", "/v1/pay?amount=1")
		r.Header[c.name] = []string{c.value}
		if _, f := rules.Enter(r); f != nil {
			t.Errorf("%+v, overrides are ignored: %+v", c, f)
		}
		if _, f := strict.Enter(r); c.same && f != nil || !c.same && (kindOf(f) != badTarget || !strings.Contains(f.Detail, "another target")) {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

func TestBadFrames(t *testing.T) {
	r := sent("post", "/a#b")
	r.Header[BadFrame] = []string{"3"}
	if _, f := rules.Enter(r); kindOf(f) != badFraming { // before all else: the connection has to close
		t.Errorf("%+v", f)
	}
}

func TestForwardable(t *testing.T) {
	for target, want := range map[string]kind{"GET /": "", "post /%2e%2e": "", "CONNECT /": badMethod, "PRI *": badMethod, "GET mailto:x": badTarget,
		"GET /a b": badTarget, "GET /?a b": badTarget} {
		method, target, _ := strings.Cut(target, " ")
		if f := Forwardable(sent(method, target)); kindOf(f) != want {
			t.Errorf("%s %s: %+v", method, target, f)
		}
	}
}

func TestValues(t *testing.T) { // C02
	h := http.Header{"X-Tenant-Id": {" a", "b\t", "c d"}, "X-Empty": {" \t "}, "Idempotency-Key": {"k"}}
	r := sent("POST", "/")
	r.Header, r.Host, r.ProtoMajor = h, " h.example", 2
	before := h.Clone()
	got, f := rules.Enter(r)
	if f != nil || got == r {
		t.Fatal(got == r, f)
	}
	want := http.Header{"X-Tenant-Id": {"a", "b", "c d"}, "X-Empty": {""}, "Idempotency-Key": {"k"}}
	if !reflect.DeepEqual(got.Header, want) || got.Host != "h.example" {
		t.Errorf("%v, host %q", got.Header, got.Host)
	}
	if !reflect.DeepEqual(r.Header, before) {
		t.Errorf("the server's request was changed: %v", r.Header)
	}
	r.ProtoMajor = 1
	if got, _ := rules.Enter(r); got != r {
		t.Error("net/http has trimmed what came over HTTP/1: nothing is walked through")
	}
}

func TestOffers(t *testing.T) { // C01
	for _, offer := range []string{"websocket", "h2c", ""} {
		for method, kept := range map[string]bool{"GET": true, "POST": false, "HEAD": false, "PURGE": false} {
			r := sent(method, "/")
			r.Header = http.Header{"Upgrade": {offer}, "Connection": {"keep-alive, Upgrade"}}
			got, f := rules.Enter(r)
			if f != nil || (got.Header["Upgrade"] != nil) != kept || (got == r) != kept || r.Header["Upgrade"] == nil {
				t.Errorf("%s with Upgrade: %q: %v %v", method, offer, got.Header, f)
			}
			if c := got.Header.Get("Connection"); !kept && c != "keep-alive" {
				t.Errorf("%s with Upgrade: %q: Connection: %s", method, offer, c)
			}
		}
	}
}

func TestTheUsualRequestCostsNothing(t *testing.T) {
	r := sent("POST", "/v1/payments/pay_1?expand=customer")
	r.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}}
	made := &http.Request{Method: "POST", URL: &url.URL{Path: "/v1/payments"}, Header: r.Header}
	for range 2 {
		if n := testing.AllocsPerRun(100, func() {
			if _, f := rules.Enter(r); f != nil {
				t.Error(f)
			}
			if _, f := rules.Enter(made); f != nil {
				t.Error(f)
			}
		}); n != 0 {
			t.Errorf("%v allocations over HTTP/%d", n, r.ProtoMajor)
		}
		r.ProtoMajor = 2
	}
}

func BenchmarkEnter(b *testing.B) {
	r := sent("POST", "/v1/payments/pay_1?expand=customer")
	r.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, f := rules.Enter(r); f != nil {
			b.Fatal(f)
		}
	}
}
