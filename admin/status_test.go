package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// counted is what a board would tell.
func counted(context.Context) operate.Figures {
	return operate.Figures{At: noon, Gateways: []operate.Gateway{{Name: "gw-1:1", State: "ready", SeenAt: noon}},
		Since: noon.Add(-time.Hour), Results: operate.Results{"new": 6},
		Routes: []operate.RouteFigures{{Route: "gone", Results: map[string]int{"new": 1}}, {Route: "pay", Results: map[string]int{"new": 5}, Unprotected: 2}}}
}

// told has all that a handler can be told.
func told() admin.Config {
	return admin.Config{
		Config: operate.Config{Title: "production eu-1", TraceURL: "https://traces.example/{trace_id}", Figures: counted, Outbox: newShelf(),
			Health: func() (operate.Health, *operate.Health) {
				return operate.Health{Name: "postgres", OK: true, P99MS: 4}, &operate.Health{Name: "cache", Why: "away"}
			},
			Upstream: func() *operate.Health { return &operate.Health{Name: "api:3000", Why: "no connection"} },
			Warnings: func() []operate.Warning { return []operate.Warning{{Code: "single-tenant"}} }},
		Settings: func() []admin.Setting { return []admin.Setting{{Path: "listen", Value: ":8080", Origin: "default"}} },
		Policy: func() admin.Policy {
			return admin.Policy{Routes: []admin.Route{{Match: "POST /pay", Config: stethttp.Config{Route: "pay", Mode: stethttp.ModeRequired}},
				{Config: stethttp.Config{Route: "default"}}}}
		},
		Tokens: only(admin.NewToken("all", "token-of-all", operate.Viewer), scoped(admin.NewToken("one", "token-of-acme", operate.Admin), "acme"))}
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
	s := read[operate.Status](d, "/api/v1/status")
	if s.Title != "production eu-1" || s.TraceURL == "" || !s.At.Equal(noon) || s.Store.Name != "postgres" || s.Cache.Why != "away" || s.Upstream == nil || s.Upstream.Name != "api:3000" || s.Upstream.OK ||
		*s.OutboxDead != 3 || len(s.Gateways) != 1 || len(s.Warnings) != 1 || s.Requests["new"] != 6 || !s.RequestsSince.Equal(noon.Add(-time.Hour)) {
		t.Errorf("%+v", s)
	}
	for _, path := range []string{"status", "gateways", "routes", "config"} {
		d.refused("/api/v1/"+path+"?x=1", 400, "bad-parameter")
	}
}

// An outbox that cannot be read hides nothing else.
func TestStatusWithoutTheOutbox(t *testing.T) { // Y7
	s := newShelf()
	s.err = errors.New("the pool is busy")
	d := newDesk(t, admin.Config{Config: operate.Config{Outbox: s}}, nil)
	d.put("s", "lost", unknown)
	got := read[operate.Status](d, "/api/v1/status")
	if got.Unknown != 1 || got.Unread || len(got.Incidents) != 1 || got.OutboxDead != nil || !got.OutboxUnread {
		t.Errorf("%+v", got)
	}
	d = newDesk(t, admin.Config{Config: operate.Config{Outbox: newShelf()}}, failing{memstore.New(memstore.Config{})})
	if got := read[operate.Status](d, "/api/v1/status"); got.OutboxDead != nil || !got.OutboxUnread || !got.Unread {
		t.Errorf("%+v", got)
	}
}

// Without a gateway's measurements, the store is asked, and there is a status even if it does not
// answer.
func TestStatusOfAStore(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	if s := read[operate.Status](d, "/api/v1/status"); !s.Store.OK || s.Unread || s.OutboxDead != nil || s.At.IsZero() {
		t.Errorf("%+v", s)
	}
	for _, path := range []string{"gateways", "routes", "config"} {
		d.refused("/api/v1/"+path, 404, "not-found")
	}
	d = newDesk(t, admin.Config{}, failing{memstore.New(memstore.Config{})})
	if s := read[operate.Status](d, "/api/v1/status"); s.Store.OK || s.Store.Why == "" || !s.Unread {
		t.Errorf("%+v", s)
	}
	d = newDesk(t, admin.Config{}, struct{ stet.Store }{memstore.New(memstore.Config{})}) // which cannot list
	if s := read[operate.Status](d, "/api/v1/status"); !s.Store.OK || !s.Unread {
		t.Errorf("%+v", s)
	}
}

