package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// counted is what a board would tell.
func counted(context.Context) admin.Figures {
	f := admin.Figures{At: noon, Gateways: []admin.Gateway{{Name: "gw-1:1", State: "ready", SeenAt: noon}},
		Hour:   []admin.Series{{Result: "new", Step: 15, PerSecond: []float64{1}}},
		Day:    []admin.Series{{Result: "new", Step: 900, PerSecond: []float64{2}}},
		Routes: []admin.RouteFigures{{Route: "gone", Results: map[string]int{"new": 1}}, {Route: "pay", Results: map[string]int{"new": 5}, Unprotected: 2}}}
	for i := range 30 {
		f.Scopes = append(f.Scopes, admin.ScopeFigures{Scope: fmt.Sprint("shop-", i), Results: map[string]int{"new": 30 - i}})
	}
	f.Scopes = append(f.Scopes, admin.ScopeFigures{Scope: "acme", Results: map[string]int{"new": 1}})
	return f
}

// told has all that a handler can be told.
func told() admin.Config {
	return admin.Config{Title: "production eu-1", TraceURL: "https://traces.example/{trace_id}", Figures: counted,
		Health: func() (admin.Health, *admin.Health) {
			return admin.Health{Name: "postgres", OK: true, P99MS: 4}, &admin.Health{Name: "cache", Why: "away"}
		},
		Warnings: func() []admin.Warning { return []admin.Warning{{Code: "single-tenant"}} },
		Settings: func() []admin.Setting { return []admin.Setting{{Path: "listen", Value: ":8080", Origin: "default"}} },
		Policy: func() admin.Policy {
			return admin.Policy{Routes: []admin.Route{{Match: "POST /pay", Config: stethttp.Config{Route: "pay", Mode: stethttp.ModeRequired}},
				{Config: stethttp.Config{Route: "default"}}}}
		},
		Tokens: only(admin.NewToken("all", "token-of-all", admin.Viewer), scoped(admin.NewToken("one", "token-of-acme", admin.Admin), "acme")),
		Outbox: newShelf()}
}

// read returns a document, which has no null.
func read[T any](d *desk, path string) (doc T) {
	d.Helper()
	res, body := d.get(path)
	if err := json.Unmarshal([]byte(body), &doc); err != nil || res.StatusCode != 200 || strings.Contains(body, "null") {
		d.Fatalf("%s: %d %s", path, res.StatusCode, body)
	}
	return doc
}

func TestStatus(t *testing.T) {
	d := newDesk(t, told(), nil)
	d.token = "token-of-all"
	s := read[admin.Status](d, "/api/v1/status")
	if s.Title != "production eu-1" || s.TraceURL == "" || !s.At.Equal(noon) || s.Store.Name != "postgres" || s.Cache.Why != "away" ||
		*s.OutboxDead != 3 || len(s.Gateways) != 1 || len(s.Warnings) != 1 || s.Series[0].PerSecond[0] != 1 {
		t.Errorf("%+v", s)
	}
	if s = read[admin.Status](d, "/api/v1/status?span=day"); s.Series[0].Step != 900 {
		t.Errorf("%+v", s.Series)
	}
	for _, query := range []string{"span=week", "x=1"} {
		d.refused("/api/v1/status?"+query, 400, "bad-parameter")
	}
	for _, path := range []string{"gateways", "routes", "scopes", "config"} {
		d.refused("/api/v1/"+path+"?x=1", 400, "bad-parameter")
	}
}

// Without a gateway's measurements, the store is asked, and there is a status even if it does not
// answer.
func TestStatusOfAStore(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	if s := read[admin.Status](d, "/api/v1/status"); !s.Store.OK || s.Unread || s.OutboxDead != nil || s.At.IsZero() {
		t.Errorf("%+v", s)
	}
	for _, path := range []string{"gateways", "routes", "scopes", "config"} {
		d.refused("/api/v1/"+path, 404, "not-found")
	}
	d = newDesk(t, admin.Config{}, failing{memstore.New(memstore.Config{})})
	if s := read[admin.Status](d, "/api/v1/status"); s.Store.OK || s.Store.Why == "" || !s.Unread {
		t.Errorf("%+v", s)
	}
	d = newDesk(t, admin.Config{}, struct{ stet.Store }{memstore.New(memstore.Config{})}) // which cannot list
	if s := read[admin.Status](d, "/api/v1/status"); !s.Store.OK || !s.Unread {
		t.Errorf("%+v", s)
	}
}

func TestFigures(t *testing.T) {
	d := newDesk(t, told(), nil)
	d.token = "token-of-all"
	if g := read[struct{ Gateways []admin.Gateway }](d, "/api/v1/gateways").Gateways; len(g) != 1 || g[0].Name != "gw-1:1" {
		t.Errorf("%+v", g)
	}
	want := []admin.RouteFigures{{Route: "pay", Match: "POST /pay", Mode: "required", Results: map[string]int{"new": 5}, Unprotected: 2},
		{Route: "default", Mode: "by-method", Results: map[string]int{}}, {Route: "gone", Results: map[string]int{"new": 1}}}
	if r := read[struct{ Routes []admin.RouteFigures }](d, "/api/v1/routes").Routes; fmt.Sprint(r) != fmt.Sprint(want) {
		t.Errorf("%+v", r)
	}
	if s := read[struct{ Scopes []admin.ScopeFigures }](d, "/api/v1/scopes").Scopes; len(s) != 20 || s[0].Scope != "shop-0" {
		t.Errorf("%+v", s)
	}
	if s := read[struct{ Settings []admin.Setting }](d, "/api/v1/config").Settings; len(s) != 1 || s[0].Value != ":8080" {
		t.Errorf("%+v", s)
	}
}

// A token that is bound to scopes is told what is of those, and of nothing else.
func TestFiguresOfBoundTokens(t *testing.T) { // D12
	d := newDesk(t, told(), nil)
	d.token = "token-of-acme"
	for _, path := range []string{"gateways", "routes", "config"} {
		d.refused("/api/v1/"+path, 404, "not-found")
	}
	if s := read[struct{ Scopes []admin.ScopeFigures }](d, "/api/v1/scopes").Scopes; len(s) != 1 || s[0].Scope != "acme" {
		t.Errorf("%+v", s)
	}
	s := read[admin.Status](d, "/api/v1/status")
	if len(s.Gateways)+len(s.Series)+len(s.Warnings) > 0 || *s.OutboxDead != 1 || s.More || s.Title == "" || !s.Store.OK {
		t.Errorf("%+v", s)
	}
}

// Others' dead messages hide none of a bound token's own, and where there are very many the status
// says that it has not seen all.
func TestDeadMessagesOfBoundTokens(t *testing.T) { // D12
	for _, c := range []struct {
		others int
		more   bool
	}{{2500, false}, {10_500, true}} {
		config := told()
		s := newShelf()
		config.Outbox = s
		for range c.others {
			m := s.all[1] // of shop
			m.ID = int64(len(s.all) + 1)
			s.all = append(s.all, m)
		}
		m := s.all[2] // of acme
		m.ID = int64(len(s.all) + 1)
		s.all = append(s.all, m)
		d := newDesk(t, config, nil)
		d.token = "token-of-acme"
		want := 2
		if c.more {
			want = 1
		}
		if got := read[admin.Status](d, "/api/v1/status"); *got.OutboxDead != want || got.More != c.more {
			t.Errorf("of %d others: %d, more: %v", c.others, *got.OutboxDead, got.More)
		}
	}
}
