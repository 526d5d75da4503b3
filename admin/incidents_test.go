package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

type incidents struct{ Incidents []operate.Incident }

// An incident has the same id for as long as one of its keys is unknown, also while the handlers
// that were given up are still at work.
func TestAnIncidentKeepsItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, admin.Config{Config: operate.Config{Settle: time.Hour}})
		d, err := w.engine.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: "k"}, Route: "POST /v1/charges"})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Claim.Returned(t.Context())
		d.Claim.Overdue("execution-timeout")
		if err := d.Claim.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
		one := func() string {
			t.Helper()
			var all incidents
			w.ask("GET", "/api/v1/incidents", "", 200, &all)
			if len(all.Incidents) != 1 {
				t.Fatalf("%+v", all)
			}
			return all.Incidents[0].ID
		}
		first := one()
		time.Sleep(2 * time.Minute)
		if got := one(); got != first {
			t.Errorf("it was %s, and is %s two minutes later", first, got)
		}
	})
}

// What has the same cause and route and became unknown without a gap is one incident, and stays it,
// whatever is learned of its records.
func TestIncidents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers []func() (reconcile.Finding, error)
		r := &reconcile.Reconciler{Settle: time.Hour, MaxProbes: 20, Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) {
			next := answers[0]
			answers = answers[1:]
			return next()
		}}
		asking := map[string]*operate.Asking{}
		w := newWard(t, admin.Config{Config: operate.Config{Settle: time.Hour, Reconciler: r, Asking: func(_ context.Context, id string, _ time.Time) (*operate.Asking, *operate.Mismatch) {
			return asking[id], nil
		}}, Who: "kim"})
		began := time.Now().UTC()
		var claims []*stet.Claim
		for i := range 5 {
			claims = append(claims, w.unknown("s", fmt.Sprint("k", i), "POST /v1/charges", "lease-lapsed"))
			time.Sleep(10 * time.Second)
		}
		id := func(i int) stet.ID { return claims[i].ID() }
		first := w.head(id(0)).DueAt
		asking[w.engine.Tag(id(0))] = &operate.Asking{Count: 2, LastAt: began}
		asking[w.engine.Tag(id(1))] = &operate.Asking{Count: 3, LastAt: began.Add(time.Second)}
		w.unknown("s", "another cause", "POST /v1/charges", "panic")
		time.Sleep(6 * time.Minute)
		w.unknown("t", "another outage", "POST /v1/charges", "panic")
		w.unknown("s", "another route", "POST /v1/refunds", "lease-lapsed")

		read := func(query string) []operate.Incident {
			t.Helper()
			var all incidents
			w.ask("GET", "/api/v1/incidents"+query, "", 200, &all)
			return all.Incidents
		}
		all := read("")
		if len(all) != 4 || all[0].Count != 5 || all[0].Cause != "lease-lapsed" || all[0].Route != "POST /v1/charges" || all[0].Method != "POST" ||
			all[0].Owner != "host:1" || !all[0].Since.Equal(began) || all[0].Asking != (operate.Asking{Count: 5, LastAt: began.Add(time.Second)}) ||
			!all[0].SettledAt.Equal(began.Add(40*time.Second+time.Hour)) || first.IsZero() || !all[0].NextProbe.Equal(first) || !all[0].FreesAt.After(first) || all[0].More || all[0].Keys != nil {
			t.Fatalf("%+v", all)
		}

		// Probes, a late answer, a snooze and a hand-over later it is the same incident.
		answers = []func() (reconcile.Finding, error){
			func() (reconcile.Finding, error) { return reconcile.Finding{Status: 202}, nil },
			func() (reconcile.Finding, error) {
				return reconcile.Finding{Effect: reconcile.Missing, Status: 404}, nil
			},
			func() (reconcile.Finding, error) { return reconcile.Finding{}, errors.New("refused") },
		}
		for i, n := range []int{2, 1, 0} {
			w.probed(id(n), time.Hour)
			w.ask("POST", "/api/v1/keys/"+w.engine.Tag(id(n))+"/probe", `{}`, []int{200, 200, 502}[i], nil)
		}
		w.probed(id(3), time.Hour)
		claims[3].Completed()
		if err := claims[3].Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err == nil {
			t.Fatal("it was not too late")
		}
		if _, _, err := w.engine.Operator().Probing(t.Context(), w.head(id(4)), stet.Never, &stet.Note{Who: "r", Why: "20 probes"}); err != nil {
			t.Fatal(err)
		}
		w.ask("POST", "/api/v1/keys/"+w.engine.Tag(id(0))+"/snooze", `{"for_s":600,"reason":"x"}`, 200, nil)
		w.ask("POST", "/api/v1/keys/"+w.engine.Tag(id(1))+"/hand", `{"to":"ben"}`, 200, nil)
		time.Sleep(time.Minute)
		in := read("")[0]
		if in.ID != all[0].ID || !in.Since.Equal(began) || in.Count != 5 || in.Snoozed != 1 || in.Late != 1 || in.Dead != 1 || !slices.Equal(in.With, []string{"ben"}) ||
			len(in.Probes) != 3 || in.Probes["pending"] != 1 || in.Probes["missing"] != 1 || in.Probes["silent"] != 1 {
			t.Errorf("%+v, was %+v", in, all[0])
		}

		var one operate.Incident
		w.ask("GET", "/api/v1/incidents/"+in.ID, "", 200, &one)
		var order []string
		for _, k := range one.Keys {
			for i := range claims {
				if w.engine.Tag(id(i)) == k.ID {
					order = append(order, fmt.Sprint(i))
				}
			}
			if k.Outlook == nil || k.Key != "" || k.UnknownSince.Sub(began) < 0 || k.UnknownSince.Sub(began) > 40*time.Second {
				t.Errorf("%+v", k)
			}
		}
		if got := strings.Join(order, ""); got != "32041" { // late, 202, no answer, never asked, no trace
			t.Errorf("those that tell most come first: %s", got)
		}
		w.ask("GET", "/api/v1/incidents/i_0123456789abcdef", "", 404, nil)

		for query, want := range map[string]int{"?scope=t": 1, "?scope=none": 0, "?route=POST+/v1/refunds": 1, "?with=ben": 1, "?with=ada": 0} {
			if got := read(query); len(got) != want {
				t.Errorf("%s: %+v", query, got)
			}
		}
		bens := read("?with=ben")[0]
		if w.ask("GET", "/api/v1/incidents/"+bens.ID, "", 200, &one); bens.Count != 1 || one.ID != in.ID || one.Count != 5 {
			t.Errorf("%+v is of %+v", bens, one)
		}
		w.ask("GET", "/api/v1/incidents?rout=x", "", 400, nil)
		w.ask("POST", "/api/v1/keys/"+w.engine.Tag(id(2))+"/resolve", `{"outcome":"completed","status":201,"reason":"x"}`, 200, nil)
		if got := read("")[0]; got.Count != 4 || got.ID != in.ID {
			t.Errorf("%+v", got)
		}
	})
}