// A double effect is in the status until a person has noted it, in each list by its cause, and in
// the audit trail. Only those see it who may see its scope.
func TestDoubleEffectInTheStatus(t *testing.T) { // K03c
	config := told()
	config.Tokens = append(config.Tokens, admin.NewToken("kim", "token-of-kim", operate.Admin),
		scoped(admin.NewToken("two", "token-of-two", operate.Admin), "acme", "globex"))
	d := newDesk(t, config, nil)
	d.token = "token-of-kim"
	id := stet.ID{Scope: "shop", Key: "twice"}
	if err := execution.Double(t.Context(), d.engine, id); err != nil {
		t.Fatal(err)
	}
	tag := d.engine.Tag(id)
	s := read[operate.Status](d, "/api/v1/status")
	if len(s.Double) != 1 || s.Double[0].ID != tag || s.Double[0].Scope != "shop" || !strings.Contains(s.Double[0].Evidence, "attempt 1 was answered 201, with 5 bytes, says host:1") {
		t.Fatalf("%+v", s.Double)
	}
	list := read[struct{ Keys []operate.Record }](d, "/api/v1/keys?cause=double-effect").Keys
	if len(list) != 1 || list[0].ID != tag || list[0].Cause != "double-effect" || list[0].State != "completed" {
		t.Errorf("%+v", list)
	}
	if r := read[operate.Record](d, "/api/v1/keys/"+tag); r.Cause != "double-effect" || r.Outlook.Client.Status != 201 {
		t.Errorf("%+v", r)
	}
	trail := read[struct{ Entries []operate.Entry }](d, "/api/v1/audit?action=double-effect").Entries
	if len(trail) != 1 || trail[0].ID != tag || trail[0].Who != "stet" || trail[0].From != "completed" || trail[0].To != "completed" {
		t.Errorf("%+v", trail)
	}
	for _, d.token = range []string{"token-of-acme", "token-of-two"} {
		if s := read[operate.Status](d, "/api/v1/status"); len(s.Double) > 0 {
			t.Errorf("of another scope: %+v", s.Double)
		}
	}
	d.token = "token-of-kim"
	if status, body := d.change("POST", "/api/v1/keys/"+tag+"/note", `{"reason":"refunded re_17"}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if s := read[operate.Status](d, "/api/v1/status"); len(s.Double) > 0 {
		t.Errorf("noted, and still told: %+v", s.Double)
	}
}

// What only this process knows is in its status.
func TestUnstoredInTheStatus(t *testing.T) { // K03
	store := faulty.New(memstore.New(memstore.Config{}), 1)
	d := newDeskWithin(t, admin.Config{}, store, 2*time.Second)
	if s := read[operate.Status](d, "/api/v1/status"); s.Unstored != nil {
		t.Errorf("%+v", s.Unstored)
	}
	q, err := d.engine.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	store.FailComplete(true)
	if err := q.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err == nil {
		t.Error("it is stored")
	}
	if s := read[operate.Status](d, "/api/v1/status"); s.Unstored == nil || s.Unstored.Entries != 1 || s.Unstored.Bytes == 0 {
		t.Errorf("%+v", s.Unstored)
	}
	store.FailComplete(false)
	if err := d.engine.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if s := read[operate.Status](d, "/api/v1/status"); s.Unstored != nil {
		t.Errorf("stored, and still told: %+v", s.Unstored)
	}
}

func TestFigures(t *testing.T) {
	d := newDesk(t, told(), nil)
	d.token = "token-of-all"
	if g := read[struct{ Gateways []operate.Gateway }](d, "/api/v1/gateways").Gateways; len(g) != 1 || g[0].Name != "gw-1:1" {
		t.Errorf("%+v", g)
	}
	want := []operate.RouteFigures{{Route: "pay", Match: "POST /pay", Mode: "required", Results: map[string]int{"new": 5}, Unprotected: 2},
		{Route: "default", Mode: "by-method", Results: map[string]int{}}, {Route: "gone", Results: map[string]int{"new": 1}}}
	if r := read[struct{ Routes []operate.RouteFigures }](d, "/api/v1/routes").Routes; fmt.Sprint(r) != fmt.Sprint(want) {
		t.Errorf("%+v", r)
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
	s := read[operate.Status](d, "/api/v1/status")
	if len(s.Gateways)+len(s.Requests)+len(s.Warnings) > 0 || s.Upstream != nil || *s.OutboxDead != 1 || s.More || s.Title == "" || !s.Store.OK {
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
		if got := read[operate.Status](d, "/api/v1/status"); *got.OutboxDead != want || got.More != c.more {
			t.Errorf("of %d others: %d, more: %v", c.others, *got.OutboxDead, got.More)
		}
	}
}
