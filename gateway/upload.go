package gateway

import (
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync/atomic"

	"github.com/stet-dev/stet/internal/framing"
)

// upload is a body that the client is still sending. If it breaks off, the upstream has not failed.
type upload struct {
	io.ReadCloser
	watchdog *watchdog
	begun    []byte // what was read of it when it turned out not to be whole yet
	ended    error  // by which that read ended
	err      atomic.Pointer[error]
}

func (b *upload) Read(p []byte) (n int, err error) {
	switch {
	case len(b.begun) > 0:
		n = copy(p, b.begun)
		b.begun = b.begun[n:]
	case b.ended != nil:
		err = b.ended
	default:
		b.watchdog.pause()
		n, err = b.ReadCloser.Read(p)
		b.watchdog.resume()
	}
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

// setTrailer forwards the announced trailers by the same rules as headers, but none that the
// gateway sets or relies on as a header: an upstream that merges the two would take such a trailer
// for the gateway's word (RFC 9110 section 6.5.1).
func (g *Gateway) setTrailer(pr *httputil.ProxyRequest, t *route) {
	out := pr.Out
	if len(pr.In.Trailer) == 0 || out.Body == nil {
		out.Trailer = nil
		return
	}
	hop := framing.Listed(pr.In.Header["Connection"])
	for name := range out.Trailer {
		if !t.passes(name, &hop) || forwarded(name) || name == "Via" || name == t.Config.KeyHeader || slices.Contains(g.cfg.KeepHeaders, name) {
			delete(out.Trailer, name)
		}
	}
	out.Body = &trailing{out.Body, pr.In, out.Trailer}
}

// trailing fills in the trailers when the body has been read; the server does not know them before.
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
