package console_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/admin/console"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/outbox"
)

// fake is an admin API of an incident: fourteen charges whose gateway died, of which ten left no
// trace, and a refund whose answer came late. It answers documents and changes records, and has no
// rules beyond roles and versions.
type fake struct {
	mu           sync.Mutex
	now          time.Time
	open         bool // no token is asked for
	records      []*operate.Record
	entries      []operate.Entry
	calls        []string // what was changed: method, path and body
	lacks        []string // prefixes of paths that this API does not have
	status       int      // if not 0, all but whoami fail with it
	guesses      int
	job          operate.JobState // of bulk_2
	letter       outbox.State
	empty        int // pages of keys, before one that has some
	unread       bool
	outboxUnread bool
	double       []operate.Entry
	unwell       string // why the store is
}

// door is what a console is in front of where the API is asked as a client asks it.
type door struct{ http.Handler }

func (d door) Enter(r *http.Request, token string) (admin.API, func(), error) {
	return adminclient.InProcess(d.Handler, r, token), func() {}, nil
}

func (d door) SignIn(r *http.Request, token string) error {
	_, err := adminclient.InProcess(d.Handler, r, token).Whoami(r.Context())
	return err
}

func (door) Secret() []byte { return []byte("a secret of tests") }

func doorOf(h http.Handler) console.Door {
	if d, is := h.(console.Door); is {
		return d
	}
	return door{h}
}

var fakeRoles = map[string]string{"viewer-token": "viewer", "operator-token": "operator", "admin-token": "admin"}

const (
	cutID  = "k_9b730ee3260f42cc"
	lateID = "k_5ad0c2e9f8714b36"
	deadID = "k_0c7e51fa93d8b264"
	doneID = "k_e0259db7c4f13a68"
)

// noon is when nothing that the fake tells of is on another day.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newFake() *fake { return newFakeAt(noon) }

