// Package door brings requests into the one form that matching, scope, key, fingerprint and forwarding all see, or says why it
// cannot. A request that some readers take for another one than others do is refused, never guessed at: its route's policy would
// be that of one reading, and what runs that of another. The package keeps no state and does no I/O.
package door

import (
	"net/http"
	"strings"
)

// Rules say what is let in. The zero value refuses what no setting allows. Safe for concurrent use.
type Rules struct {
	Methods        []string // upper case, such as POST; another spelling of one is refused
	RefuseOverride bool     // refuse a request that names another one of Methods to be taken for; see [Rules.Enter]
	MaxTarget      int      // bytes of a request target; 0: no limit
}

// Fault says why a request is not let in.
type Fault struct {
	Kind   Kind
	Detail string // what is wrong and how to change it, in whole sentences that quote nothing of the request
}

// Kind is the code of a [Fault], as it is published.
type Kind string

const (
	Target  Kind = "invalid-target"
	Method  Kind = "invalid-method"
	Framing Kind = "bad-framing" // where the next request on the connection begins is not certain: it has to close
)

// BadFrame is the field by which package framing marks a request whose end is not certain, because it has both Content-Length and
// Transfer-Encoding, or Transfer-Encoding in HTTP/1.0 (RFC 9112 section 6.1). net/http serves both and says nothing of it. The value
// has no meaning, and a client that sends the field harms itself.
const BadFrame = "Stet-Bad-Frame"

// Enter returns the request in the one form, or why there is none: then the request that is returned is r. It is r as well where
// nothing has to be changed, which is the usual case and costs no memory, and else a copy. What Enter returned it lets in again,
// unchanged.
//
// Refused are a request with the mark [BadFrame]; a method that is no token, or another spelling of one of Methods, or PRI; a target
// that is too long, has no path, or can be read in more than one way (see [Path]); and with RefuseOverride one whose
// X-HTTP-Method-Override, X-HTTP-Method or X-Method-Override field, or _method query parameter, names one of Methods that is not
// the request's own. Changed are field values over HTTP/2, which lose whitespace around them (RFC 9110 section 5.5; net/http does
// so for HTTP/1 alone), and the offer of another protocol with any method but GET, which is withdrawn (see [Upgrades]).
func (d *Rules) Enter(r *http.Request) (*http.Request, *Fault) {
	if r.Header[BadFrame] != nil {
		return r, &Fault{Framing, "The request has both a Content-Length and a Transfer-Encoding, or a Transfer-Encoding in HTTP/1.0, and readers " +
			"differ in where it ends. Send either a Content-Length or, in HTTP/1.1, Transfer-Encoding: chunked."}
	}
	if f := d.method(r.Method); f != nil {
		return r, f
	}
	if f := d.target(r); f != nil {
		return r, f
	}
	if d.RefuseOverride {
		if f := d.override(r); f != nil {
			return r, f
		}
	}
	entered := r
	if r.Header["Upgrade"] != nil && r.Method != http.MethodGet {
		entered = copied(entered)
		withdrawUpgrade(entered.Header)
	}
	if r.ProtoMajor >= 2 && padded(r) {
		entered = copied(entered)
		trim(entered)
	}
	return entered, nil
}

// Forwardable returns why a proxy to one server cannot pass a request on, or nil, whatever else it may be asked to refuse.
func Forwardable(r *http.Request) *Fault {
	switch {
	case r.Method == http.MethodConnect: // the authority-form is for other kinds of proxies (RFC 9112 section 3.2.3)
		return &Fault{Method, "CONNECT asks for a tunnel, and this is a gateway to one server. Send a request that names a path."}
	case r.Method == preface:
		return &noRequest
	case r.URL.Opaque != "":
		return &noPath
	case strings.IndexByte(r.RequestURI, ' ') >= 0 || strings.IndexByte(r.URL.RawQuery, ' ') >= 0:
		return strange(" ")
	}
	return nil
}

func copied(r *http.Request) *http.Request {
	c := r.WithContext(r.Context())
	c.Header = r.Header.Clone()
	return c
}

// whitespace is what may stand around a field's value and is no part of it (RFC 9110 section 5.6.3).
const whitespace = " \t"

func isPadded(v string) bool {
	return v != "" && (strings.IndexByte(whitespace, v[0]) >= 0 || strings.IndexByte(whitespace, v[len(v)-1]) >= 0)
}

func padded(r *http.Request) bool {
	for _, lines := range r.Header {
		for _, v := range lines {
			if isPadded(v) {
				return true
			}
		}
	}
	return isPadded(r.Host)
}

func trim(r *http.Request) {
	for _, lines := range r.Header {
		for i, v := range lines {
			lines[i] = strings.Trim(v, whitespace)
		}
	}
	r.Host = strings.Trim(r.Host, whitespace)
}
