package gateway

import (
	"net/http"
	"slices"

	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/stethttp"
)

// hang makes the gateway's door, before the routes: what is refused there has none yet, so the methods of all routes count. Overrides
// of the method are for the policy of the route that a request has as it was sent, and the guard's to look for.
func (g *Gateway) hang() {
	var methods []string
	enforces := false
	for _, t := range slices.Concat(g.routes.ordered, []*route{g.routes.unmatched}) {
		if t.cfg.Mode != stethttp.ModeOff && t.cfg.Mode != stethttp.ModeShadow {
			enforces, methods = true, append(methods, t.cfg.EnabledMethods...)
		}
	}
	if enforces {
		slices.Sort(methods)
		g.door = &door.Rules{Methods: slices.Compact(methods), MaxTarget: g.routes.unmatched.cfg.Limits.Config().MaxTargetBytes}
	}
}

// enter returns the request in the form that routes, guards and upstream see. Where no route refuses anything, the gateway refuses
// only what no proxy could pass on.
func (g *Gateway) enter(r *http.Request) (*http.Request, *door.Fault) {
	if fault := door.Forwardable(r); fault != nil || g.door == nil {
		return r, fault
	}
	return g.door.Enter(r)
}
