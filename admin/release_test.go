package admin_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/reconcile"
)

// entries are those of the audit trail, the newest first.
type entries struct{ Entries []operate.Entry }

// releasing is a ward with an operator and an admin, and what the next probe finds.
func releasing(t *testing.T) (w *ward, next *reconcile.Finding) {
	t.Helper()
	next = &reconcile.Finding{}
	r := &reconcile.Reconciler{Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) { return *next, nil }}
	w = newWard(t, admin.Config{Config: operate.Config{Reconciler: r, Settle: 5 * time.Minute}, Tokens: only(tokens()...)})
	w.token = "admin-token"
	return w, next
}

// outlook returns what the documents of a record say of its release, which are all the same.
func (w *ward) outlook(key string) operate.Release {
	w.Helper()
	var one operate.Record
	w.ask("GET", "/api/v1/keys/s/"+key, "", 200, &one)
	var all incidents
	w.ask("GET", "/api/v1/incidents", "", 200, &all)
	for _, in := range all.Incidents {
		w.ask("GET", "/api/v1/incidents/"+in.ID, "", 200, &in)
		for _, k := range in.Keys {
			if k.Explanation != nil {
				w.Errorf("a list has sentences about %s: %+v", k.ID, k.Explanation)
			}
			if k.ID == one.ID && *k.Outlook.Release != *one.Outlook.Release {
				w.Errorf("%+v in the incident, and %+v", *k.Outlook.Release, *one.Outlook.Release)
			}
		}
	}
	return *one.Outlook.Release
}

// What a document says of a release is what becomes of one.
func TestReleaseIsAsTheOutlookSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, next := releasing(t)
		began := time.Now().UTC()
		w.unknown("s", "fresh", "", "timeout")
		is := w.outlook("fresh")
		if !strings.HasSuffix(is.Why, " It may be released from "+began.Add(5*time.Minute).Format(time.TimeOnly)+" UTC on.") || is != (operate.Release{Code: "not-settled", Why: is.Why, From: began.Add(5 * time.Minute), Role: "admin", With: "voided"}) {
			t.Errorf("%+v", is)
		}
		w.ask("POST", "/api/v1/keys/s/fresh/release", `{"reason":"x"}`, 409, nil)

		w.unknown("s", "found", "", "timeout")
		*next = reconcile.Finding{Effect: reconcile.Happened}
		w.ask("POST", "/api/v1/keys/s/found/probe", `{}`, 200, nil)
		*next = reconcile.Finding{Effect: reconcile.Missing, Status: 404}
		w.unknown("s", "missing", "", "timeout")
		w.ask("POST", "/api/v1/keys/s/missing/probe", `{}`, 200, nil)
		late := w.unknown("s", "late", "", "lease-lapsed")
		w.probed(late.ID(), time.Hour)
		late.Completed()
		if err := late.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err == nil {
			t.Fatal("it was not too late")
		}
		time.Sleep(5 * time.Minute)
		for _, c := range []struct {
			key  string
			want operate.Release
			code string // of the refusal
		}{
			{"found", operate.Release{Code: "found", Role: "admin", With: "override"}, "contradicted"},
			{"late", operate.Release{Code: "late-answer", Role: "admin", With: "override"}, "contradicted"},
			{"missing", operate.Release{May: true, Many: true, Code: "no-trace", Role: "operator"}, ""},
			{"fresh", operate.Release{May: true, Code: "settled", Role: "operator"}, ""},
		} {
			is := w.outlook(c.key)
			if c.want.Why = is.Why; is != c.want || is.Why == "" {
				t.Errorf("%s: %+v", c.key, is)
			}
			w.token = "operator-token"
			var doc struct{ Code, State string }
			path := "/api/v1/keys/s/" + c.key + "/release"
			if c.code == "" {
				w.ask("POST", path, `{"reason":"x"}`, 200, &doc)
			} else {
				w.ask("POST", path, `{"reason":"x"}`, 409, &doc)
				w.ask("POST", path, `{"reason":"x","override":true}`, 403, nil)
				w.token = "admin-token"
				w.ask("POST", path, `{"reason":"x","override":true}`, 200, &doc)
			}
			if w.token = "admin-token"; c.code == "" && doc.State != "retryable" {
				t.Errorf("%s: %+v", c.key, doc)
			}
			var one operate.Record
			if w.ask("GET", "/api/v1/keys/s/"+c.key, "", 200, &one); one.Outlook.Release != nil {
				t.Errorf("%s is free, and %+v", c.key, one.Outlook.Release)
			}
		}
	})
}