func newFakeAt(now time.Time) *fake {
	f := &fake{now: now, job: operate.JobRunning, letter: outbox.Dead}
	since := f.now.Add(-7 * time.Minute)
	for i := range 14 {
		r := f.unknown(fmt.Sprintf("k_%016x", 0x1e7c4580d20000+i), "POST", "/v1/charges", "lease-lapsed", since)
		if i == 9 {
			r.ID = cutID
		}
		found := operate.ProbeAnswer{At: f.now.Add(-100 * time.Second), TookMS: 31, Found: "missing", Status: 404}
		switch {
		case i < 3:
			found.Found, found.Status = "pending", 202
		case i == 3:
			found.Found, found.Status = "silent", 0
		}
		r.Probe = &found
		if i != 5 {
			r.Asking = &operate.Asking{Count: 10 + i, LastAt: f.now.Add(-time.Duration(i) * time.Second)}
		}
	}
	cut := f.record(cutID)
	cut.Mismatch = &operate.Mismatch{At: f.now.Add(-5 * time.Minute), Count: 1, Parts: []string{"body"}, TraceID: "a1c3e07d0000000000000000000041b2"}
	late := f.unknown(lateID, "POST", "/v1/refunds", "execution-timeout", f.now.Add(-4*time.Minute))
	late.Scope, late.Late = "globex", &operate.LateAnswer{Status: 200, Bytes: 61, At: f.now.Add(-3 * time.Minute)}
	late.Probe = &operate.ProbeAnswer{At: f.now.Add(-time.Minute), Found: "pending", Status: 503}
	dead := f.unknown(deadID, "POST", "/v1/payouts", "upstream-failed", f.now.Add(-6*time.Hour))
	dead.Escalated, dead.Probes, dead.Outlook.ProbesLeft, dead.Outlook.NextProbe = true, 8, 0, time.Time{}
	dead.Outlook.IfNothing, dead.Outlook.SettledAt = "stays", f.now.Add(-5*time.Hour)
	dead.Probe = &operate.ProbeAnswer{At: f.now.Add(-5 * time.Hour), Found: "silent"}
	dead.With = &operate.Handover{To: "anna", Who: "ben", Note: "she knows the bank", At: f.now.Add(-5 * time.Hour)}
	size := int64(74)
	f.records = append(f.records, &operate.Record{ID: doneID, Scope: "globex", State: "completed", Attempt: 1, Version: 6, Method: "POST",
		Path: "/v1/charges", Route: "POST /v1/charges", Status: 201, ResponseBytes: &size, TookMS: 212, CreatedAt: since, UpdatedAt: since.Add(time.Second),
		CompletedAt: since.Add(time.Second), ExpiresAt: f.now.Add(7 * 24 * time.Hour), DueAt: f.now.Add(7 * 24 * time.Hour), Owner: "gw-1:902",
		Outlook: &operate.Outlook{IfNothing: "expires", At: f.now.Add(7 * 24 * time.Hour), Client: operate.ClientAnswer{Status: 201}}})
	for _, state := range []string{"running", "failed", "retryable", "expired"} {
		f.records = append(f.records, &operate.Record{ID: fmt.Sprintf("k_%016x", len(f.records)), Scope: "acme", State: state, Attempt: 2, Version: 3,
			Method: "POST", Path: "/v1/charges", Route: "POST /v1/charges", Status: map[string]int{"failed": 502}[state],
			CreatedAt: since, UpdatedAt: since, DueAt: f.now.Add(time.Minute), Owner: "gw-1:902", Outlook: &operate.Outlook{IfNothing: "stays"}})
	}
	f.entries = append(f.entries, operate.Entry{At: f.now.Add(-100 * time.Second), Who: "ben", Action: "probe", ID: cutID, Scope: "acme", From: "unknown", To: "unknown", Evidence: "missing, status 404, in 31ms: the probe was answered 404"})
	f.entries = append(f.entries, operate.Entry{At: f.now.Add(-3 * time.Minute), Who: "gw-1:902", Action: "testify", ID: lateID, Scope: "globex", From: "unknown", To: "unknown", Reason: "an answer came too late", Evidence: "status 200"})
	return f
}

func (f *fake) unknown(id, method, path, cause string, since time.Time) *operate.Record {
	r := &operate.Record{ID: id, Scope: "acme", State: "unknown", Attempt: 1, Version: 4, Method: method, Path: path, Route: method + " " + path,
		Cause: cause, Owner: "gw-2:4711", Probes: 6, TookMS: 84000, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
		CreatedAt: since.Add(-84 * time.Second), UpdatedAt: since, UnknownSince: since, DueAt: f.now.Add(220 * time.Second),
		Outlook: &operate.Outlook{SettledAt: f.now.Add(8 * time.Minute), NextProbe: f.now.Add(220 * time.Second), ProbesLeft: 2, IfNothing: "probe",
			At: f.now.Add(220 * time.Second), Client: operate.ClientAnswer{Status: 409, Code: "outcome-unknown", RetryAfter: 30}}}
	f.records = append(f.records, r)
	return r
}

// settle lets the time pass after which no trace is proof.
func (f *fake) settle() {
	for _, r := range f.records {
		if r.Outlook != nil && r.State == "unknown" {
			r.Outlook.SettledAt = f.now.Add(-time.Minute)
		}
	}
}

