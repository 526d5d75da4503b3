package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/outbox"
)

// documents answers as the admin API does, each path with a document.
func documents(t *testing.T, byPath map[string]any) (url string) {
	return plain(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(admin.Marker, "1")
		doc, ok := byPath[r.URL.RequestURI()]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"not-found"}`)
			return
		}
		_ = json.NewEncoder(w).Encode(doc) // the client is gone
	}))
}

// ran runs a command, and returns its status and what it prints.
func ran(t *testing.T, args ...string) (status exit, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, nil, &out, &errs)
	return status, out.String(), errs.String()
}

func aStatus() operate.Status {
	at := time.Date(2026, 11, 21, 8, 40, 0, 0, time.UTC)
	dead := 1
	return operate.Status{Title: "payments", At: at, Unknown: 14, Dead: 2, Snoozed: 3, Waiting: 9,
		OldestUnknown: at.Add(-13 * time.Minute), OutboxDead: &dead,
		Store: operate.Health{Name: "postgres", OK: true, P50MS: 0.84, P99MS: 4},
		Cache: &operate.Health{Name: "cache", Why: "it failed just now"},
		Gateways: []operate.Gateway{{Name: "gw-1:1", State: "ready", SeenAt: at, PerSecond: 120.5},
			{Name: "gw-2:7", State: "gone", SeenAt: at.Add(-2 * time.Minute)}},
		Requests: operate.Results{"new": 9120, "replay": 30, "conflict": 9}, RequestsSince: at.Add(-time.Hour),
		Incidents: []operate.Incident{{ID: "i1", Cause: "lease-lapsed", Route: "POST /v1/pay", Owner: "gw-2:7",
			Since: at.Add(-13 * time.Minute), Count: 12, Dead: 2,
			Asking: operate.Asking{Count: 40}, With: []string{"ben"}}},
		Warnings: []operate.Warning{{Code: "single-tenant", Text: "No scope is set.", Mend: "Set scope."}}}
}

// One screen says what waits, how the parts are, and what is wrong; the exit status is 6 for what
// --fail-on names.
func TestStatus(t *testing.T) {
	at := documents(t, map[string]any{"/api/v1/status": aStatus()})
	status, screen, text := ran(t, "status", "--admin", at)
	if status != exitFindings || text != "stet: to be looked at: 9 unknown outcomes, 2 dead letters, 1 dead message\n" {
		t.Errorf("%d %q", status, text)
	}
	want := `title      payments
at         2026-11-21T08:40:00Z
unknown    14, 2 dead letters, 3 snoozed; the oldest that waits since 2026-11-21T08:27:00Z
outbox     1 dead message
store      postgres: ok, p50 0.8 ms, p99 4.0 ms
cache      cache: it failed just now
gateways   1 of 2 ready; gw-2:7 gone since 2026-11-21T08:38:00Z
requests   120/s; 9120 new, 30 replay, 9 conflict since 2026-11-21T07:40:00Z

INCIDENT  SINCE                 COUNT  CAUSE         ROUTE         OWNER   DEAD  ASKING  SETTLED  WITH
i1        2026-11-21T08:27:00Z  12     lease-lapsed  POST /v1/pay  gw-2:7  2     40      -        ben

single-tenant: No scope is set.
  → Set scope.

next: stet incidents show i1 --admin ` + at + `
`
	if strings.ReplaceAll(screen, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("it prints\n%s\nwant\n%s", screen, want)
	}
	for on, want := range map[string]exit{"none": exitFine, "dead": exitFindings, "store": exitFine,
		"gateways": exitFindings, "warnings": exitFindings, "dead,none": exitFindings, "nothing": exitUsage} {
		if status, _, text := ran(t, "status", "--admin", at, "--fail-on", on); status != want {
			t.Errorf("--fail-on %s: %d %s", on, status, text)
		}
	}
	status, doc, _ := ran(t, "status", "--admin", at, "--fail-on", "none", "--json")
	var s operate.Status
	if err := json.Unmarshal([]byte(doc), &s); status != exitFine || err != nil || s.Unknown != 14 ||
		s.Incidents[0].ID != "i1" {
		t.Errorf("%d %v %s", status, err, doc)
	}
	well := operate.Status{At: time.Now(), Store: operate.Health{OK: true}}
	if status, screen, text := ran(t, "status", "--admin",
		documents(t, map[string]any{"/api/v1/status": well})); status != exitFine || !strings.Contains(screen, "none") {
		t.Errorf("all is well: %d %s%s", status, screen, text)
	}
	if status, _, text := ran(t, "status", "--admin", documents(t, nil)); status != exitError ||
		!strings.Contains(text, "it is of an older version") {
		t.Errorf("an older gateway: %d %s", status, text)
	}
}

// A double effect is told first, and ends with 6; what is not stored yet does if it is asked for.
func TestStatusOfADoubleEffect(t *testing.T) { // K03c
	s := operate.Status{At: time.Now(), Store: operate.Health{OK: true}, Unstored: &operate.Unstored{Entries: 2, Bytes: 4096},
		Double: []operate.Entry{{ID: "k_0123456789abcdef", Scope: "acme", Evidence: "attempt 1 was answered 201, with 5 bytes, says gw-1:7"}}}
	at := documents(t, map[string]any{"/api/v1/status": s})
	status, screen, text := ran(t, "status", "--admin", at)
	if status != exitFindings || text != "stet: to be looked at: 1 double effect\n" {
		t.Errorf("%d %q", status, text)
	}
	for _, want := range []string{"EXECUTED TWICE: 1 key; the last: k_0123456789abcdef of scope acme, attempt 1 was answered 201",
		"2 outcomes that the store has not taken, 4096 bytes: do not kill the gateway",
		"next: stet keys show k_0123456789abcdef --admin " + at + ", and stet explain double-effect"} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q in\n%s", want, screen)
		}
	}
	if status, _, _ := ran(t, "status", "--admin", at, "--fail-on", "unstored"); status != exitFindings {
		t.Errorf("--fail-on unstored: %d", status)
	}
	s.Double = nil
	if status, _, text := ran(t, "status", "--admin", documents(t, map[string]any{"/api/v1/status": s})); status != exitFine {
		t.Errorf("%d %q", status, text)
	}
}

// The same on a store: each command shows it, and a note ends it.
func TestDoubleEffectOnAStore(t *testing.T) { // K03c
	t.Chdir(t.TempDir())
	const store = "sqlite:stet.db"
	d, err := dsn.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(t.Context(), dsn.Serve)
	if err != nil {
		t.Fatal(err)
	}
	e, err := stet.New(s, stet.Config{})
	if err == nil {
		err = execution.Double(t.Context(), e, stet.ID{Scope: "acme", Key: "twice"})
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	tag := e.Tag(stet.ID{Scope: "acme", Key: "twice"})
	for _, c := range []struct {
		args   []string
		status exit
		want   string
	}{
		{[]string{"status"}, exitFindings, "EXECUTED TWICE: 1 key; the last: " + tag},
		{[]string{"keys", "list", "--cause", "double-effect"}, exitFine, tag},
		{[]string{"keys", "show", tag}, exitFine, "double-effect"},
		{[]string{"audit", "list", "--action", "double-effect"}, exitFine, tag},
		{[]string{"keys", "note", tag, "--reason", "refunded re_17"}, exitFine, ""},
		{[]string{"status"}, exitFine, "none"},
	} {
		status, out, errs := ran(t, append(c.args, "--store", store)...)
		if status != c.status || !strings.Contains(out, c.want) {
			t.Errorf("%q: %d\n%s%s", c.args, status, out, errs)
		}
	}
}

// Counts that could not be read are not nothing: the screen says so, and needs a person.
func TestStatusOfRecordsThatCannotBeRead(t *testing.T) {
	s := operate.Status{Unread: true, Store: operate.Health{OK: true}}
	at := documents(t, map[string]any{"/api/v1/status": s})
	status, screen, text := ran(t, "status", "--admin", at)
	if status != exitFindings || !strings.Contains(screen, "not known: the records could not be read") ||
		strings.Contains(screen, "none") || !strings.Contains(text, "unknown outcomes, which could not be read") {
		t.Errorf("%d %s%s", status, screen, text)
	}
	s = operate.Status{OutboxUnread: true, Store: operate.Health{OK: true}}
	at = documents(t, map[string]any{"/api/v1/status": s})
	status, screen, text = ran(t, "status", "--admin", at)
	if status != exitFindings || !strings.Contains(screen, "outbox   not known: it could not be read") || !strings.Contains(text, "the outbox could not be read") {
		t.Errorf("%d %s%s", status, screen, text)
	}
	if r := (&report{Unread: true}); !strings.Contains(unknowns(r.Unread, 0, 0, 0), "not known") {
		t.Error("the report says that there are none")
	}
}

// A store that is sick needs a person as well.
func TestStatusOfASickStore(t *testing.T) {
	s := operate.Status{Store: operate.Health{Name: "redis", Why: "its circuit breaker is open"}}
	status, screen, text := ran(t, "status", "--admin", documents(t, map[string]any{"/api/v1/status": s}))
	if status != exitFindings || !strings.Contains(screen, "redis: its circuit breaker is open") ||
		text != "stet: to be looked at: the store: its circuit breaker is open\n" {
		t.Errorf("%d %s%s", status, screen, text)
	}
}

// The report counts the changes that lie in its time alone, and says since when requests are counted.
func TestReport(t *testing.T) {
	s := aStatus()
	route := operate.RouteFigures{Route: "POST /v1/pay", Match: "POST /v1/pay", Mode: "shadow",
		Results: operate.Results{"new": 1200, "replay": 7, "unknown": 3},
		Shadow:  operate.Results{"replay": 11}, Mismatches: 2}
	entry := func(ago time.Duration, who, action string) operate.Entry {
		return operate.Entry{At: s.At.Add(-ago), Who: who, Action: action}
	}
	docs := map[string]any{"/api/v1/status": s,
		"/api/v1/routes": map[string]any{"routes": []operate.RouteFigures{route, {Results: operate.Results{}, Unprotected: 5}}},
		"/api/v1/audit?limit=1000&since=2026-11-21T08%3A39%3A00Z": map[string]any{
			"entries":     []operate.Entry{entry(time.Second, "kim", "resolve"), entry(20*time.Second, "kim", "release")},
			"next_cursor": ""},
		"/api/v1/audit?limit=1000&since=2026-11-19T08%3A40%3A00Z": map[string]any{
			"entries":     []operate.Entry{entry(time.Second, "kim", "resolve"), entry(time.Hour, "ben", "resolve")},
			"next_cursor": ""}}
	at := documents(t, docs)
	status, text, errs := ran(t, "report", "--admin", at, "--since", "1m")
	want := `since                 2026-11-21T08:39:00Z
until                 2026-11-21T08:40:00Z
requests              9120 new, 30 replay, 9 conflict since 2026-11-21T07:40:00Z
duplicates prevented  30
changes               1 release, 1 resolve
by                    2 kim
unknown now           14, 2 dead letters, 3 snoozed

routes since the gateways began: 16 requests that may change state ran unprotected, shadow mode included; stet explain unprotected-routes says what to do
ROUTE         MODE    NEW   REPLAY  MISMATCHES  UNPROTECTED  OTHERS     SHADOW
POST /v1/pay  shadow  1200  7       2           0            3 unknown  11 replay
(no route)    -       0     0       0           5            -          -
`
	if status != exitFine || text != want {
		t.Errorf("%d %s\n%s\nwant\n%s", status, errs, text, want)
	}
	status, doc, _ := ran(t, "report", "--admin", at, "--since", "2d", "--json")
	var r report
	if err := json.Unmarshal([]byte(doc), &r); status != exitFine || err != nil || r.Requests["new"] != 9120 ||
		r.Who["ben"] != 1 || r.Routes[1].Unprotected != 5 ||
		!r.RequestsSince.Equal(s.RequestsSince) || r.Duplicates != 30 || r.Waiting != 9 {
		t.Errorf("%d %v %s", status, err, doc)
	}
	s.Requests, s.RequestsSince = nil, time.Time{} // as for a token that is bound to scopes
	docs["/api/v1/status"] = s
	if status, text, _ = ran(t, "report", "--admin", documents(t, docs), "--since", "1m"); status != exitFine ||
		!strings.Contains(text, "not known: nothing is counted that you may see") || strings.Contains(text, "duplicates") {
		t.Errorf("%d %s", status, text)
	}
}

// Ages are for people: what a program reads has instants.
func TestAgesOnATerminal(t *testing.T) {
	now := time.Now()
	program, person := &world{}, &world{terminal: true}
	for _, tt := range []struct {
		at   time.Time
		want string
	}{
		{now.Add(-42500 * time.Millisecond), "42s ago"}, {now.Add(-14*time.Minute - 3*time.Second), "14m3s ago"},
		{now.Add(-14*time.Minute - 10500*time.Millisecond), "14m10s ago"},
		{now.Add(-20*time.Minute - 500*time.Millisecond), "20m ago"},
		{now.Add(-3*time.Hour - 7*time.Minute - time.Second), "3h7m ago"}, {now.Add(-75*time.Hour - time.Second), "3d3h ago"},
		{now.Add(time.Hour + time.Second), "in 1h"}, {time.Time{}, "-"},
	} {
		if got := person.cell(tt.at); got != tt.want {
			t.Errorf("a person reads %s, want %s", got, tt.want)
		}
		if got := program.cell(tt.at); got != instant(tt.at) {
			t.Errorf("a program reads %s", got)
		}
	}
}

// A server that is not what it seems steers no terminal.
func TestServersTextIsVisible(t *testing.T) {
	evil := "\x1b[2J"
	s := aStatus()
	s.Title, s.Store.Why, s.Store.OK, s.Gateways[1].State, s.Incidents[0].Cause = evil, evil, false, evil, evil
	s.Warnings = []operate.Warning{{Code: evil, Text: evil, Mend: evil}}
	s.Requests[evil] = 1
	at := documents(t, map[string]any{"/api/v1/status": s,
		"/api/v1/routes": map[string]any{"routes": []operate.RouteFigures{{Route: evil, Mode: evil,
			Results: map[string]int{evil: 1}}}},
		"/api/v1/audit?limit=1000&since=2026-11-20T08%3A40%3A00Z": map[string]any{
			"entries": []operate.Entry{{At: s.At, Who: evil, Action: evil}}, "next_cursor": ""},
		"/api/v1/incidents?":   map[string]any{"incidents": s.Incidents},
		"/api/v1/incidents/i1": operate.Incident{Cause: evil, Owner: evil, Keys: []operate.Record{{ID: evil, Path: evil}}},
		"/api/v1/whoami":       admin.Whoami{Name: evil, Role: evil, Scopes: []string{evil}},
		"/api/v1/find?q=x": operate.Search{Found: []operate.Found{{By: evil, Key: operate.Record{State: evil}}},
			Skipped: []string{evil}},
		"/api/v1/bulk": map[string]any{"jobs": []operate.Job{{Job: evil, Who: evil}}},
		"/api/v1/bulk/bulk_1": operate.Job{Job: evil, Who: evil, Failed: 1,
			Errors: []operate.Failure{{ID: evil, Detail: evil}}},
		"/api/v1/bulk/bulk_1/report": operate.Failure{ID: evil, Cause: evil, Detail: evil},
		"/api/v1/outbox?limit=100": map[string]any{"messages": []operate.Message{{Topic: evil, State: outbox.State(evil)}},
			"next_cursor": ""},
		"/api/v1/outbox/1": operate.Message{Topic: evil, State: outbox.State(evil)},
		"/api/v1/audit?limit=1": map[string]any{"entries": []operate.Entry{{Who: evil, Action: evil}},
			"next_cursor": evil},
		"/api/v1/keys?limit=1": map[string]any{"keys": []operate.Record{{State: evil}}, "next_cursor": evil},
		"/api/v1/keys/k_0123456789abcdef": operate.Record{State: evil, Cause: evil, Owner: evil,
			Probe: &operate.ProbeAnswer{Found: evil, Evidence: evil},
			With:  &operate.Handover{To: evil, Note: evil}}})
	for _, args := range [][]string{{"status"}, {"report"}, {"keys", "show", "k_0123456789abcdef"}, {"incidents"},
		{"incidents", "show", "i1"}, {"routes"},
		{"whoami"}, {"keys", "find", "x"}, {"keys", "bulk"}, {"keys", "bulk", "bulk_1"},
		{"keys", "bulk", "report", "bulk_1"}, {"outbox", "list"}, {"outbox", "show", "1"}, {"audit", "list", "--limit", "1"},
		{"keys", "list", "--limit", "1"}} {
		_, out, errs := ran(t, append(args, "--admin", at)...)
		if strings.Contains(out+errs, "\x1b") || !strings.Contains(out, `\x1b[2J`) {
			t.Errorf("%q prints %q and %q", args, out, errs)
		}
	}
	liar := plain(t, saying(403, admin.Marker+": 1", `{"code":"forbidden","title":"x","detail":"`+`\u001b[2J`+`"}`))
	if _, _, errs := ran(t, "keys", "list", "--admin", liar); strings.Contains(errs, "\x1b") {
		t.Errorf("%q", errs)
	}
}

// A search that did not look everywhere says so: nothing found is not read as nothing there.
func TestFindSaysWhatWasNotSearched(t *testing.T) {
	at := documents(t, map[string]any{"/api/v1/find?q=ch_1&scope=acme": operate.Search{Found: []operate.Found{}, More: true,
		Skipped: []string{"key", "provider-id"}}})
	status, out, errs := ran(t, "keys", "find", "ch_1", "--scope", "acme", "--admin", at)
	if status != exitNotFound || out != "" || !strings.Contains(errs, "not searched: key, provider-id;") ||
		!strings.Contains(errs, "there may be more:") {
		t.Errorf("%d %q %s", status, out, errs)
	}
}
