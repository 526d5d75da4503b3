package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/quiet"
	"github.com/stet-dev/stet/stethttp"
)

// Gateway is a reverse proxy whose requests are safe to retry: an [http.Handler], safe for concurrent use.
type Gateway struct {
	engine   *stet.Engine
	upstream *url.URL
	routes   table
	strict   bool
	keep     []string
	log      *slog.Logger
	timeout  time.Duration // of requests that run unguarded; negative: none

	transport *direct
	proxy     *httputil.ReverseProxy
}

// New returns a Gateway. The error names the route and the setting that cannot be used.
func New(e *stet.Engine, c Config) (*Gateway, error) {
	if e == nil {
		return nil, errors.New("gateway: New needs an engine")
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	g := &Gateway{engine: e, upstream: c.Upstream, strict: c.StrictCoverage, keep: c.KeepHeaders, log: c.Log, timeout: c.UpstreamTimeout}
	if err := g.compile(e, &c); err != nil {
		return nil, err
	}
	g.transport = newDirect(c.Upstream, c.UpstreamTLS, c.UpstreamIdleTimeout)
	g.proxy = &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      g.transport,
		BufferPool:     &copyBuffers,
		ModifyResponse: g.received,
		ErrorHandler:   g.failed,
		ErrorLog:       quiet.Logger(c.Log),
	}
	return g, nil
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect || r.URL.Opaque != "" {
		// The authority-form and opaque URIs are for other kinds of proxies (RFC 9112 section 3.2).
		http.Error(w, "This is a gateway to one server: requests name a path.", http.StatusBadRequest)
		return
	}
	if strings.IndexByte(r.RequestURI, ' ') >= 0 || strings.IndexByte(r.URL.RawQuery, ' ') >= 0 {
		// HTTP/2 can carry it, but a request line of HTTP/1 ends there (RFC 9112 section 3): an upstream would read another target.
		http.Error(w, "The request's target holds a space.", http.StatusBadRequest)
		return
	}
	t := g.routes.find(r)
	if g.strict && t == g.routes.unmatched && !safe(r.Method) {
		p := stethttp.NewProblem(stethttp.RouteNotCovered, t.cfg.ProblemBase)
		g.engine.Observe(stet.Event{Kind: stet.Answer, Route: t.cfg.Route, Result: "limited", Status: p.Status})
		t.cfg.Refuse(w, r, p)
		return
	}
	t.ServeHTTP(w, r)
}

// safe methods change nothing (RFC 9110 section 9.2.1).
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// Routes returns the routes as they are in force, all defaults filled in. The last one, without a pattern, is for requests
// that no other matches.
func (g *Gateway) Routes() []Route {
	routes := make([]Route, 0, len(g.routes.ordered)+1)
	for _, t := range slices.Concat(g.routes.ordered, []*route{g.routes.unmatched}) {
		routes = append(routes, Route{Match: t.match, Config: t.cfg, UpstreamKey: t.key})
	}
	return routes
}

// CloseIdle closes connections to the upstream that nothing uses. Call it on a Gateway that was replaced.
func (g *Gateway) CloseIdle() { g.transport.closeIdle() }
