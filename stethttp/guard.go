package stethttp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/upgrade"
)

// Guard makes handlers safe to retry. Safe for concurrent use.
type Guard struct {
	engine *stet.Engine
	scope  ScopeFunc
	cfg    Config
	recipe *stet.Fingerprinter
	drop   []string // headers dropped from replays by configuration
	dates  dates
}

// New returns a Guard. The error names the setting that cannot be used.
func New(e *stet.Engine, scope ScopeFunc, c Config) (*Guard, error) {
	if e == nil || scope == nil {
		return nil, errors.New("stethttp: New needs an engine and a scope function; an API with one tenant uses stethttp.SingleTenant")
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	g := &Guard{engine: e, scope: scope, cfg: c.withDefaults(e.Policy())}
	for _, name := range g.cfg.Replay.DropHeaders {
		g.drop = append(g.drop, http.CanonicalHeaderKey(name))
	}
	var err error
	if g.recipe, err = g.cfg.Fingerprint.Compile(); err != nil {
		return nil, fmt.Errorf("stethttp: Fingerprint: %w", err)
	}
	return g, nil
}

// Middleware is [New] and [Guard.Wrap] in the usual shape. It panics on a Config that cannot be used.
func Middleware(e *stet.Engine, scope ScopeFunc, c Config) func(http.Handler) http.Handler {
	g, err := New(e, scope, c)
	if err != nil {
		panic(err)
	}
	return g.Wrap
}

// Config returns the Guard's settings with all defaults filled in.
func (g *Guard) Config() Config { return g.cfg }

// Wrap returns a handler that guards next. Where next is an [Atomic] handler, and the policy does not say otherwise, the end of
// a lease proves that nothing happened: see [stet.LapseAtomic].
func (g *Guard) Wrap(next http.Handler) http.Handler {
	var policy *stet.Policy
	if _, ok := next.(*atomicHandler); ok && g.cfg.Policy.OnLapse == stet.LapseUnknown {
		policy = new(g.cfg.Policy)
		policy.OnLapse = stet.LapseAtomic
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next, policy) })
}

func (g *Guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler, policy *stet.Policy) {
	lines := r.Header[g.cfg.KeyHeader]
	required, acts := g.covers(r)
	if !acts || len(lines) == 0 && !required {
		began := g.engine.Clock()
		next.ServeHTTP(w, r)
		g.engine.Observe(stet.Event{Kind: stet.Answer, Route: g.cfg.Route, Result: "bypass", Took: stet.Since(began)})
		return
	}
	if g.cfg.Mode == ModeShadow {
		g.shadow(w, r, next, lines)
		return
	}
	x := &exchange{g: g, w: w, r: r, next: next, policy: policy, began: g.engine.Clock()}
	defer x.end()
	x.serve(lines)
}

// covers reports whether the layer acts on the request, and whether it demands a key.
func (g *Guard) covers(r *http.Request) (required, acts bool) {
	c := &g.cfg
	switch {
	case c.Mode == ModeOff, !slices.Contains(c.EnabledMethods, r.Method):
		return false, false
	case r.Header["Upgrade"] != nil && upgrade.Asked(r.Header): // RFC 9110 section 7.8: the connection becomes something else
		return false, false
	case r.Method == http.MethodOptions && r.Header["Access-Control-Request-Method"] != nil: // CORS preflight
		return false, false
	}
	switch c.Mode {
	case ModeRequired:
		return true, true
	case ModeOptional:
		return false, true
	case ModeByMethod, ModeShadow, ModeOff:
	}
	return slices.Contains(c.RequiredMethods, r.Method), true
}