func (f *fake) record(id string) *operate.Record {
	i := slices.IndexFunc(f.records, func(r *operate.Record) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return f.records[i]
}

// basis is the one of a record with this version.
func basis(version uint64) string { return fmt.Sprintf("%016x", version) }

// ruled is a record with the ruling of the API on whether it may be freed.
func (f *fake) ruled(r *operate.Record) operate.Record {
	doc := *r
	doc.Basis = basis(r.Version)
	if r.State != "unknown" {
		return doc
	}
	o, found := *r.Outlook, ""
	if r.Probe != nil {
		found = r.Probe.Found
	}
	switch doc.Outlook = &o; {
	case r.Late != nil:
		o.Release = &operate.Release{Code: "late-answer", Why: "The handler came back too late, with an answer that says that it happened.", With: "override"}
	case o.SettledAt.After(f.now):
		o.Release = &operate.Release{Code: "not-settled", Why: "The attempt ended only just now.", From: o.SettledAt, With: "voided"}
	case found == "missing":
		o.Release = &operate.Release{May: true, Many: true, Code: "no-trace", Why: "It has settled, and the last probe found no trace of it."}
	default:
		o.Release = &operate.Release{May: true, Code: "undecided", Why: "It has settled, and the last probe could not tell: ask again."}
	}
	return doc
}

func (f *fake) changed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *fake) incidents() []operate.Incident {
	var all []operate.Incident
	for _, r := range f.records {
		if r.State != "unknown" {
			continue
		}
		id := "i" + strings.ReplaceAll(r.Path, "/", "-")
		i := slices.IndexFunc(all, func(in operate.Incident) bool { return in.ID == id })
		if i < 0 {
			i = len(all)
			all = append(all, operate.Incident{ID: id, Cause: r.Cause, Route: r.Route, Method: r.Method, Owner: r.Owner, Since: r.UpdatedAt, Probes: map[string]int{}})
		}
		in := &all[i]
		in.Count++
		if in.Keys = append(in.Keys, f.ruled(r)); r.Escalated {
			in.Dead++
		}
		if r.Late != nil {
			in.Late++
		}
		if r.Snooze != nil {
			in.Snoozed++
		}
		if r.Probe != nil {
			in.Probes[r.Probe.Found]++
		}
		if r.Asking != nil {
			in.Asking.Count += r.Asking.Count
			in.Asking.LastAt = r.Asking.LastAt
		}
		if r.Outlook != nil {
			in.SettledAt, in.NextProbe, in.FreesAt = r.Outlook.SettledAt, r.Outlook.NextProbe, r.Outlook.FreesAt
		}
		if r.With != nil && !slices.Contains(in.With, r.With.To) {
			in.With = append(in.With, r.With.To)
		}
	}
	return all
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set(admin.Marker, "1")
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	role := fakeRoles[token]
	if f.open {
		role = "admin"
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/problems/"):
		_, _ = w.Write([]byte("a page\n"))
		return
	case role == "" && token != "" && f.guesses >= 3:
		w.Header().Set("Retry-After", "4")
		refuse(w, 429, "too-many-logins", "Wrong tokens came from this address: the next one is looked at in 4 s.")
		return
	case role == "":
		if token != "" {
			f.guesses++
		}
		refuse(w, 401, "unauthenticated", "Send a token.")
		return
	case r.URL.Path == "/api/v1/whoami":
		answer(w, admin.Whoami{Name: strings.TrimSuffix(token, "-token"), Role: role, NoToken: f.open})
		return
	case f.status != 0:
		refuse(w, f.status, "store-unavailable", "Try again later.")
		return
	case slices.ContainsFunc(f.lacks, func(p string) bool { return strings.HasPrefix(r.URL.Path, p) }):
		refuse(w, 404, "not-found", "It does not exist, or it is out of reach.")
		return
	case r.Method != http.MethodGet && role == "viewer":
		refuse(w, 403, "forbidden", "This takes the role operator; vera has the role viewer.")
		return
	case r.Method != http.MethodGet:
		f.change(w, r, role)
		return
	}
	f.show(w, r)
}

