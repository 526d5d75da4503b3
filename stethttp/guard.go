package stethttp

import (
	"errors"
	"net"
	"net/http"
	"slices"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/framing"
	"github.com/stet-dev/stet/internal/stopwatch"
)

// Guard makes handlers safe to retry. Safe for concurrent use.
type Guard struct {
	engine *stet.Engine
	scope  ScopeFunc
	cfg    Config
	door   *door.Rules // nil if nothing is refused
	recipe *stet.Fingerprinter
	drop   []string // headers dropped from replays by configuration, in the form of [door.Name]
	// keyForm is the key's header in that form.
	keyForm string
	dates   dates
}

// New returns a Guard. It returns an error that names the setting if e or scope is nil or c cannot
// be used.
func New(e *stet.Engine, scope ScopeFunc, c Config) (*Guard, error) {
	if e == nil || scope == nil {
		return nil, errors.New("stethttp: New needs an engine and a scope function; for an API with one tenant, use stethttp.SingleTenant")
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	g := &Guard{engine: e, scope: scope, cfg: c.withDefaults(e.Policy())}
	for _, name := range g.cfg.Replay.DropHeaders {
		g.drop = append(g.drop, door.Name(name))
	}
	g.keyForm = door.Name(g.cfg.KeyHeader)
	if g.cfg.Mode.enforces() {
		g.door = &door.Rules{Methods: g.cfg.EnabledMethods, Guarded: true, RefuseOverride: g.cfg.RefuseOverride, MaxTarget: g.cfg.Limits.Config().MaxTargetBytes}
	}
	if c.Render != nil {
		g.cfg.Render = g.contained(c.Render)
	}
	g.recipe, _ = g.cfg.Fingerprint.Compile() // Validate has found nothing wrong with it
	return g, nil
}

// Middleware is [New] and [Guard.Wrap] in the usual shape. It panics on a Config that cannot be
// used.
func Middleware(e *stet.Engine, scope ScopeFunc, c Config) func(http.Handler) http.Handler {
	g, err := New(e, scope, c)
	if err != nil {
		panic(err)
	}
	return g.Wrap
}

// Config returns the Guard's settings with all defaults filled in.
func (g *Guard) Config() Config { return g.cfg }

// Wrap returns a handler that guards next. If next is an [Atomic] handler and the policy does not
// set another rule, the end of a lease proves that nothing happened: see [stet.LapseAtomic].
func (g *Guard) Wrap(next http.Handler) http.Handler {
	var policy *stet.Policy
	if a, ok := next.(*atomicHandler); ok {
		next = a.within(&g.cfg)
		if g.cfg.Policy.OnLapse == stet.LapseUnknown {
			policy = new(g.cfg.Policy)
			policy.OnLapse = stet.LapseAtomic
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.door == nil {
			g.serve(w, r, next, policy)
			return
		}
		entered, fault := g.door.Enter(r)
		if fault != nil { // its scope and its key have not been looked at
			p := NewProblem(Code(fault.Kind), g.cfg.ProblemBase)
			p.Detail = fault.Detail
			g.TurnAway(w, r, p)
			return
		}
		if entered != r {
			defer func() { r.MultipartForm = entered.MultipartForm }() // the server removes its files by its own request
		}
		g.serve(w, entered, next, policy)
	})
}

func (g *Guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler, policy *stet.Policy) {
	lines := r.Header[g.cfg.KeyHeader]
	required, acts := g.covers(r)
	if !acts || len(lines) == 0 && !required {
		began := stopwatch.Start(g.engine.Observed())
		next.ServeHTTP(w, r)
		g.engine.Observe(stet.Event{Kind: stet.Answer, Route: g.cfg.Route, Result: "bypass", Took: stopwatch.Since(began),
			Unprotected: g.cfg.Mode != ModeOff && !door.Safe(r.Method)})
		return
	}
	if g.cfg.Mode == ModeShadow {
		g.shadow(w, r, next, lines)
		return
	}
	x := &exchange{g: g, w: w, r: r, next: next, policy: policy, began: stopwatch.Start(g.engine.Observed())}
	defer x.end()
	x.serve(lines)
}

// covers reports whether the layer acts on the request, and whether it requires a key.
func (g *Guard) covers(r *http.Request) (required, acts bool) {
	c := &g.cfg
	switch {
	case c.Mode == ModeOff, !slices.Contains(c.EnabledMethods, r.Method):
		return false, false
	case door.Upgrades(r), c.Mode == ModeShadow && door.OffersUpgrade(r.Header): // the connection may become something else
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

// StrictFraming returns a listener that detects what net/http hides: requests with both
// Content-Length and Transfer-Encoding, or with Transfer-Encoding in HTTP/1.0. A proxy in front
// that believes the other field sees other requests on the connection than the server, and an
// attacker can hide a request from it (RFC 9112 sections 6.1 and 11.2). Guarded handlers answer
// such requests with [BadFraming] and close the connection; other handlers see them with the header
// Stet-Bad-Frame.
//
// Give the listener to [http.Server.Serve]. Call StrictFraming once for a server, after the
// server's other fields are set:
//
//	srv := &http.Server{Addr: ":8080", Handler: idempotent(api)}
//	l, err := net.Listen("tcp", srv.Addr)
//	…
//	err = srv.Serve(stethttp.StrictFraming(srv, l))
//
// If srv.TLSConfig is set, the listener serves TLS: call Serve, not ServeTLS, and give
// StrictFraming the listener below TLS. The config needs a certificate. HTTP/2 is offered as by
// ServeTLS. HTTP/2 has no doubt about framing, but a header block that has begun has to be complete
// within srv.ReadHeaderTimeout, or ReadTimeout if that is zero.
//
// StrictFraming sets srv.ConnState and, for TLS, also ConnContext, Handler and Protocols; the
// functions that were set before are called as well. The [net.Conn] of hooks and hijacked
// connections is neither a *net.TCPConn nor a *tls.Conn.
func StrictFraming(srv *http.Server, l net.Listener) net.Listener { return framing.Listen(srv, l) }
