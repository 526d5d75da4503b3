package gateway

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/framing"
	"github.com/stet-dev/stet/stethttp"
)

// field is a header field of a request for the upstream.
type field struct {
	name  string
	lines []string
}

// fields are the header of a request for the upstream, with every name once.
type fields []field

func (f *fields) set(name string, lines []string) {
	for i := range *f {
		if (*f)[i].name == name {
			(*f)[i].lines = lines
			return
		}
	}
	*f = append(*f, field{name, lines})
}

func (f *fields) del(name string) {
	*f = slices.DeleteFunc(*f, func(o field) bool { return o.name == name })
}

// fieldsOf appends to f what the upstream gets of the client's header, and what the gateway says of
// the request.
func (g *Gateway) fieldsOf(f fields, a *attempt, r *http.Request) fields {
	trusted, hop := len(g.cfg.TrustedProxies) > 0 && g.trusts(door.Sender(r)), framing.Listed(r.Header["Connection"])
	for name, lines := range r.Header {
		if name == a.route.Config.KeyHeader || slices.Contains(g.cfg.KeepHeaders, name) || a.route.passes(name, &hop) && (trusted || !forwarded(name)) {
			f = append(f, field{name, lines})
		}
	}
	f.setForwarded(r, trusted)
	if a.claim != nil {
		a.setKey(&f, r.Header[a.route.Config.KeyHeader])
		f.del("Expect") // the body is here already
	}
	return f
}

// passes reports whether a field of the client's may go on to the upstream of a route. hop are
// those that its Connection lists.
func (t *route) passes(name string, hop *framing.Names) bool {
	form := door.Name(name)
	return !ours(form) && !t.alias(name, form) && !framing.HopByHop(form) && !hop.Has(name)
}

// rewrite makes the request for the upstream out of the client's, unless it was sent already. What
// ReverseProxy has set for this hop stays.
func (g *Gateway) rewrite(pr *httputil.ProxyRequest) {
	a := attemptOf(pr.In.Context())
	if a.asked != nil {
		return
	}
	out := pr.Out
	g.aim(out.URL, pr.In) // out.Host stays the client's
	h := make(http.Header, len(pr.In.Header))
	for _, name := range []string{"Te", "Connection", "Upgrade"} {
		if lines, ok := out.Header[name]; ok {
			h[name] = lines
		}
	}
	for _, f := range g.fieldsOf(nil, a, pr.In) {
		h[f.name] = f.lines
	}
	out.Header = h
	if a.claim != nil && out.ContentLength == 0 {
		a.setEmpty(out, a.sized || g.transport.sized.Load())
	} else if a.claim != nil {
		a.sendFromMemory(out)
	} else if out.Body != nil {
		a.upload.ReadCloser, a.upload.watchdog = out.Body, &a.watchdog
		out.Body = &a.upload
	}
	g.setTrailer(pr, a.route)
}

// ours reports whether only the gateway sets a request header, whose name is in the form of
// [door.Name].
func ours(form string) bool { return strings.HasPrefix(form, "Stet-") }

// believed is a field that the gateway reads and passes on, or compares, by this name alone.
type believed struct{ name, form string }

// believes returns the fields of a route that no other spelling may stand for: the upstream would
// see another key than the one the request was guarded by, another scope, or something else than
// what was compared.
func (g *Gateway) believes(c *stethttp.Config) (all []believed) {
	for _, name := range slices.Concat([]string{c.KeyHeader}, g.cfg.KeepHeaders, c.Fingerprint.Headers) {
		all = append(all, believed{http.CanonicalHeaderKey(name), door.Name(name)})
	}
	return all
}

// alias reports whether a name, whose form is given as well, is another spelling of one that the
// gateway reads or sets.
func (t *route) alias(name, form string) bool {
	other := name != form && forwarded(form)
	for i := range t.believed {
		if b := &t.believed[i]; b.form == form {
			if b.name == name {
				return false
			}
			other = true
		}
	}
	return other
}

// aim points a URL at the upstream, with the request's path and query.
func (g *Gateway) aim(u *url.URL, r *http.Request) {
	*u = *r.URL
	u.Scheme, u.Host, u.User = g.transport.rest.scheme, g.cfg.Upstream.Host, nil
	if raw := door.Path(r.RequestURI); raw != u.EscapedPath() && !strings.HasPrefix(raw, "//") {
		// The path has bytes that a URL has to escape (RFC 3986 section 3.3). [url.URL] writes an
		// opaque part as it is. It cannot do so for a path that begins with //, which stays
		// escaped. A path that was changed after it was received stays changed.
		if plain, err := url.PathUnescape(raw); err == nil && plain == u.Path {
			u.Opaque = raw
		}
	}
}

// setKey tells the upstream which execution of which key this is. The client sent the key in the
// lines sent.
func (a *attempt) setKey(f *fields, sent []string) {
	head := a.claim.Head()
	values := [...]string{strconv.Itoa(head.Attempt), strconv.FormatInt(head.Fence(), 10), string(head.Key), head.LifeKey()}
	f.set("Stet-Attempt", values[0:1:1])
	f.set("Stet-Fence", values[1:2:2])
	f.set(downstreamKey, values[3:])
	name := a.route.Config.KeyHeader
	switch {
	case a.route.UpstreamKey == ForwardNothing:
		f.del(name)
	case a.route.Config.Key.Syntax == stet.Opaque: // as sent
	case a.route.UpstreamKey == ForwardBare && bare(values[2]):
		f.set(name, values[2:3:3])
	case len(sent) == 1 && isQuoted(sent[0], values[2]): // as sent, and most are
	default:
		values[2] = head.Key.Quote()
		f.set(name, values[2:3:3])
	}
}

// isQuoted reports whether line is key in quotes, with nothing escaped and no parameters.
func isQuoted(line, key string) bool {
	return len(line) == len(key)+2 && line[0] == '"' && line[1:len(line)-1] == key
}

// bare reports whether a key means the same without quotes.
func bare(key string) bool {
	return !strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`",;\`, c) })
}

// maxInMemory is how long a body may be, in bytes, to be copied for the transport, which sends a
// body in memory together with the headers. The guard's own copy cannot be used: it goes back to a
// pool when the request has been answered, and the transport may then still read it.
const maxInMemory = 16 << 10

func (a *attempt) sendFromMemory(out *http.Request) {
	if out.Body == nil || out.ContentLength < 0 || out.ContentLength > maxInMemory {
		return
	}
	b := make([]byte, out.ContentLength)
	n, _ := io.ReadFull(out.Body, b) // the transport refuses a short body
	a.memory.Reset(b[:n])
	a.inMemory = true
	out.Body = io.NopCloser(&a.memory)
}
