package door

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// preface is the method that the first bytes of an HTTP/2 connection have (RFC 9113 section 3.4). No client asks for it: the server
// and an upstream would speak of different connections from then on.
const preface = "PRI"

var noRequest = Fault{Method, "PRI begins a connection of HTTP/2 and is no method of a request. Connect with a protocol that the server offers."}

// method judges a request's method, which is a case-sensitive token (RFC 9110 section 9.1). Some readers take another spelling for
// the same nevertheless, and clients send one: fetch makes post upper case, and leaves patch as it is.
func (d *Rules) method(m string) *Fault {
	switch {
	case slices.Contains(d.Methods, m):
		return nil
	case m == preface:
		return &noRequest
	case !token(m) && m != "": // a request made by hand has "" for GET
		return &Fault{Method, "The request's method holds characters that no method has. Send a token, such as POST."}
	}
	if same := d.named(m); same != "" {
		return &Fault{Method, "Methods are case-sensitive, and this one is another spelling of " + same + ". Send " + same + "."}
	}
	return nil
}

// named returns the one of Methods that s spells, in whatever case, or "".
func (d *Rules) named(s string) string {
	for _, m := range d.Methods {
		if strings.EqualFold(m, s) {
			return m
		}
	}
	return ""
}

// token is RFC 9110 section 5.6.2.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// override looks for a method that a framework would take the request's for. CGI and its heirs read _ in a field's name for -.
func (d *Rules) override(r *http.Request) *Fault {
	for name, lines := range r.Header {
		switch http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) {
		case "X-Http-Method-Override", "X-Http-Method", "X-Method-Override":
			if f := d.overridden(r.Method, lines, "A header field"); f != nil {
				return f
			}
		}
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	// Some readers separate parameters by semicolons, too. What of a query is no parameter is none to others either.
	query, _ := url.ParseQuery(strings.ReplaceAll(r.URL.RawQuery, ";", "&"))
	return d.overridden(r.Method, query["_method"], "The query parameter _method")
}

func (d *Rules) overridden(own string, values []string, where string) *Fault {
	for _, v := range values {
		if m := d.named(strings.Trim(v, whitespace)); m != "" && m != own {
			return &Fault{Method, where + " asks for the request to be taken for another method, " + m + ". Send " + m + " as the request's method."}
		}
	}
	return nil
}
