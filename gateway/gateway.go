package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/quiet"
	"github.com/stet-dev/stet/stethttp"
)

// Gateway is a reverse proxy whose requests are safe to retry: an [http.Handler], safe for concurrent use.
type Gateway struct {
	engine   *stet.Engine
	upstream *url.URL
	routes   table
	door     *door.Rules // nil where no route refuses anything
	strict   bool
	keep     []string
	trusted  proxies
	log      *slog.Logger
	timeout  time.Duration // of requests that run unguarded; negative: none
	pages    *pages        // nil: none here

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
	g := &Gateway{engine: e, upstream: c.Upstream, strict: c.StrictCoverage, keep: c.KeepHeaders, trusted: c.TrustedProxies, log: c.Log, timeout: c.UpstreamTimeout}
	if err := g.compile(e, &c); err != nil {
		return nil, err
	}
	g.hang()
	g.pages = pagesBelow(g.routes.unmatched.cfg.ProblemBase)
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
	r, fault := g.enter(r)
	if fault != nil {
		p := g.problem(stethttp.Code(fault.Kind))
		p.Detail = fault.Detail
		g.refuse(w, r, p)
		return
	}
	if g.pages.has(r) {
		g.page(w, r)
		return
	}
	t := g.routes.find(r)
	if g.strict && t == g.routes.unmatched && !safe(r.Method) {
		g.refuse(w, r, g.problem(stethttp.RouteNotCovered))
		return
	}
	t.ServeHTTP(w, r)
}

// problem is one of a request that has no route.
func (g *Gateway) problem(code stethttp.Code) *stethttp.Problem {
	return stethttp.NewProblem(code, g.routes.unmatched.cfg.ProblemBase)
}

// refuse answers a request that has no route.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, p *stethttp.Problem) {
	c := &g.routes.unmatched.cfg
	g.engine.Observe(stet.Event{Kind: stet.Answer, Route: c.Route, Result: "limited", Status: p.Status})
	c.Refuse(w, r, p)
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
