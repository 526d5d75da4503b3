package admin

import (
	"slices"
	"time"
)

// Figures is what the processes on one store have counted: see package figures.
type Figures struct {
	At        time.Time // by the store's clock
	Gateways  []Gateway
	Hour, Day []Series // of all requests, one for each result that there was
	Routes    []RouteFigures
}

// gateways answers GET /api/v1/gateways.
func (h *handler) gateways(c *call) (any, error) {
	return map[string]any{"gateways": some(h.Figures(c.Context()).Gateways)}, nil
}

// routeFigures answers GET /api/v1/routes: the routes that are configured here, in the order in
// which /policy.json has them, and then those that only others have, or that are gone.
func (h *handler) routeFigures(c *call) (any, error) {
	counted, all := slices.Clone(h.Figures(c.Context()).Routes), []RouteFigures{}
	if h.Policy != nil {
		for _, r := range h.Policy().Routes {
			var f RouteFigures
			if i := slices.IndexFunc(counted, func(f RouteFigures) bool { return f.Route == r.Config.Route }); i >= 0 {
				f = counted[i]
				counted = slices.Delete(counted, i, i+1)
			}
			f.Route, f.Match, f.Mode = r.Config.Route, r.Match, modes[r.Config.Mode]
			if f.Results == nil {
				f.Results = Results{}
			}
			all = append(all, f)
		}
	}
	return map[string]any{"routes": append(all, counted...)}, nil
}

// settings answers GET /api/v1/config.
func (h *handler) settings(*call) (any, error) {
	return map[string]any{"settings": some(h.Settings())}, nil
}

// unasked answers a call that takes no parameters.
func unasked(do func(*handler, *call) (any, error)) func(*handler, *call) (any, error) {
	return func(h *handler, c *call) (any, error) {
		if err := (parameters{}).read(c.URL); err != nil {
			return nil, err
		}
		return do(h, c)
	}
}

// some is a list as JSON has it: empty and not null.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