// Before it has settled a key is freed by an admin alone, who has the provider's cancellation as
// evidence, or takes it upon himself.
func TestReleaseOfWhatWasCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := releasing(t)
		w.unknown("s", "k", "", "timeout")
		path := "/api/v1/keys/s/k/release"
		w.token = "operator-token"
		for _, body := range []string{`{"reason":"x","voided":true,"evidence":"can_1"}`, `{"reason":"x","now":true}`, `{"reason":"x","override":true}`} {
			w.ask("POST", path, body, 403, nil)
		}
		w.token = "admin-token"
		for body, parameter := range map[string]string{
			`{"reason":"x","voided":true}`:                                                             "evidence",
			`{"reason":"x","voided":true,"evidence":" "}`:                                              "evidence",
			`{"reason":"x","voided":true,"evidence":"can_1","now":true}`:                               "voided",
			`{"reason":"x","voided":true,"evidence":"can_1","outcome":"not-executed","override":true}`: "voided",
		} {
			var bad struct{ Parameter string }
			if w.ask("POST", path, body, 400, &bad); bad.Parameter != parameter {
				t.Errorf("%s: %s", body, bad.Parameter)
			}
		}
		var bad struct{ Parameter string }
		w.ask("POST", "/api/v1/keys/s/k/resolve", `{"reason":"x","outcome":"completed","status":200,"evidence":"y","voided":true}`, 400, &bad)
		if bad.Parameter != "voided" {
			t.Errorf("%+v", bad)
		}
		var doc operate.Record
		if w.ask("POST", path, `{"reason":"x","voided":true,"evidence":"can_1"}`, 200, &doc); doc.State != "retryable" {
			t.Errorf("%+v", doc)
		}
		var trail entries
		w.ask("GET", "/api/v1/audit?limit=1", "", 200, &trail)
		if e := trail.Entries[0]; e.Action != "release" || e.Who != "ada" || e.Reason != "x" || e.Evidence != "cancelled by the provider: can_1" {
			t.Errorf("%+v", e)
		}

		// Neither a late answer nor a handler at work gives way to it.
		late := w.unknown("s", "late", "", "lease-lapsed")
		w.probed(late.ID(), time.Hour)
		late.Completed()
		if err := late.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err == nil {
			t.Fatal("it was not too late")
		}
		w.ask("POST", "/api/v1/keys/s/late/release", `{"reason":"x","voided":true,"evidence":"can_1"}`, 409, nil)
	})
}

// Many keys are freed before they have settled by an admin alone.
func TestBulkReleaseNowTakesAnAdmin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, admin.Config{Tokens: only(tokens()...)})
		w.Handler = admin.New(w.engine, admin.Config{Config: operate.Config{Jobs: operate.NewJobs()}, Tokens: only(tokens()...)})
		w.unknown("s", "k", "", "timeout")
		order := func(member string) string {
			return `{"action":"release","filter":{"scope":"s"},"expect":1,"reason":"x","` + member + `":true}`
		}
		for token, status := range map[string]int{"operator-token": 403, "admin-token": 202} {
			for _, member := range []string{"now", "override"} {
				w.token = token
				w.ask("POST", "/api/v1/bulk", order(member), status, nil)
			}
		}
	})
}
