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
)

// rewrite makes the request for the upstream out of the client's. ReverseProxy has removed hop-by-hop headers and the ones
// that Connection lists from it.
func (g *Gateway) rewrite(pr *httputil.ProxyRequest) {
	a := attemptOf(pr.In.Context())
	out := pr.Out
	g.aim(out.URL, pr.In) // and out.Host stays the client's
	trusted := g.trusts(pr.In)
	const added = 8 // at most, below: with room for them the header grows once
	h := make(http.Header, len(out.Header)+added)
	for name, lines := range out.Header {
		if ours(name) || g.alias(name, a.route) || !trusted && forwarded(name) {
			continue
		}
		h[name] = lines
	}
	out.Header = h
	keep(out.Header, pr.In.Header, g.keep...)
	keep(out.Header, pr.In.Header, a.route.cfg.KeyHeader)
	setForwarded(out.Header, pr.In, trusted)
	if a.claim != nil {
		a.setKey(out.Header)
		delete(out.Header, "Expect") // the body is here already
		a.sendFromMemory(out)
	} else if out.Body != nil {
		a.upload.ReadCloser, a.upload.watchdog = out.Body, &a.watchdog
		out.Body = &a.upload
	}
	g.setTrailer(pr, a.route)
}

// ours are request headers that only the gateway sets, also in the spelling that CGI and its heirs take for the same.
func ours(name string) bool {
	const prefix = "Stet"
	return len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) && (name[len(prefix)] == '-' || name[len(prefix)] == '_')
}

// alias: CGI and its heirs take name for another header, of which the gateway looked at the one with that name or sets it itself. The
// upstream would see a key that is not the one the request was guarded by, or somebody else's request.
func (g *Gateway) alias(name string, t *route) bool {
	if strings.IndexByte(name, '_') < 0 {
		return false
	}
	name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
	return name == t.cfg.KeyHeader || slices.Contains(g.keep, name) || forwarded(name)
}

func keep(out, in http.Header, names ...string) {
	for _, name := range names {
		if lines, ok := in[name]; ok {
			out[name] = lines
		}
	}
}

// aim points a URL at the upstream, with the request's path and query.
func (g *Gateway) aim(u *url.URL, r *http.Request) {
	*u = *r.URL
	u.Scheme, u.Host, u.User = g.upstream.Scheme, g.upstream.Host, nil
	if raw := door.Path(r.RequestURI); raw != u.EscapedPath() && !strings.HasPrefix(raw, "//") {
		// The path holds bytes that a URL has to escape (RFC 3986 section 3.3). As the opaque part, url.URL writes it as it
		// is; it cannot do so for one that begins with //, and escapes them there. A path that somebody changed since it was
		// received stays changed.
		if plain, err := url.PathUnescape(raw); err == nil && plain == u.Path {
			u.Opaque = raw
		}
	}
}

// setKey tells the upstream which execution of which key this is.
func (a *attempt) setKey(h http.Header) {
	head := a.claim.Head()
	values := [...]string{strconv.Itoa(head.Attempt), strconv.FormatInt(head.Fence(), 10), string(head.Key)}
	h["Stet-Attempt"], h["Stet-Fence"] = values[0:1:1], values[1:2:2]
	name := a.route.cfg.KeyHeader
	switch {
	case a.route.key == ForwardNothing:
		delete(h, name)
	case a.route.cfg.Key.Syntax == stet.Opaque: // as sent
	case a.route.key == ForwardBare && bare(values[2]):
		h[name] = values[2:]
	case len(h[name]) == 1 && isQuoted(h[name][0], values[2]): // as sent, and most are
	default:
		values[2] = head.Key.Quote()
		h[name] = values[2:]
	}
}

// isQuoted reports whether line is key in quotes, with nothing escaped and no parameters.
func isQuoted(line, key string) bool {
	return len(line) == len(key)+2 && line[0] == '"' && line[1:len(line)-1] == key
}

// bare reports whether a key means the same when it is written without quotes.
func bare(key string) bool {
	return !strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`",;\`, c) })
}

// maxInMemory is how long a body may be to be copied for the transport, which sends one that it knows to be in memory
// together with the headers. The guard's own copy cannot be used: it goes back to a pool when the request has been answered,
// and the transport may then still be reading.
const maxInMemory = 16 << 10

func (a *attempt) sendFromMemory(out *http.Request) {
	if out.Body == nil || out.ContentLength < 0 || out.ContentLength > maxInMemory {
		return
	}
	b := make([]byte, out.ContentLength)
	n, _ := io.ReadFull(out.Body, b) // the transport refuses a body that is too short
	a.memory.Reset(b[:n])
	out.Body = io.NopCloser(&a.memory)
}
