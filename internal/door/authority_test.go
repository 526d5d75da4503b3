package door

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
)

func TestAuthority(t *testing.T) { // H02, H07
	for sent, want := range map[string]string{
		"": "", "api.example": "api.example", "API.Example": "api.example", "api.example.": "api.example", "API.EXAMPLE.:80": "api.example",
		"api.example:": "api.example", "api.example:080": "api.example", "api.example:8080": "api.example:8080", "Api.example:8080": "api.example:8080",
		"api.example:443": "api.example:443", "api.example:0": "api.example:0", "api.example:000": "api.example:0", "api.example:08443": "api.example:8443",
		"my_service": "my_service", "xn--bcher-kva.example": "xn--bcher-kva.example", "192.0.2.1:80": "192.0.2.1", "a-b.c-d": "a-b.c-d",
		"[::1]": "[::1]", "[::1]:80": "[::1]", "[0:0::1]:8080": "[::1]:8080", "[2001:DB8::A]": "[2001:db8::a]", "[::ffff:192.0.2.1]": "[::ffff:192.0.2.1]",
	} {
		got, ok := Authority(sent, false)
		if !ok || got != want {
			t.Errorf("%q is %q, %v; want %q", sent, got, ok, want)
		}
		if again, ok := Authority(got, false); !ok || again != got {
			t.Errorf("the form %q has the form %q", got, again)
		}
	}
	if got, _ := Authority("api.example:443", true); got != "api.example" {
		t.Errorf("over TLS, port 443 stays: %q", got)
	}
	if got, _ := Authority("api.example:80", true); got != "api.example:80" {
		t.Errorf("over TLS, port 80 goes: %q", got)
	}
	for _, sent := range []string{
		".", "..", ".api.example", "api..example", "api.example..", "a,b;c=d", "a b", "a\tb", " api", "api ", "api\x00", "api/", "api?x", "api#x", `api\x`,
		"user@api", "api%2eexample", "bücher.example", "api*", "{api}", ":80", "api:80:80", "api:x", "api:+80", "api:65536", "api:-1", "api:99999999999999999999",
		"::1", "[::1", "[", "[]", "[::1]80", "[::1%25eth0]", "[::1%eth0]", "[127.0.0.1]", "[v1.x]", "[::1]:x", "]", "a]:80", "\"api\"", "<api>",
	} {
		if got, ok := Authority(sent, false); ok {
			t.Errorf("%q passes as %q", sent, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		Authority("api.example:8080", false)
		Authority("api.example", true)
		Authority("[::1]:8080", false)
	}); n > 1 {
		t.Errorf("forms are made anew, with %v allocations", n) // one for the address
	}
}

func TestPattern(t *testing.T) { // H02
	for sent, want := range map[string][2]string{
		"/v1/": {"/v1/", ""}, "POST /v1": {"POST /v1", ""}, "v1": {"v1", ""}, "": {"", ""},
		"API.Example./v1": {"api.example/v1", "api.example"}, "POST  API.Example/v1/{x...}": {"POST  api.example/v1/{x...}", "api.example"},
		"GET\t[0::1]/": {"GET\t[::1]/", "[::1]"},
	} {
		form, host, err := Pattern(sent)
		if err != nil || form != want[0] || host != want[1] {
			t.Errorf("%q: %q, %q, %v; want %q", sent, form, host, err, want)
		}
	}
	for sent, says := range map[string]string{"api.example:8080/v1": "write api.example/v1", "API.example:80/v1": "write api.example/v1", "a,b/": "no host", "POST *.example/": "no host"} {
		if _, _, err := Pattern(sent); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", sent, err, says)
		}
	}
}

func TestHostIsBroughtIntoForm(t *testing.T) { // H02
	for _, c := range []struct {
		major      int
		host       string
		header     string
		https      bool
		want, says string
	}{
		{1, "api.example", "", false, "api.example", ""},
		{1, "API.example.:80", "", false, "api.example", ""},
		{1, "API.example.:443", "", true, "api.example", ""},
		{1, "a,b;c=d", "", false, "", "none that a server can have"},
		{2, "API.example", "", true, "api.example", ""},
		{2, " api.example ", "", true, "api.example", ""},
		{2, "api.example", "API.EXAMPLE:443", true, "api.example", ""},
		{2, "api.example", "other.example", true, "", "another host"},
		{2, "api.example", "a b", true, "", "another host"},
	} {
		r := sent("POST", "/v1/pay")
		if r.ProtoMajor, r.Host = c.major, c.host; c.https {
			r.TLS = new(tls.ConnectionState)
		}
		if c.header != "" {
			r.Header["Host"] = []string{c.header}
		}
		got, f := rules.Enter(r)
		switch {
		case c.says != "" && (kindOf(f) != badTarget || !strings.Contains(f.Detail, c.says)):
			t.Errorf("%+v: %+v", c, f)
		case c.says == "" && (f != nil || got.Host != c.want || r.Host != c.host):
			t.Errorf("%+v: %q, %+v; the request sent has now %q", c, got.Host, f, r.Host)
		case c.says == "" && (got == r) != (c.host == c.want):
			t.Errorf("%+v: a copy is made where it need not be, or is not where it must", c)
		}
	}
	if got, f := rules.Enter(&http.Request{Method: "POST", URL: sent("POST", "/").URL}); f != nil || got.Host != "" {
		t.Errorf("a request made by hand: %v, %+v", got, f)
	}
}
