package gateway

import (
	"net/http"
	"slices"

	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/stethttp"
)

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

// enter returns the request in the form that routes, guards and upstream see. If no route refuses
// anything, only what no proxy could pass on is refused.
func (g *Gateway) enter(r *http.Request) (*http.Request, *door.Fault) {
	if fault := door.Forwardable(r); fault != nil || g.door == nil {
		return r, fault
	}
	return g.door.Enter(r)
}
