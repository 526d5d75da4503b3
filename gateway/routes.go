package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/stethttp"
)

// route is a compiled [Route]. It is an [http.Handler] because it is looked up in a ServeMux.
type route struct {
	Route        // with the defaults of the guard; without a pattern it is for what no other matches
	http.Handler // the guard's
	guard        *stethttp.Guard
	believed     []believed
	keyForm      string      // of the key's header
	unframed     atomic.Bool // it was said that its answers end with their connections
}

// table finds the route of a request. Its ServeMux never serves, because it would answer an unclean
// path with a redirect.
type table struct {
	mux       *http.ServeMux
	byPattern map[string]*route
	all       []*route // in the order of the configuration, unmatched last
	unmatched *route
	encoded   bool // at least one route has MatchEncoded
	literal   bool // at least one route has an IPv6 address for a host
}

// find returns the route of a request: that of the most specific pattern that its path matches,
// decoded or as it was sent.
func (t *table) find(r *http.Request) *route {
	if t.encoded {
		if path := r.URL.EscapedPath(); strings.IndexByte(path, '%') >= 0 {
			decoded := http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Path: door.Decoded(path)}}
			if found := t.match(&decoded); found.MatchEncoded {
				return found
			}
		}
	}
	return t.match(r)
}

// match returns the route of the most specific pattern that matches. ServeMux takes the brackets
// from an IPv6 address together with the port, and leaves them without one.
func (t *table) match(r *http.Request) *route {
	if t.literal && strings.HasPrefix(r.Host, "[") {
		r = &http.Request{Method: r.Method, Host: door.HostOf(r.Host), URL: r.URL}
	}
	h, pattern := t.mux.Handler(r)
	if found, ok := h.(*route); ok {
		return found
	}
	if found, ok := t.byPattern[pattern]; ok { // the mux would redirect to what the pattern matches
		return found
	}
	return t.unmatched
}

func (g *Gateway) compile() (err error) {
	c := &g.cfg
	if g.routes.unmatched, err = g.newRoute(Route{Config: c.Default, UpstreamKey: c.UpstreamKey}); err != nil {
		return err
	}
	g.routes.mux, g.routes.byPattern = http.NewServeMux(), make(map[string]*route, len(c.Routes))
	for i, r := range c.Routes {
		if r.Config.Limits == nil {
			r.Config.Limits = c.Default.Limits // all routes share the bound on buffered bytes
		}
		if err := g.addRoute(r, c.Routes[:i]); err != nil {
			return fmt.Errorf("gateway: route %q: %w", r.Match, err)
		}
	}
	g.routes.all = append(g.routes.all, g.routes.unmatched)
	if _, taken := g.routes.byPattern["/"]; !taken {
		g.routes.mux.Handle("/", g.routes.unmatched) // else the mux would look for methods that it could allow
	}
	return nil
}

func (g *Gateway) addRoute(r Route, earlier []Route) error {
	form, host, err := door.Pattern(r.Match)
	if err != nil {
		return err
	}
	if r.Match = form; host != "" {
		r.Config.Fingerprint.Host = true
	}
	if err := register(http.NewServeMux(), r.Match, http.NotFoundHandler()); err != nil {
		return err
	}
	t, err := g.newRoute(r)
	if err != nil {
		return err
	}
	if register(g.routes.mux, r.Match, t) != nil {
		return fmt.Errorf("it conflicts with route %q: both match some requests, and neither is more specific", rival(earlier, r.Match))
	}
	g.routes.byPattern[r.Match], g.routes.all = t, append(g.routes.all, t)
	g.routes.encoded = g.routes.encoded || t.MatchEncoded
	g.routes.literal = g.routes.literal || strings.HasPrefix(host, "[")
	return nil
}

// rival returns the earlier pattern that conflicts with pattern.
func rival(earlier []Route, pattern string) string {
	for _, o := range earlier {
		mux := http.NewServeMux()
		form, _, err := door.Pattern(o.Match)
		if err == nil && register(mux, form, http.NotFoundHandler()) == nil && register(mux, pattern, http.NotFoundHandler()) != nil {
			return o.Match
		}
	}
	panic("gateway: unreachable: a pattern that conflicts with none of the others")
}

// register returns an error instead of the panic of ServeMux.
func register(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New(strings.TrimPrefix(fmt.Sprint(v), "http: "))
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

// ofProxies are the statuses by which a server tells of another one behind it, or of none (RFC
// 9110, sections 15.6.3 to 15.6.5): a proxy between the gateway and the API says them, whether the
// API has taken the request or not.
var ofProxies = map[int]stet.State{http.StatusBadGateway: stet.Unknown, http.StatusServiceUnavailable: stet.Unknown, http.StatusGatewayTimeout: stet.Unknown}

func (g *Gateway) newRoute(r Route) (*route, error) {
	if r.UpstreamKey > ForwardNothing {
		return nil, fmt.Errorf("UpstreamKey is %d, which is no UpstreamKey", r.UpstreamKey)
	}
	const unmatched = "default"
	r.Config.Route = cmp.Or(r.Config.Route, r.Match, unmatched)
	if r.Config.Client == nil {
		r.Config.Client = g.client
	}
	scope := g.cfg.Scope
	if g.cfg.ScopeByHost {
		scope = byHost(scope)
	}
	if g.cfg.ScopeByRoute {
		scope = byRoute(scope, r.Config.Route)
	}
	if r.Config.StatusOutcome == nil && r.Config.On5xx == stethttp.ReplayFailure {
		r.Config.StatusOutcome = ofProxies
	}
	guard, err := stethttp.New(g.engine, scope, r.Config)
	if err != nil {
		return nil, err
	}
	r.Config = guard.Config()
	t := &route{Route: r, guard: guard, believed: g.believes(&r.Config), keyForm: door.Name(r.Config.KeyHeader)}
	t.Handler = guard.Wrap(forwarder{g, t})
	return t, nil
}

// forwarder is the handler behind the guard of a route.
type forwarder struct {
	g *Gateway
	t *route
}

// ServeHTTP implements [http.Handler].
func (f forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.g.forward(w, r, f.t) }

// Lasts tells the guard that forwarding a request may take longer than its client waits.
func (f forwarder) Lasts() {}

// byHost adds the host that a request is for to a scope.
func byHost(scope stethttp.ScopeFunc) stethttp.ScopeFunc {
	return func(r *http.Request) (stet.Scope, error) {
		s, err := scope(r)
		if err != nil {
			return "", err
		}
		return s + stet.Scope("/"+url.PathEscape(door.Host(r))), nil
	}
}

// byRoute adds the route to a scope.
func byRoute(scope stethttp.ScopeFunc, route string) stethttp.ScopeFunc {
	part := stet.Scope("/" + url.PathEscape(route))
	return func(r *http.Request) (stet.Scope, error) {
		s, err := scope(r)
		if err != nil {
			return "", err
		}
		return s + part, nil
	}
}
