package gateway

import (
	"cmp"
	"errors"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync/atomic"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/quiet"
	"github.com/stet-dev/stet/stethttp"
)

// Gateway is a reverse proxy that makes requests safe to retry. It is an [http.Handler] and safe
// for concurrent use.
type Gateway struct {
	engine    *stet.Engine
	cfg       Config // with its defaults
	routes    table
	door      *door.Rules // nil if no route refuses anything
	pages     *pages      // nil: no pages here
	transport *direct
	reach     *reach
	late      atomic.Int64 // exchanges that are read on after their time
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
	g := &Gateway{engine: e, cfg: c}
	if err := g.compile(); err != nil {
		return nil, err
	}
	g.compileDoor()
	g.pages = pagesBelow(g.routes.unmatched.Config.ProblemBase)
	g.transport = newDirect(c.Upstream, c.UpstreamTLS, c.UpstreamIdleTimeout)
	g.transport.sized.Store(c.EmptyBody == EmptyLength)
	g.transport.rest.resent = g.tellResent
	g.reach = g.transport.rest.reach
	g.reach.log = c.Log
	g.proxy = &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      g.transport,
		BufferPool:     &copyBuffers,
		ModifyResponse: g.received,
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { g.failed(w, r, attemptOf(r.Context()), err) },
		ErrorLog:       quiet.Logger(c.Log),
	}
	return g, nil
}

// compileDoor makes the rules for requests before they have a route. All routes' methods count
// there. Overrides of the method are for the guard of the request's route.
func (g *Gateway) compileDoor() {
	var methods []string
	enforces := false
	for _, t := range g.routes.all {
		if t.Config.Mode != stethttp.ModeOff && t.Config.Mode != stethttp.ModeShadow {
			enforces, methods = true, append(methods, t.Config.EnabledMethods...)
		}
	}
	if enforces {
		slices.Sort(methods)
		g.door = &door.Rules{Methods: slices.Compact(methods), MaxTarget: g.routes.unmatched.Config.Limits.Config().MaxTargetBytes}
	}
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if hops(r.Header["Via"]) > maxHops {
		g.turnAway(w, r, stethttp.Loop, "")
		return
	}
	r, fault := g.enter(r)
	if fault != nil {
		g.turnAway(w, r, stethttp.Code(fault.Kind), fault.Detail)
		return
	}
	if g.pages.has(r) {
		g.page(w, r)
		return
	}
	t := g.routes.find(r)
	if g.cfg.StrictCoverage && t == g.routes.unmatched && !door.Safe(r.Method) {
		g.turnAway(w, r, stethttp.RouteNotCovered, "")
		return
	}
	t.ServeHTTP(w, r)
}

// enter returns the request in the form that routes, guards and upstream see. If no route refuses
// anything, only what no proxy could pass on is refused.
func (g *Gateway) enter(r *http.Request) (*http.Request, *door.Fault) {
	if fault := door.Forwardable(r); fault != nil || g.door == nil {
		return r, fault
	}
	return g.door.Enter(r)
}

// turnAway refuses a request before it has a route. With an empty detail the answer has that of the
// code.
func (g *Gateway) turnAway(w http.ResponseWriter, r *http.Request, code stethttp.Code, detail string) {
	p := stethttp.NewProblem(code, g.routes.unmatched.Config.ProblemBase)
	p.Detail = cmp.Or(detail, p.Detail)
	g.routes.unmatched.guard.TurnAway(w, r, p)
}

// Routes returns the routes in force, with all defaults filled in. The last one, without a pattern,
// is for requests that no other matches.
func (g *Gateway) Routes() []Route {
	routes := make([]Route, len(g.routes.all))
	for i, t := range g.routes.all {
		routes[i] = t.Route
	}
	return routes
}

// CloseIdle closes the idle connections to the upstream. Call it on a Gateway that was replaced.
func (g *Gateway) CloseIdle() { g.transport.closeIdle() }
