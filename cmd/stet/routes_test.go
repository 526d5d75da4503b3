package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
)

// asked returns a document of the admin API.
func asked[T any](r *reloading, path string) (doc T) {
	r.t.Helper()
	res, err := http.Get(r.admin + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %d, %v", path, res.StatusCode, err)
	}
	return doc
}

// A gateway tells what it has answered, and how its store is; another process that looks at its
// store knows of it.
func TestGatewayTellsItsFigures(t *testing.T) {
	t.Chdir(t.TempDir())
	text := "scope: { single_tenant: true }\nstore: { dsn: 'sqlite:stet.db' }\nadmin: { title: eu-1 }\nroutes:\n  - { match: POST /x, mode: required }\n"
	r := newReloading(t, creating(t), text)
	for _, key := range []string{"first-7b1c42e9", "first-7b1c42e9", "other-7b1c42e9"} {
		if got := r.post(key, "{}"); got != http.StatusCreated {
			t.Fatal(got)
		}
	}
	r.post("first-7b1c42e9", "[]") // another request
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.listen+"/y", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.status(http.DefaultClient.Do(req))
	var routes []operate.RouteFigures
	until(t, "the figures are told", func() bool {
		routes = asked[struct{ Routes []operate.RouteFigures }](r, "/api/v1/routes").Routes
		return routes[0].Mismatches == 1 && routes[1].Unprotected == 1
	})
	if x := routes[0]; x.Match != "POST /x" || x.Mode != "required" || x.Results["new"] != 2 || x.Results["replay"] != 1 ||
		x.Results["conflict"] != 1 {
		t.Errorf("%+v", x)
	}
	s := asked[operate.Status](r, "/api/v1/status")
	if s.Title != "eu-1" || !s.Store.OK || !strings.HasPrefix(s.Store.Name, "sqlite:") || s.Store.P99MS <= 0 ||
		s.Cache == nil || !s.Cache.OK || len(s.Warnings) != 0 {
		t.Errorf("%+v, %+v, %+v", s, s.Store, s.Cache)
	}
	if len(s.Gateways) != 1 || s.Gateways[0].State != "ready" || s.Gateways[0].Name == "" {
		t.Errorf("%+v", s.Gateways)
	}
	local, err := (&source{Store: "sqlite:stet.db"}).open(&world{ctx: t.Context(), given: map[string]bool{},
		stderr: r.log})
	if err != nil {
		t.Fatal(err)
	}
	defer local.close()
	until(t, "the figures are in the store", func() bool {
		var doc struct{ Gateways []operate.Gateway }
		if err := local.Get(t.Context(), "/api/v1/gateways", &doc); err != nil {
			t.Fatal(err)
		}
		if s := asked[operate.Status](r, "/api/v1/status"); len(s.Gateways) != 1 || len(doc.Gateways) != 1 || doc.Gateways[0].Name != s.Gateways[0].Name {
			return false // it has no record yet, and no name
		}
		return doc.Gateways[0].State == "ready"
	})
}

// What the file says and a restart would bring is told until the restart.
func TestPendingSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	const text = "scope: { single_tenant: true }\nstore: { dsn: 'memory:' }\n"
	r := newReloading(t, creating(t), text)
	of := func(path string) (s admin.Setting) {
		for _, s := range asked[struct{ Settings []admin.Setting }](r, "/api/v1/config").Settings {
			if s.Path == path {
				return s
			}
		}
		return s
	}
	if s := of("store.dsn"); !strings.Contains(s.Value, "memory:") || s.Pending != "" ||
		!strings.HasPrefix(s.Origin, "stet.yaml:2") {
		t.Errorf("%+v", s)
	}
	r.reload(strings.Replace(text, "memory:", "memory:?max_keys=7", 1) + "log_level: warn\nadmin: { title: eu-2 }\n")
	if s := of("store.dsn"); !strings.Contains(s.Pending, "max_keys=7") || strings.Contains(s.Value, "max_keys") {
		t.Errorf("%+v", s)
	}
	if s := of("log_level"); s.Value != "warn" || s.Pending != "" {
		t.Errorf("%+v", s)
	}
	s := asked[operate.Status](r, "/api/v1/status")
	if s.Title != "eu-2" || len(s.Warnings) != 1 || s.Warnings[0].Code != "restart-pending" ||
		!strings.Contains(s.Warnings[0].Text, "store.dsn") {
		t.Errorf("%+v", s)
	}
	r.reload("{") // nonsense changes nothing
	if s := of("store.dsn"); s.Pending == "" {
		t.Errorf("%+v", s)
	}
	if r.reload(text); of("store.dsn").Pending != "" || len(asked[operate.Status](r, "/api/v1/status").Warnings) != 0 {
		t.Errorf("%+v", of("store.dsn"))
	}
}
