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

// What is known of a record already ends it as it is known: a late answer of which the status alone
// was kept does not become an empty one.
func TestResolveAsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found reconcile.Finding
		r := &reconcile.Reconciler{Settle: time.Hour, MaxProbes: 20, Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) { return found, nil }}
		w := newWard(t, admin.Config{Config: operate.Config{Settle: time.Hour, Reconciler: r}})
		late := func(key string, o stet.Outcome) stet.ID {
			c := w.unknown("s", key, "", "lease-lapsed")
			w.probed(c.ID(), time.Hour)
			c.Completed()
			if err := c.Settle(t.Context(), o); err == nil {
				t.Fatal("it was not too late")
			}
			return c.ID()
		}
		answer := stet.Response{Status: 201, Body: []byte("ch_1"), Header: []stet.Field{{Name: "X-A", Value: "b"}}}
		whole := late("whole", stet.Outcome{Response: answer})
		head := late("head", stet.Outcome{Response: stet.Response{Status: 202, Header: answer.Header}, Size: 1 << 20, Kept: stet.KeptHeader})
		short := late("short", stet.Outcome{Response: stet.Response{Status: 203}, Size: 1 << 20, Kept: stet.KeptStatus})
		asked := w.unknown("s", "asked", "", "timeout").ID()
		path := func(id stet.ID) string { return "/api/v1/keys/" + w.engine.Tag(id) }
		const asLate, asProbe = `{"as":"late-answer","reason":"x","evidence":"ch_1"}`, `{"as":"last-probe","reason":"x"}`

		var p struct{ Code, Parameter string }
		refused := func(id stet.ID, body string, status int, want string) {
			t.Helper()
			if w.ask("POST", path(id)+"/resolve", body, status, &p); p.Code != want && p.Parameter != want {
				t.Errorf("%s: %+v, want %s", body, p, want)
			}
		}
		refused(asked, asLate, 409, "no-answer")
		refused(whole, asProbe, 409, "no-answer")
		for _, found = range []reconcile.Finding{{}, {Effect: reconcile.Missing, Status: 404}} {
			w.ask("POST", path(asked)+"/probe", `{}`, 200, nil)
			refused(asked, asProbe, 409, "no-answer")
		}
		for _, more := range []string{`"outcome":"completed"`, `"status":200`, `"body":""`, `"voided":true`, `"override":true`} {
			refused(whole, strings.Replace(asLate, "{", "{"+more+",", 1), 400, "as")
		}
		refused(whole, `{"as":"late","reason":"x"}`, 400, "as")
		w.ask("POST", path(whole)+"/release", asLate, 400, nil)

		found = reconcile.Finding{Effect: reconcile.Happened, Status: 204}
		w.ask("POST", path(asked)+"/probe", `{}`, 200, nil)
		for _, c := range []struct {
			id     stet.ID
			body   string
			status int
			kept   stet.Kept
			says   string
		}{
			{whole, asLate, 201, stet.KeptWhole, "ch_1; the answer is the one that came too late"},
			{head, asLate, 202, stet.KeptHeader, "ch_1; the answer is the one that came too late"},
			{short, asLate, 203, stet.KeptStatus, "ch_1; the answer is the one that came too late"},
			{asked, asProbe, 204, stet.KeptWhole, "its last probe: happened, status 204"},
		} {
			w.ask("POST", path(c.id)+"/resolve", c.body, 200, nil)
			rec := must(w.engine.Get(t.Context(), c.id))
			if rec.State != stet.Completed || rec.Status != c.status || rec.Kept != c.kept || !strings.HasPrefix(rec.Note.Evidence, c.says) ||
				c.id == whole && string(rec.Response.Body) != "ch_1" || c.id == head && len(rec.Response.Header) != 1 {
				t.Errorf("%s: %+v %+v", c.id.Scope, rec.Head, rec.Response)
			}
		}
		refused(whole, asLate, 409, "state-changed")
	})
}