func (f *fake) show(w http.ResponseWriter, r *http.Request) {
	at := r.URL.Path
	key, isKey := strings.CutPrefix(at, "/api/v1/keys/")
	one, isIncident := strings.CutPrefix(at, "/api/v1/incidents/")
	switch {
	case isKey:
		rec := f.record(key[strings.LastIndex(key, "/")+1:])
		if rec == nil {
			refuse(w, 404, "not-found", "It does not exist, or it is out of reach.")
			return
		}
		doc := f.ruled(rec)
		doc.Explanation = &operate.Explanation{Known: []string{"It is what is known.", "More is known: " + rec.Cause}, Open: []string{"One thing is open.", "Another is."},
			Client: []string{"It is answered so.", "It has asked."}, Next: []string{"First it is asked again.", "Then it stays."}}
		if r.URL.Query().Get("reveal") == "1" {
			f.calls = append(f.calls, "REVEAL "+rec.ID+" "+r.URL.Query().Get("reason"))
			doc.Key = "order-4712"
			doc.Response = &operate.Response{Status: 200, Headers: map[string][]string{"Content-Type": {"application/json"}}, Body: []byte(`{"id":"re_3Qk81"}`)}
		}
		answer(w, doc)
	case isIncident:
		if one == "i-beyond" { // as if there were more than are looked at
			refuse(w, 404, "not-listed", "It may be among the others, or have ended.")
			return
		}
		for _, in := range f.incidents() {
			if in.ID == one {
				most, _ := strconv.Atoi(r.URL.Query().Get("keys"))
				in.Keys = in.Keys[:min(cmp.Or(most, 500), len(in.Keys))]
				answer(w, in)
				return
			}
		}
		refuse(w, 404, "not-found", "It does not exist, or it is out of reach.")
	case at == "/api/v1/incidents":
		all := f.incidents()
		for i := range all {
			all[i].Keys = nil
		}
		answer(w, map[string]any{"incidents": all})
	case at == "/api/v1/keys":
		if r.URL.Query().Get("older_than_s") == "x" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(400)
			_, _ = w.Write([]byte(`{"title":"A parameter cannot be used","status":400,"code":"bad-parameter","parameter":"older_than_s","detail":"older_than_s: it is a number of seconds, not negative, and not over a hundred years"}`))
			return
		}
		if f.empty--; f.empty >= 0 {
			answer(w, map[string]any{"keys": []int{}, "next_cursor": fmt.Sprint(f.empty)})
			return
		}
		answer(w, map[string]any{"keys": f.records, "next_cursor": "cursor-with-order-4712"})
	case at == "/api/v1/audit":
		entries := slices.Clone(f.entries)
		slices.SortStableFunc(entries, func(a, b operate.Entry) int { return b.At.Compare(a.At) })
		if id := r.URL.Query().Get("id"); id != "" {
			entries = slices.DeleteFunc(entries, func(e operate.Entry) bool { return e.ID != id })
		}
		answer(w, map[string]any{"entries": entries, "next_cursor": ""})
	case at == "/api/v1/find":
		found := []operate.Found{}
		for _, rec := range f.records {
			if q := r.URL.Query().Get("q"); q == rec.ID || q == rec.TraceID {
				found = append(found, operate.Found{By: "trace", Key: *rec})
			}
		}
		answer(w, map[string]any{"found": found})
	case at == "/api/v1/bulk/bulk_1":
		answer(w, operate.Job{Job: "bulk_1", Action: "release", State: "completed", Total: 10, Done: 9, Left: 1, Who: "otto", Reason: "INC-4521", CreatedAt: f.now, UpdatedAt: f.now,
			Errors: []operate.Failure{{ID: cutID, Scope: "acme", Cause: "state-changed", Detail: "It was changed meanwhile.", Left: true}}})
	case at == "/api/v1/bulk/bulk_1/report":
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = w.Write([]byte(`{"id":"` + cutID + `","left":true}` + "\n"))
	case at == "/api/v1/bulk/bulk_2":
		answer(w, operate.Job{Job: "bulk_2", Action: "hand", State: f.job, Total: 10, Done: 4, Left: 6, To: "ben", Who: "otto", Reason: "INC-4521", CreatedAt: f.now, UpdatedAt: f.now.Add(time.Second)})
	case at == "/api/v1/bulk":
		answer(w, map[string]any{"jobs": []operate.Job{{Job: "bulk_1", Action: "release", State: "running", Total: 10, Who: "otto", Reason: "INC-4521", CreatedAt: f.now}}})
	case strings.HasPrefix(at, "/api/v1/outbox"):
		f.letters(w, r)
	default:
		f.figures(w, at)
	}
}

