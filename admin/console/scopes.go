package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/stet-dev/stet/admin"
)

// scopesView is the busiest scopes.
type scopesView struct {
	Rows   []scopeRow
	By     string
	Orders []string
}

type scopeRow struct {
	admin.ScopeFigures
	Bar string // how long its share of duplicates is drawn
}

// scopeOrders are what scopes are ordered by, most first.
var scopeOrders = map[string]func(admin.Results) int{
	"duplicates": admin.Results.Duplicates,
	"requests":   admin.Results.Requests,
	"conflicts":  func(r admin.Results) int { return r["conflict"] },
	"unknown":    func(r admin.Results) int { return r["unknown"] },
}

// scopes draws GET /scopes.
func (p *page) scopes(doc *lists) error {
	d := scopesView{Orders: []string{"duplicates", "requests", "conflicts", "unknown"}, By: p.r.URL.Query().Get("by")}
	key := scopeOrders[d.By]
	if key == nil {
		d.By, key = "duplicates", admin.Results.Duplicates
	}
	share := func(r admin.Results) float64 { return float64(r.Duplicates()) / float64(max(r.Requests(), 1)) }
	most := 0.0
	for _, s := range doc.Scopes {
		most = max(most, share(s.Results))
	}
	for _, s := range doc.Scopes {
		d.Rows = append(d.Rows, scopeRow{s, trimmed(100*share(s.Results)/cmp.Or(most, 1), 2) + "%"})
	}
	slices.SortStableFunc(d.Rows, func(a, b scopeRow) int {
		return cmp.Or(key(b.Results)-key(a.Results), strings.Compare(a.Scope, b.Scope))
	})
	return p.render(http.StatusOK, "scopes", view{Title: "Scopes", Live: 30, D: d})
}