// An outage is one incident, also around a full minute, and so is what a process has left that was
// killed, whose leases end one after another.
func TestAnOutageIsOneIncident(t *testing.T) { // O09
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, admin.Config{})
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 55*time.Second)))
		for i := range 6 {
			w.unknown("s", fmt.Sprint("lapsed", i), "POST /v1/charges", "lease-lapsed")
			w.unknown("s", fmt.Sprint("failed", i), "POST /v1/charges", "upstream-failed")
			time.Sleep(2 * time.Second)
		}
		time.Sleep(time.Hour)
		w.unknown("s", "later", "POST /v1/charges", "lease-lapsed")
		var all incidents
		w.ask("GET", "/api/v1/incidents", "", 200, &all)
		counts := map[string][]int{}
		for _, in := range all.Incidents {
			counts[in.Cause] = append(counts[in.Cause], in.Count)
		}
		if got := fmt.Sprint(counts); got != "map[lease-lapsed:[6 1] upstream-failed:[6]]" {
			t.Error(got)
		}
	})
}

// Two processes that were killed left an incident each. What else failed belongs together whichever
// of them ran it.
func TestIncidentsOfTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		w := &ward{T: t}
		for _, holder := range []string{"host:1", "host:2"} {
			w.engine = must(stet.New(store, stet.Config{Pepper: []byte("pepper"), Holder: holder}))
			for _, cause := range []string{"lease-lapsed", stet.CauseHolderGone, "panic"} {
				w.unknown("s", cause+holder, "", cause)
			}
		}
		w.Handler = admin.New(w.engine, admin.Config{})
		var all incidents
		w.ask("GET", "/api/v1/incidents", "", 200, &all)
		var got []string
		for _, in := range all.Incidents {
			got = append(got, fmt.Sprint(in.Cause, " ", in.Owner, " ", in.Count))
		}
		slices.Sort(got)
		if want := "holder-gone host:1 1, holder-gone host:2 1, lease-lapsed host:1 1, lease-lapsed host:2 1, panic  2"; strings.Join(got, ", ") != want {
			t.Errorf("%q, want %s", got, want)
		}
	})
}

