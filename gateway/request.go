package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
)

// rewrite makes the request for the upstream out of the client's. ReverseProxy has removed hop-by-hop headers and the ones
// that Connection lists from it.
func (g *Gateway) rewrite(pr *httputil.ProxyRequest) {
	p := passageOf(pr.In.Context())
	out := pr.Out
	out.URL = g.target(pr.In) // and out.Host stays the client's
	for name := range out.Header {
		if ours(name) {
			delete(out.Header, name)
		}
	}
	keep(out.Header, pr.In.Header, g.keep...)
	keep(out.Header, pr.In.Header, p.route.cfg.KeyHeader)
	setForwarded(out.Header, pr.In)
	if p.claim != nil {
		p.setKey(out.Header)
		delete(out.Header, "Expect") // the body is here already
		out.Body = inMemory(out)
	} else if out.Body != nil {
		p.upload = &upload{ReadCloser: out.Body}
		out.Body = p.upload
	}
	hideFromTransport(out.Header)
	g.setTrailer(pr, p.route)
}

// ours are request headers that only the gateway sets, also in the spelling that CGI and its heirs take for the same.
func ours(name string) bool {
	const prefix = "Stet"
	return len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) && (name[len(prefix)] == '-' || name[len(prefix)] == '_')
}

func keep(out, in http.Header, names ...string) {
	for _, name := range names {
		if lines, ok := in[name]; ok {
			out[name] = lines
		}
	}
}

// target is the upstream's URL with the request's path and query.
func (g *Gateway) target(r *http.Request) *url.URL {
	u := *r.URL
	u.Scheme, u.Host, u.User = g.upstream.Scheme, g.upstream.Host, nil
	if raw := rawPath(r.RequestURI); raw != u.EscapedPath() && !strings.HasPrefix(raw, "//") {
		// The path holds bytes that a URL has to escape (RFC 3986 section 3.3). As the opaque part, url.URL writes it as it
		// is; it cannot do so for one that begins with //, and escapes them there. A path that somebody changed since it was
		// received stays changed.
		if plain, err := url.PathUnescape(raw); err == nil && plain == u.Path {
			u.Opaque = raw
		}
	}
	return &u
}

// rawPath returns the path of a request target in origin-form, absolute-form or asterisk-form (RFC 9112 section 3.2).
func rawPath(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if strings.HasPrefix(path, "/") {
		return path
	}
	_, rest, absolute := strings.Cut(path, "://")
	if !absolute {
		return path
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return ""
}

// setKey tells the upstream which execution of which key this is.
func (p *passage) setKey(h http.Header) {
	head := p.claim.Head()
	name := p.route.cfg.KeyHeader
	switch key := head.Key; {
	case p.route.key == ForwardNothing:
		delete(h, name)
	case p.route.cfg.Key.Syntax == stet.Opaque, p.route.key == ForwardBare && bare(string(key)):
		h[name] = []string{string(key)}
	default:
		h[name] = []string{key.Quote()}
	}
	h["Stet-Attempt"] = []string{strconv.Itoa(head.Attempt)}
	h["Stet-Fence"] = []string{strconv.FormatInt(head.Fence(), 10)}
}

// bare reports whether a key means the same when it is written without quotes.
func bare(key string) bool {
	return !strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`",;\`, c) })
}

// replayable are the headers that make net/http repeat a request by itself where a reused connection broke before the answer
// came, once per connection in its pool; and a spelling that it does not look for. For HTTP it is the same name.
var replayable = [...]struct{ name, spelling string }{
	{"Idempotency-Key", "idempotency-key"},
	{"X-Idempotency-Key", "x-idempotency-key"},
}

func hideFromTransport(h http.Header) {
	for _, r := range replayable {
		if lines, ok := h[r.name]; ok {
			delete(h, r.name)
			h[r.spelling] = lines
		}
	}
}

// maxInMemory is how long a body may be to be copied for the transport, which sends one that it knows to be in memory
// together with the headers. The guard's own copy cannot be used: it goes back to a pool when the request has been answered,
// and the transport may then still be reading.
const maxInMemory = 16 << 10

func inMemory(out *http.Request) io.ReadCloser {
	if out.Body == nil || out.ContentLength < 0 || out.ContentLength > maxInMemory {
		return out.Body
	}
	b := make([]byte, out.ContentLength)
	n, _ := io.ReadFull(out.Body, b) // a body that is too short is refused by the transport
	return io.NopCloser(bytes.NewReader(b[:n]))
}
