package console

import (
	"errors"
	"net/http"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
)

// routesView is what the layer does with each route.
type routesView struct {
	Rows        []operate.RouteFigures
	Requests    int // that may change state, of routes that are not off
	Covered     int
	Unprotected int
	Refused     int
	Unmatched   int
	Bare        []operate.RouteFigures // routes with requests that changed state without a key
	Open        *admin.RouteDoc        // the route whose rules are shown
	NoPolicy    string
}

// drawRoutes draws GET /routes.
func drawRoutes(p *page) error {
	doc, err := tidied(p.api.Routes(p.ctx()))
	if err != nil {
		return err
	}
	d := routesView{Rows: doc.Routes}
	for i := range doc.Routes {
		r := &doc.Routes[i]
		requests := r.Results.Requests()
		if past := r.Results["bypass"]; r.Mode != "off" {
			harmless := max(0, past-r.Unprotected-r.Shadow.Requests())
			d.Requests += requests - harmless
			d.Covered += requests - past - r.Results["missing_key"] - r.Results["store_error"]
		}
		d.Unprotected += r.Unprotected
		d.Refused += r.Results["missing_key"]
		if r.Match == "" {
			d.Unmatched += requests
		}
		if r.Unprotected > 0 {
			d.Bare = append(d.Bare, *r)
		}
	}
	if err := readPolicy(p, &d); err != nil {
		return err
	}
	return p.render(http.StatusOK, "routes", view{Title: "Routes", Live: 30, D: d})
}

// readPolicy fills in the rules of the route that the address names, or of the first.
func readPolicy(p *page, d *routesView) error {
	doc, err := tidied(p.api.Policy(p.ctx()))
	if bad, is := errors.AsType[*problem](err); is {
		d.NoPolicy = bad.Detail
		return nil
	}
	if err != nil {
		return err
	}
	name := p.r.URL.Query().Get("route")
	for i := range doc.Routes {
		if r := &doc.Routes[i]; d.Open == nil || r.Route == name {
			d.Open = r
		}
	}
	return nil
}