// An incident goes on for as long as its records come within 5 minutes of each other.
func TestAGapEndsAnIncident(t *testing.T) { // O09
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, admin.Config{})
		for i, wait := range []time.Duration{0, 5 * time.Minute, 5 * time.Minute, 5*time.Minute + time.Millisecond, time.Minute} {
			time.Sleep(wait)
			w.unknown("s", fmt.Sprint(i), "", "panic")
		}
		var all incidents
		w.ask("GET", "/api/v1/incidents", "", 200, &all)
		if len(all.Incidents) != 2 || all.Incidents[0].Count != 3 || all.Incidents[1].Count != 2 ||
			all.Incidents[1].Since.Sub(all.Incidents[0].Since) != 15*time.Minute+time.Millisecond {
			t.Errorf("%+v", all.Incidents)
		}
	})
}

// A link to an incident leads to it also after its first record was released and after another
// joined it, and to no other one.
func TestAnIncidentIsFoundByTheIDOfBefore(t *testing.T) { // O09
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, admin.Config{})
		time.Sleep(999 * time.Millisecond) // an id has whole seconds
		list := func(query string) []operate.Incident {
			t.Helper()
			time.Sleep(time.Second) // a reading is shared for as long
			var all incidents
			w.ask("GET", "/api/v1/incidents"+query, "", 200, &all)
			return all.Incidents
		}
		release := func(scope stet.Scope, key string) {
			t.Helper()
			w.ask("POST", "/api/v1/keys/"+w.engine.Tag(stet.ID{Scope: scope, Key: stet.Key(key)})+"/release", `{"reason":"x","now":true}`, 200, nil)
		}
		w.unknown("s", "first", "", "panic")
		before := list("")[0].ID
		time.Sleep(5*time.Minute - time.Second)
		w.unknown("s", "second", "", "panic")
		release("s", "first")
		now := list("")[0]
		var one operate.Incident
		if w.ask("GET", "/api/v1/incidents/"+before, "", 200, &one); now.ID == before || one.ID != now.ID || one.Count != 1 || len(one.Keys) != 1 {
			t.Errorf("%s has become %s, and leads to %+v", before, now.ID, one)
		}
		time.Sleep(4 * time.Minute)
		w.unknown("s", "third", "", "panic")
		time.Sleep(6 * time.Minute)
		w.unknown("s", "another incident", "", "panic")
		if got := list(""); len(got) != 2 || got[0].ID != now.ID {
			t.Errorf("%+v, was %+v", got, now)
		}
		for _, id := range []string{before, now.ID} {
			one = operate.Incident{}
			if w.ask("GET", "/api/v1/incidents/"+id, "", 200, &one); one.ID != now.ID || one.Count != 2 || len(one.Keys) != 2 {
				t.Errorf("%s leads to %+v", id, one)
			}
		}

		// Where what joined two parts is settled it leads to the nearer one.
		for route, middle := range map[string]time.Duration{"A": 3 * time.Minute, "B": 4 * time.Minute} {
			w.unknown("s", route+"early", route, "panic")
			time.Sleep(middle)
			w.unknown("t", route+"middle", route, "panic")
			time.Sleep(7*time.Minute - middle)
			w.unknown("s", route+"late", route, "panic")
			id := list("?scope=t&route=" + route)[0].ID
			release("t", route+"middle")
			parts := list("?route=" + route)
			slices.SortFunc(parts, func(a, b operate.Incident) int { return a.Since.Compare(b.Since) })
			nearer := map[string]int{"A": 0, "B": 1}[route]
			if w.ask("GET", "/api/v1/incidents/"+id, "", 200, &one); len(parts) != 2 || one.ID != parts[nearer].ID {
				t.Errorf("%s: it leads to %+v", route, one)
			}
		}

		release("s", "second")
		if w.ask("GET", "/api/v1/incidents/"+now.ID, "", 200, &one); one.Count != 1 {
			t.Errorf("%+v", one)
		}
		for _, id := range []string{before, "i_00000000" + now.ID[10:], now.ID[:10] + "00000000", now.ID[:10] + "zzzzzzzz", now.ID[:17], now.ID + "0", "x"} {
			w.ask("GET", "/api/v1/incidents/"+id, "", 404, nil)
		}
		release("s", "third")
		w.ask("GET", "/api/v1/incidents/"+now.ID, "", 404, nil)
	})
}

