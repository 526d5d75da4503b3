package gateway

import (
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync/atomic"
)

// upload is a body that the client is still sending. When it breaks off, it is not the upstream that failed.
type upload struct {
	io.ReadCloser
	watchdog *watchdog
	err      atomic.Pointer[error]
}

func (b *upload) Read(p []byte) (int, error) {
	b.watchdog.pause()
	n, err := b.ReadCloser.Read(p)
	b.watchdog.resume()
	if err != nil && err != io.EOF {
		b.err.Store(&err)
	}
	return n, err
}

// broken returns why the client's body ended early, or nil.
func (b *upload) broken() error {
	if err := b.err.Load(); err != nil {
		return *err
	}
	return nil
}

// setTrailer forwards the trailers that were announced, by the same rules as headers, and none that the gateway itself sets or relies
// on as a header: an upstream that merges the two would take them for its word (RFC 9110 section 6.5.1).
func (g *Gateway) setTrailer(pr *httputil.ProxyRequest, t *route) {
	out := pr.Out
	if len(pr.In.Trailer) == 0 || out.Body == nil {
		out.Trailer = nil
		return
	}
	hop := append(connectionListed(pr.In.Header), hopByHop...)
	for name := range out.Trailer {
		if ours(name) || g.alias(name, t) || forwarded(name) || name == "Via" || name == t.cfg.KeyHeader ||
			slices.Contains(g.keep, name) || slices.Contains(hop, name) {
			delete(out.Trailer, name)
		}
	}
	out.Body = &trailing{out.Body, pr.In, out.Trailer}
}

// hopByHop are the fields that go no further than this hop, whether Connection lists them or not (RFC 9110 section 7.6.1).
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade"}

// connectionListed are the fields that go no further than this hop (RFC 9110 section 7.6.1).
func connectionListed(h http.Header) (names []string) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return names
}

// trailing fills in the trailers once the body has been read: before, the server does not know them.
type trailing struct {
	io.ReadCloser
	in *http.Request
	to http.Header
}

func (b *trailing) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		for name := range b.to {
			b.to[name] = b.in.Trailer[name]
		}
	}
	return n, err
}
