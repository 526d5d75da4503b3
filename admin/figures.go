package admin

import (
	"slices"

	"github.com/stet-dev/stet/operate"
)

// gatewayList is the answer of GET /api/v1/gateways.
type gatewayList struct {
	Gateways []operate.Gateway `json:"gateways"`
}

func (h *handler) gateways(c *call) (gatewayList, error) {
	return gatewayList{some(h.Figures(c.Context()).Gateways)}, nil
}

// routeList is the answer of GET /api/v1/routes: the routes that are configured here, in the order
// in which /policy.json has them, and then those that only others have, or that are gone.
type routeList struct {
	Routes []operate.RouteFigures `json:"routes"`
}

func (h *handler) routeFigures(c *call) (routeList, error) {
	counted, all := slices.Clone(h.Figures(c.Context()).Routes), []operate.RouteFigures{}
	if h.Policy != nil {
		for _, r := range h.Policy().Routes {
			var f operate.RouteFigures
			if i := slices.IndexFunc(counted, func(f operate.RouteFigures) bool { return f.Route == r.Config.Route }); i >= 0 {
				f = counted[i]
				counted = slices.Delete(counted, i, i+1)
			}
			f.Route, f.Match, f.Mode = r.Config.Route, r.Match, modes[r.Config.Mode]
			if f.Results == nil {
				f.Results = operate.Results{}
			}
			all = append(all, f)
		}
	}
	return routeList{append(all, counted...)}, nil
}

// Setting is a line of the effective configuration.
type Setting struct {
	Path    string `json:"path"`
	Value   string `json:"value"` // masked where it is secret
	Origin  string `json:"origin"`
	Doc     string `json:"doc,omitzero"`
	Unit    string `json:"unit,omitzero"`
	Pending string `json:"pending,omitzero"` // what the file says now, where that takes a restart
}

// settingList is the answer of GET /api/v1/config.
type settingList struct {
	Settings []Setting `json:"settings"`
}

func (h *handler) settings(*call) (settingList, error) { return settingList{some(h.Settings())}, nil }

// some is a list as JSON has it: empty and not null.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
