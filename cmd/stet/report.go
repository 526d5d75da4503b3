package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/operate"
)

type reportCmd struct {
	source
	Since time.Duration `default:"1d" least:"1m" placeholder:"1d" help:"How far back changes are looked at (1d). Requests are counted since the gateways began."`
	JSON  bool          `name:"json" help:"Print JSON."`
}

// report is what was told and done since an instant. What is of another time says so in its name.
type report struct {
	Since         time.Time              `json:"since"`
	Until         time.Time              `json:"until"`
	RequestsSince time.Time              `json:"requests_since,omitzero"` // when the first of the gateways began; none: no gateway has counted
	Requests      operate.Results        `json:"requests"`                // by result, since then
	Duplicates    int                    `json:"duplicates"`              // of the requests
	Changes       map[string]int         `json:"changes"`                 // of records, by action
	Who           map[string]int         `json:"who"`                     // changes by name
	Unread        bool                   `json:"unread_now"`              // nothing is known of the next four
	Unknown       int                    `json:"unknown_now"`
	Waiting       int                    `json:"waiting_now"`
	Dead          int                    `json:"dead_letters_now"`
	Snoozed       int                    `json:"snoozed_now"`
	Routes        []operate.RouteFigures `json:"routes"` // since the gateways began
}

func (c *reportCmd) Run(w *world, a *api) error {
	r, err := c.gather(w.ctx, a)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return writeJSON(w.stdout, r)
	}
	return r.print(w)
}

func (c *reportCmd) gather(ctx context.Context, a *api) (*report, error) {
	s, err := a.Overview(ctx)
	if err != nil {
		return nil, noFigures(a, err)
	}
	r := &report{Until: s.At, Since: s.At.Add(-c.Since), RequestsSince: s.RequestsSince, Requests: s.Requests,
		Duplicates: s.Requests.Duplicates(), Changes: map[string]int{}, Who: map[string]int{},
		Unread: s.Unread, Unknown: s.Unknown, Waiting: s.Waiting, Dead: s.Dead, Snoozed: s.Snoozed}
	routes, err := a.Routes(ctx)
	if err != nil && !adminclient.Is(err, "not-found") { // a token of some scopes has none
		return nil, err
	}
	r.Routes = routes.Routes
	for e, err := range a.Trail(operate.AuditQuery{Since: r.Since}).All(ctx) {
		if err != nil {
			return nil, err
		}
		r.Changes[e.Action]++
		r.Who[e.Who]++
	}
	return r, nil
}

// noFigures puts the answer of a gateway that has no figures into words.
func noFigures(a *api, err error) error {
	return absent(err, exitError,
		"%s has no status: it is of an older version; stet keys list --state unknown shows what waits",
		cmp.Or(a.at, "the store"))
}

func (r *report) print(w *world) error {
	requests, prevented := cmp.Or(counted(r.Requests), "none")+since(r.RequestsSince), number(r.Duplicates)
	if r.RequestsSince.IsZero() {
		requests, prevented = "not known: nothing is counted that you may see", ""
	}
	err := pairs(w.stdout, "since", instant(r.Since), "until", instant(r.Until), "requests", requests,
		"duplicates prevented", prevented, "changes", cmp.Or(counted(r.Changes), "none"), "by", counted(r.Who),
		"unknown now", unknowns(r.Unread, r.Unknown, r.Dead, r.Snoozed))
	if len(r.Routes) == 0 {
		return err
	}
	unprotected := 0
	for i := range r.Routes {
		unprotected += r.Routes[i].Unprotected + r.Routes[i].Shadow.Requests() - r.Routes[i].Shadow["bypass"]
	}
	hint := ifTrue(unprotected > 0, ", shadow mode included; stet explain unprotected-routes says what to do")
	fmt.Fprintf(w.stdout, "\nroutes since the gateways began: %s that may change state ran unprotected"+
		"%s\n", cmp.Or(some(unprotected, "request"), "no request"), hint)
	return routeList.rows(w, r.Routes, &printed{})
}

// counted is a list of numbers with what they count, the largest first.
func counted(all map[string]int) string {
	return ranked(all, func(n int, what string) string { return fmt.Sprintf("%d %s", n, what) })
}

// ranked is a list of what text says of each number and of what it counts, the largest first.
func ranked(all map[string]int, text func(n int, what string) string) string {
	var parts []string
	for _, what := range slices.SortedFunc(maps.Keys(all),
		func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) }) {
		parts = append(parts, text(all[what], what))
	}
	return strings.Join(parts, ", ")
}
