// Package door brings requests into the one form that matching, scope, key, fingerprint and
// forwarding see, or says why it cannot. A request that different readers understand differently is
// refused, because its route's policy would follow one reading and its execution another. The
// package keeps no state and does no I/O.
package door

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Rules say what is let in. With the zero value, only what no setting allows is refused. Rules are
// safe for concurrent use.
type Rules struct {
	Methods        []string // upper case, such as POST; another spelling of one is refused
	RefuseOverride bool     // refuse a request that names another one of Methods, or another target, to be taken for; see [Rules.Enter]
	// Guarded says that requests of Methods have an outcome here. A GET among them is then no
	// upgrade, whatever it offers.
	Guarded   bool
	MaxTarget int // bytes of a request target; 0: no limit
}

// Fault says why a request is not let in.
type Fault struct {
	Kind   kind
	Detail string // what is wrong and how to change it, in whole sentences that quote nothing of the request
}

// kind is the published code of a [Fault].
type kind string

// What a Fault is about. Framing closes the connection, because it is not certain where the next
// request begins.
const (
	badTarget  kind = "invalid-target"
	badMethod  kind = "invalid-method"
	badFraming kind = "bad-framing"
)

// BadFrame is the field by which package framing marks a request whose end is not certain, because
// it has both Content-Length and Transfer-Encoding, or Transfer-Encoding in HTTP/1.0 (RFC 9112
// section 6.1). net/http serves both without a word. The value has no meaning. A client that sends
// the field only has its own request refused.
const BadFrame = "Stet-Bad-Frame"

// Enter returns the request in the one form, or the reason why there is none together with r. If
// nothing has to be changed, which is usual and allocates nothing, the request is r itself, else a
// copy. A request that Enter has returned passes it again unchanged.
//
// Enter refuses a request with the mark [BadFrame]; a method that is no token, is another spelling
// of one of Methods, or is PRI; a target that is too long, has no path, or can be read in more than
// one way (see [Path]); a host that has no form (see [Authority]), or a second one; and, with
// RefuseOverride, a request whose X-HTTP-Method-Override, X-HTTP-Method, X-Method-Override or
// X-Original-Method field, or _method query parameter, names one of Methods that is not its own, or
// whose X-Original-URL, X-Rewrite-URL or X-Original-URI field names another target. It changes the
// host to its form, and field values over HTTP/2, which lose white space around them (RFC 9110
// section 5.5; net/http does this for HTTP/1 only), and withdraws the offer of another protocol
// with any method but a GET that is not Guarded (see [Upgrades]).
func (d *Rules) Enter(r *http.Request) (*http.Request, *Fault) {
	if r.Header[BadFrame] != nil {
		return r, &Fault{badFraming, "The request has both a Content-Length and a Transfer-Encoding, or a Transfer-Encoding in HTTP/1.0, and readers " +
			"differ in where it ends. Send either a Content-Length or, in HTTP/1.1, Transfer-Encoding: chunked."}
	}
	if f := cmp.Or(d.method(r.Method), d.target(r)); f != nil {
		return r, f
	}
	if f := d.override(r); f != nil { // reads the query, whose length target has bounded
		return r, f
	}
	host, f := authority(r)
	if f != nil {
		return r, f
	}
	entered := r
	if host != r.Host {
		entered = copied(entered)
		entered.Host = host
	}
	if r.Header["Upgrade"] != nil && (r.Method != http.MethodGet || d.Guarded && slices.Contains(d.Methods, r.Method)) {
		entered = copied(entered)
		withdrawUpgrade(entered.Header)
	}
	if r.ProtoMajor >= 2 && padded(r) {
		entered = copied(entered)
		trim(entered)
	}
	return entered, nil
}

// Forwardable returns why no proxy to one server can pass a request on, or nil. No setting changes
// this.
func Forwardable(r *http.Request) *Fault {
	switch {
	case r.Method == http.MethodConnect: // the authority-form is for other kinds of proxies (RFC 9112 section 3.2.3)
		return &Fault{badMethod, "CONNECT asks for a tunnel, and this is a gateway to one server. Send a request that names a path."}
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

// whitespace may stand around a field's value and is not part of it (RFC 9110 section 5.6.3).
const whitespace = " \t"

func isPadded(v string) bool {
	return v != "" && (strings.IndexByte(whitespace, v[0]) >= 0 || strings.IndexByte(whitespace, v[len(v)-1]) >= 0)
}

func padded(r *http.Request) bool {
	for _, lines := range r.Header {
		if slices.ContainsFunc(lines, isPadded) {
			return true
		}
	}
	return false
}

func trim(r *http.Request) {
	for _, lines := range r.Header {
		for i, v := range lines {
			lines[i] = strings.Trim(v, whitespace)
		}
	}
}

// Sender returns the address that a request came from, or none if it came through a Unix socket.
func Sender(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr()
}
