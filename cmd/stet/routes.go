package main

import (
	"cmp"
	"maps"

	"github.com/stet-dev/stet/operate"
)

type routesCmd struct {
	source
	printed
}

// check implements [checked].
func (c *routesCmd) check(*world) error { return routeList.check(&c.printed) }

func (c *routesCmd) Run(w *world, a *api) error {
	return absent(routeList.whole(w, a, "/api/v1/routes", &c.printed, "no route has been asked for yet"), exitError,
		"no routes are shown: your token is bound to scopes, or the gateway is of an older version; stet whoami says what the token allows")
}

var routeList = listOf("routes", 8, "route mode new replay mismatches unprotected others shadow match",
	map[string]func(*operate.RouteFigures) any{
		"route":  func(r *operate.RouteFigures) any { return cmp.Or(r.Route, r.Match, "(no route)") },
		"new":    func(r *operate.RouteFigures) any { return r.Results["new"] },
		"replay": func(r *operate.RouteFigures) any { return r.Results["replay"] },
		"others": func(r *operate.RouteFigures) any { return others(r.Results) },
		"shadow": func(r *operate.RouteFigures) any { return counted(r.Shadow) },
	})

// others are the results besides the two that have a column.
func others(all map[string]int) string {
	rest := maps.Clone(all)
	delete(rest, "new")
	delete(rest, "replay")
	return counted(rest)
}