// What was answered about an earlier attempt says nothing of a later one.
func TestAnswersOfEarlierAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reconcile.Reconciler{Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) {
			return reconcile.Finding{Status: 202}, nil
		}}
		w := newWard(t, admin.Config{Config: operate.Config{Reconciler: r}})
		path := "/api/v1/keys/" + w.engine.Tag(w.unknown("s", "k", "", "timeout").ID())
		w.ask("POST", path+"/probe", `{}`, 200, nil)
		w.ask("POST", path+"/release", `{"reason":"x","now":true}`, 200, nil)
		w.probed(w.unknown("s", "k", "", "timeout").ID(), time.Hour)
		var doc operate.Record
		if w.ask("GET", path, "", 200, &doc); doc.Attempt != 2 || doc.Probe != nil {
			t.Errorf("attempt %d: %+v", doc.Attempt, doc.Probe)
		}
		var all incidents
		if w.ask("GET", "/api/v1/incidents", "", 200, &all); len(all.Incidents) != 1 || len(all.Incidents[0].Probes) != 0 {
			t.Errorf("%+v", all)
		}
	})
}

// A probe that gets no answer does not erase what an earlier one found.
func TestFoundBeforeSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		found, away := reconcile.Finding{Effect: reconcile.Happened, Status: 201}, error(nil)
		w := newWard(t, admin.Config{Config: operate.Config{Reconciler: &reconcile.Reconciler{Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) {
			return found, away
		}}}})
		path := "/api/v1/keys/" + w.engine.Tag(w.unknown("s", "k", "", "timeout").ID())
		w.ask("POST", path+"/probe", `{}`, 200, nil)
		if _, err := w.engine.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: "lapsed"}}); err != nil { // its process dies
			t.Fatal(err)
		}
		time.Sleep(w.engine.Policy().Lease)
		w.ask("POST", "/api/v1/keys/s/lapsed/probe", `{}`, 200, nil)
		w.ask("POST", "/api/v1/keys/s/lapsed/release", `{"reason":"x","now":true}`, 409, nil)
		found.Effect = reconcile.Missing
		var asked operate.Probed
		if w.ask("POST", path+"/probe", `{}`, 200, &asked); asked.Outlook.Release.Code != "found" {
			t.Errorf("%+v", asked.Outlook.Release)
		}
		away = errors.New("away")
		w.ask("POST", path+"/probe", `{}`, 502, nil)
		time.Sleep(time.Hour)
		var doc operate.Record
		if w.ask("GET", path, "", 200, &doc); doc.Probe == nil || doc.Probe.Found != "happened" || doc.Outlook.Release.May {
			t.Errorf("%+v, %+v", doc.Probe, doc.Outlook)
		}
		var all incidents
		if w.ask("GET", "/api/v1/incidents", "", 200, &all); len(all.Incidents) != 2 || all.Incidents[0].Probes["happened"] != 1 ||
			all.Incidents[1].Cause != "lease-lapsed" { // what was asked about is noticed
			t.Errorf("%+v", all)
		}
		var refused operate.Problem
		if w.ask("POST", path+"/release", `{"reason":"x"}`, 409, &refused); refused.Code != "contradicted" || !strings.Contains(refused.Title, "probe") {
			t.Errorf("%+v", refused)
		}
		w.ask("POST", path+"/release", `{"reason":"x","override":true}`, 200, nil)
	})
}

