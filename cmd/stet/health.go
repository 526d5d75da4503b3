package main

import (
	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/tierstore"
)

// told is what operators are told of the configuration in force.
type told struct {
	settings []admin.Setting
	warnings []operate.Warning
}

// tell makes it.
func (a *app) tell() {
	t := &told{settings: a.conf.Settings(a.waiting)}
	for _, w := range a.conf.Warnings() {
		code := "files"
		if w.Path == "scope" {
			code = "single-tenant"
		}
		t.warnings = append(t.warnings, warned(code, w.Text))
	}
	if len(a.waiting) > 0 {
		t.warnings = append(t.warnings, warned("restart-pending",
			"The file has other values than are in force: "+paths(a.waiting)+"."))
	}
	a.told.Store(t)
}

// health says how store and cache answer this gateway.
func (a *app) health() (store operate.Health, cache *operate.Health) {
	p50, p99, failing := a.metrics.StoreCalls()
	store = operate.Health{Name: storeName(a.started), P50MS: p50.Seconds() * 1e3, P99MS: p99.Seconds() * 1e3}
	breaker, guarded := stet.As[*breakerstore.Store](a.store.Store)
	switch lost := a.watch.unready(); {
	case lost != "":
		store.Why = lost
	case guarded && breaker.State() != breakerstore.Closed:
		store.Why = "its circuit breaker is " + breaker.State().String()
	case failing:
		store.Why = "most calls of the last minute failed"
	}
	store.OK = store.Why == ""
	if tier, ok := stet.As[*tierstore.Store](a.store.Store); ok {
		paused := tier.Paused()
		cache = &operate.Health{Name: "cache", OK: !paused,
			Why: ifTrue(paused, "it failed just now, and is left alone for a moment")}
	}
	return store, cache
}

// upstream says whether the API can be connected to, as this gateway's requests have found; nil if
// none has since the start, or the last reload.
func (a *app) upstream() *operate.Health {
	g := a.gate.Load()
	if g == nil {
		return nil
	}
	u := g.UpstreamState()
	if !u.Known {
		return nil
	}
	h := &operate.Health{Name: u.Address, OK: u.DownSince.IsZero()}
	h.Why = ifTrue(!h.OK, "no connection to it has come about since "+instant(u.DownSince))
	return h
}