func (f *fake) letters(w http.ResponseWriter, r *http.Request) {
	m := operate.Message{ID: 18204, Version: 1<<62 + 1, State: f.letter, Topic: "ledger.post", Record: doneID, Scope: "globex", Attempt: 20, DownstreamKey: "d-91f",
		Errors:    []operate.MessageError{{Attempt: 20, At: f.now.Add(-time.Minute), Error: "422 no such account"}},
		CreatedAt: f.now.Add(-time.Hour), UpdatedAt: f.now, DueAt: f.now}
	if r.URL.Path != "/api/v1/outbox" {
		answer(w, m)
		return
	}
	all, next := []operate.Message{}, ""
	if q := r.URL.Query(); q.Get("dead") != "" && q.Get("cursor") == "" {
		all, next = append(all, m), "18204"
	}
	answer(w, map[string]any{"messages": all, "next_cursor": next})
}

func (f *fake) figures(w http.ResponseWriter, at string) {
	two := 2
	switch at {
	case "/api/v1/status":
		s := operate.Status{Title: "production eu-1", TraceURL: "https://traces.example/{trace_id}", At: f.now, Unknown: 16, Dead: 1, Waiting: 15, OldestUnknown: f.now.Add(-7 * time.Minute), OutboxDead: &two,
			Store:    operate.Health{Name: "postgres", OK: true, P50MS: 1.9, P99MS: 4.1},
			Gateways: []operate.Gateway{{Name: "gw-1", State: "ready", StartedAt: f.now.Add(-100 * time.Hour), PerSecond: 21}, {Name: "gw-2", State: "gone", SeenAt: f.now.Add(-8 * time.Minute)}},
			Requests: operate.Results{"new": 3800, "replay": 42}, RequestsSince: f.now.Add(-100 * time.Hour),
			Ended: []operate.Ended{{At: f.now.Add(-time.Hour), Count: 12, To: "retryable", Action: "release", Who: "sue", Reason: "none at the bank"},
				{At: f.now.Add(-2 * time.Hour), Count: 1, To: "completed", Action: "resolve", Who: "reconciler", ID: doneID}},
			Warnings: []operate.Warning{{Code: "single-tenant", Text: "Every client shares one scope.", Mend: "Set scope.header."}}}
		if s.Double = f.double; len(f.double) > 0 {
			s.Unstored = &operate.Unstored{Entries: 3, Bytes: 6144}
			s.Upstream = &operate.Health{Name: "api.example:443", Why: "no connection since 09:00"}
		}
		if f.unwell != "" {
			s.Store.OK, s.Store.Why = false, f.unwell
		}
		if f.unread {
			s = operate.Status{Unread: true}
			answer(w, s)
			return
		}
		if f.outboxUnread {
			s = operate.Status{OutboxUnread: true, Store: operate.Health{OK: true}}
			answer(w, s)
			return
		}
		for _, in := range f.incidents() {
			in.Keys = nil
			s.Incidents = append(s.Incidents, in)
		}
		answer(w, s)
	case "/api/v1/routes":
		answer(w, map[string]any{"routes": []operate.RouteFigures{{Route: "POST /v1/charges", Match: "POST /v1/charges", Mode: "required", Results: map[string]int{"new": 900, "replay": 21, "missing_key": 30, "store_error": 7, "bypass": 50}, Mismatches: 4},
			{Route: "default", Mode: "by-method", Results: map[string]int{"bypass": 37}, Unprotected: 37}}})
	case "/api/v1/config":
		answer(w, map[string]any{"settings": []admin.Setting{{Path: "listen", Value: ":8080", Origin: "default"}, {Path: "store.dsn", Value: "postgres://stet:••••@db/stet", Origin: "env STET_STORE"},
			{Path: "log_level", Value: "info", Origin: "default", Pending: "debug"}}})
	case "/policy.json":
		answer(w, map[string]any{"scope": "header X-Tenant-Id", "routes": []map[string]any{{"route": "POST /v1/charges", "match": "POST /v1/charges", "mode": "required", "enabled_methods": []string{"POST"}}}})
	case "/metrics", "/livez":
		_, _ = w.Write([]byte("fine\n"))
	default:
		refuse(w, 404, "not-found", "It does not exist, or it is out of reach.")
	}
}