// Who is bound to scopes sees the incidents of those.
func TestIncidentsOfScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, many := admin.NewToken("one", "one-token", operate.Viewer), admin.NewToken("many", "many-token", operate.Viewer)
		one.Scopes, many.Scopes = []string{"eu-1"}, []string{"eu-*"}
		w := newWard(t, admin.Config{Tokens: only(one, many)})
		for _, scope := range []stet.Scope{"eu-1", "eu-2", "us-1"} {
			w.unknown(scope, "k", "", "panic")
		}
		for token, want := range map[string]int{"one-token": 1, "many-token": 2} {
			w.token = token
			var all incidents
			if w.ask("GET", "/api/v1/incidents", "", 200, &all); len(all.Incidents) != 1 || all.Incidents[0].Count != want {
				t.Errorf("%s: %+v", token, all.Incidents)
			}
			w.ask("GET", "/api/v1/incidents?scope=us-1", "", 403, nil)
		}
	})
}

// What others have in the way hides nothing of a scope, and no bound reads as if all were well.
func TestIncidentsBehindThoseOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := admin.NewToken("many", "many-token", operate.Viewer)
		many.Scopes = []string{"acme-*"}
		w := newWard(t, admin.Config{Tokens: only(many)})
		w.token = "many-token"
		w.unknown("acme-1", "k", "", "panic")
		for i := range 6100 {
			w.unknown("other", fmt.Sprint(i), "", "panic")
		}
		var s operate.Status
		if w.ask("GET", "/api/v1/status", "", 200, &s); s.Unknown != 1 || s.Waiting != 1 || s.More || len(s.Incidents) != 1 {
			t.Errorf("%d unknown, more %v: %+v", s.Unknown, s.More, s.Incidents)
		}
	})
}

// Of an incident with a record that no time settles it is not said when all have settled; a dead
// letter that is snoozed is counted once among those that do not wait.
func TestIncidentsThatNoTimeSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, admin.Config{})
		w.unknown("s", "k0", "", "lease-lapsed")
		late := w.unknown("s", "k1", "", "lease-lapsed")
		var all incidents
		if w.ask("GET", "/api/v1/incidents", "", 200, &all); all.Incidents[0].SettledAt.IsZero() {
			t.Fatalf("%+v", all)
		}
		w.probed(late.ID(), time.Hour)
		late.Completed()
		if err := late.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err == nil {
			t.Fatal("it was not too late")
		}
		time.Sleep(time.Second) // a reading is shared for as long
		all = incidents{}
		if w.ask("GET", "/api/v1/incidents", "", 200, &all); !all.Incidents[0].SettledAt.IsZero() {
			t.Errorf("%+v", all)
		}
		if _, _, err := w.engine.Operator().Probing(t.Context(), w.head(late.ID()), stet.Never, &stet.Note{Who: "r", Why: "8 probes"}); err != nil {
			t.Fatal(err)
		}
		w.ask("POST", "/api/v1/keys/s/k1/snooze", `{"for_s":60,"reason":"x"}`, 200, nil)
		var s operate.Status
		if w.ask("GET", "/api/v1/status", "", 200, &s); s.Unknown != 2 || s.Dead != 0 || s.Snoozed != 1 || s.Waiting != 1 { // each counts once
			t.Errorf("%+v", s)
		}
	})
}

// Of very many unknown records the latest are grouped, and the answer says that there are more.
func TestIncidentsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, admin.Config{})
		for i := range 6100 {
			w.unknown("s", fmt.Sprint(i), "", "panic")
		}
		var all incidents
		w.ask("GET", "/api/v1/incidents", "", 200, &all)
		if in := all.Incidents[0]; len(all.Incidents) != 1 || in.Count < 5000 || in.Count > 6000 || !in.More {
			t.Errorf("%+v", all.Incidents)
		}
		var one operate.Incident
		if w.ask("GET", "/api/v1/incidents/"+all.Incidents[0].ID, "", 200, &one); len(one.Keys) != 500 {
			t.Errorf("%d keys", len(one.Keys))
		}
		few := operate.Incident{}
		if w.ask("GET", "/api/v1/incidents/"+one.ID+"?keys=2", "", 200, &few); len(few.Keys) != 2 || few.Keys[0].ID != one.Keys[0].ID {
			t.Errorf("%d keys, as two were asked for", len(few.Keys))
		}
		w.ask("GET", "/api/v1/incidents/"+one.ID+"?keys=501", "", 400, nil)
		var other operate.Problem
		if w.ask("GET", "/api/v1/incidents/i_0123456789abcdef", "", 404, &other); other.Code != "not-listed" { // O02: it may be among those not looked at
			t.Errorf("%+v", other)
		}
	})
}
