package door

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stet-dev/stet/internal/canon"
)

// preface is the method that the first bytes of an HTTP/2 connection look like (RFC 9113 section
// 3.4). Passed on, it would make server and upstream see different connections.
const preface = "PRI"

var noRequest = Fault{badMethod, "PRI begins a connection of HTTP/2 and is no method of a request. Connect with a protocol that the server offers."}

// method checks a request's method, which is a case-sensitive token (RFC 9110 section 9.1). Some
// readers ignore case, and some clients rely on it: fetch makes post upper case, but not patch.
func (d *Rules) method(m string) *Fault {
	switch {
	case slices.Contains(d.Methods, m):
		return nil
	case m == preface:
		return &noRequest
	case !canon.IsToken(m) && m != "": // in a request that was not received, "" means GET
		return &Fault{badMethod, "The request's method holds characters that no method has. Send a token, such as POST."}
	}
	if same := d.named(m); same != "" {
		return &Fault{badMethod, "Methods are case-sensitive, and this one is another spelling of " + same + ". Send " + same + "."}
	}
	return nil
}

// named returns the one of Methods that s spells in any case, or an empty string.
func (d *Rules) named(s string) string {
	for _, m := range d.Methods {
		if strings.EqualFold(m, s) {
			return m
		}
	}
	return ""
}

// override looks for another method, or another target, that a framework would use instead of the
// request's.
func (d *Rules) override(r *http.Request) *Fault {
	if !d.RefuseOverride {
		return nil
	}
	for name, lines := range r.Header {
		switch Name(name) {
		case "X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Method":
			if f := d.overridden(r.Method, lines, "A header field"); f != nil {
				return f
			}
		case "X-Original-Url", "X-Rewrite-Url", "X-Original-Uri": // Symfony, Laminas and IIS take the first two for the target
			if slices.ContainsFunc(lines, func(v string) bool { return namesAnother(r, v) }) {
				return &otherTarget
			}
		}
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	// Some readers also separate parameters by semicolons. What is no parameter to one reader is
	// none to the others.
	query, _ := url.ParseQuery(strings.ReplaceAll(r.URL.RawQuery, ";", "&"))
	return d.overridden(r.Method, query["_method"], "The query parameter _method")
}

var otherTarget = Fault{badTarget, "A header field asks for the request to be taken for another target. Send that as the request's target."}

// namesAnother reports whether a target, which may have a scheme and a host, is another one than
// the request's.
func namesAnother(r *http.Request, target string) bool {
	own := r.RequestURI
	if own == "" {
		own = r.URL.RequestURI()
	}
	return origin(strings.Trim(target, whitespace)) != origin(own)
}

// origin returns the origin-form of a target: path and query as they were sent.
func origin(target string) string {
	path := cmp.Or(Path(target), "/")
	if _, query, has := strings.Cut(target, "?"); has {
		return path + "?" + query
	}
	return path
}

func (d *Rules) overridden(own string, values []string, where string) *Fault {
	for _, v := range values {
		if m := d.named(strings.Trim(v, whitespace)); m != "" && m != own {
			return &Fault{badMethod, where + " asks for the request to be taken for another method, " + m + ". Send " + m + " as the request's method."}
		}
	}
	return nil
}

// Safe reports whether a method changes nothing (RFC 9110 section 9.2.1).
func Safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