func (f *fake) change(w http.ResponseWriter, r *http.Request, role string) {
	var doc map[string]any
	_ = json.NewDecoder(r.Body).Decode(&doc)
	body, _ := json.Marshal(doc)
	call := fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body)
	reason, given := doc["reason"].(string)
	if (given || r.URL.Path == "/api/v1/bulk" && doc["action"] != "hand") && strings.TrimSpace(reason) == "" {
		refuse(w, 400, "reason-required", "reason: say why, in words; it is kept in the audit trail.")
		return
	}
	if doc["voided"] == true && strings.TrimSpace(fmt.Sprint(doc["evidence"])) == "" {
		refuse(w, 400, "bad-parameter", "evidence: say what shows that the provider has cancelled it.")
		return
	}
	if r.URL.Path == "/api/v1/bulk" {
		f.calls = append(f.calls, call)
		w.WriteHeader(202)
		_, _ = w.Write([]byte(`{"job":"bulk_1"}`))
		return
	}
	if verb, ok := strings.CutPrefix(r.URL.Path, "/api/v1/bulk/bulk_2/"); ok {
		f.job = map[string]operate.JobState{"stop": operate.JobStopped}[verb]
		f.calls = append(f.calls, call)
		answer(w, map[string]any{})
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/v1/outbox/") {
		f.calls = append(f.calls, call)
		if strings.HasSuffix(r.URL.Path, "/confirm") {
			f.letter = outbox.Done
		}
		answer(w, map[string]any{})
		return
	}
	name := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/keys/"), "/")
	rec := f.record(name[0])
	if rec == nil {
		refuse(w, 404, "not-found", "It does not exist, or it is out of reach.")
		return
	}
	if v, given := doc["if_basis"]; given && v != basis(rec.Version) {
		refuse(w, 409, "state-changed", "It was changed meanwhile.")
		return
	}
	if q := r.URL.Query().Get("if_basis"); q != "" && q != basis(rec.Version) {
		refuse(w, 409, "state-changed", "It was changed meanwhile.")
		return
	}
	f.calls = append(f.calls, call)
	if r.Method == http.MethodDelete {
		if role != "admin" {
			refuse(w, 403, "forbidden", "This takes the role admin.")
			return
		}
		w.WriteHeader(204)
		return
	}
	switch name[1] {
	case "resolve":
		rec.State, rec.CompletedAt = "completed", f.now
		if status, given := doc["status"].(float64); given {
			rec.Status = int(status)
		}
	case "release":
		rec.State, rec.Cause = "retryable", "resolved"
	case "snooze":
		rec.Snooze = &operate.Snooze{Until: f.now.Add(time.Hour), Who: "otto", Reason: fmt.Sprint(doc["reason"])}
	case "hand":
		rec.With = &operate.Handover{To: fmt.Sprint(doc["to"]), Who: "otto", At: f.now}
	}
	rec.Version++
	answer(w, rec)
}

func answer(w http.ResponseWriter, doc any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(doc)
}

func refuse(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	doc := map[string]any{"title": "It is refused", "status": status, "code": code, "detail": detail}
	if parameter, _, ok := strings.Cut(detail, ": "); ok && status == http.StatusBadRequest {
		doc["parameter"] = parameter
	}
	_ = json.NewEncoder(w).Encode(doc)
}
