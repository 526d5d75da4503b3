package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/reconcile"
)

// answer is what a change was answered with.
type answer struct {
	operate.Record
	Code, Detail, Parameter string
	Until                   time.Time
	Probe                   struct {
		Found, Evidence string
		Settles         time.Time `json:"settles_at"`
	}
}

// said sends a change, demands a status, and returns the answer.
func (d *desk) said(method, path, body string, status int) (a answer) {
	d.Helper()
	got, text := d.change(method, path, body)
	if got != status {
		d.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got, text, status)
	}
	if text != "" && json.Unmarshal([]byte(text), &a) != nil {
		d.Fatal(text)
	}
	return a
}

func (d *desk) record(id stet.ID) stet.Record {
	d.Helper()
	r, err := d.engine.Get(d.Context(), id)
	if err != nil {
		d.Fatal(err)
	}
	return r
}

// An id needs no scope for any verb; with a scope the record has to be in it, and what is not found
// looks like what never was.
func TestAnIDNeedsNoScope(t *testing.T) { // D04
	d := newDesk(t, admin.Config{}, nil)
	id := d.unknown("k")
	alone, within := "/api/v1/keys/"+d.engine.Tag(id), "/api/v1/keys/s/"+d.engine.Tag(id)
	if doc := d.doc(alone + "?reveal=1"); doc["key"] != "k" || doc["scope"] != "s" {
		t.Errorf("%v", doc)
	}
	d.said("POST", alone+"/note", `{"reason":"looked at"}`, 200)
	d.said("POST", alone+"/resolve", `{"reason":"asked","outcome":"completed","status":201}`, 200)
	d.said("POST", alone+"/extend", `{"reason":"a long case","seconds":1e7}`, 200)
	if doc := d.doc(within); doc["state"] != "completed" {
		t.Errorf("%v", doc)
	}
	_, none := d.get("/api/v1/keys/s/none")
	for _, path := range []string{"/api/v1/keys/elsewhere/" + d.engine.Tag(id), "/api/v1/keys/k", "/api/v1/keys/k_0123456789abcdef", "/api/v1/keys/k_0123"} {
		if res, body := d.get(path); res.StatusCode != 404 || body != none {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
		for _, verb := range []string{"resolve", "release", "extend", "probe", "note", "snooze", "hand"} {
			if status, body := d.change("POST", path+"/"+verb, `{"reason":"x","outcome":"not-executed"}`); status/100 == 2 || status == 404 && body != none {
				t.Errorf("%s of %s: %d %s", verb, path, status, body)
			}
		}
	}
	d.said("DELETE", alone+"?reason=x", "", 204)
	d.refused(alone, 404, "not-found")
	other := d.unknown("k2")
	d.said("POST", "/api/v1/keys/"+d.engine.Tag(other)+"/release", `{"reason":"x"}`, 200)
}

// A key of an id's form hides no record with that id, and is found where there is none.
func TestAKeyOfAnIDsFormHidesNothing(t *testing.T) { // D04
	d := newDesk(t, admin.Config{}, nil)
	d.put("s", "k", answered(201))
	tag := d.engine.Tag(stet.ID{Scope: "s", Key: "k"})
	d.put("s", stet.Key(tag), answered(202)) // a client chose this key
	d.put("t", stet.Key(tag), answered(203))
	for path, want := range map[string]float64{
		tag: 201, "s/" + tag: 201, "t/" + tag: 203, d.engine.Tag(stet.ID{Scope: "s", Key: stet.Key(tag)}): 202,
	} {
		if doc := d.doc("/api/v1/keys/" + path); doc["status"] != want {
			t.Errorf("%s: %v, want %v", path, doc["status"], want)
		}
	}
}

// A version of 63 bits outlives what holds numbers as doubles.
func TestVersionsAreStrings(t *testing.T) { // D05
	d := newDesk(t, admin.Config{}, nil)
	for i := 0; ; i++ {
		id := d.unknown(fmt.Sprint("k", i))
		version := d.record(id).Version
		if stet.Version(float64(version)) == version {
			continue // one that a double holds by chance
		}
		path := "/api/v1/keys/" + d.engine.Tag(id)
		doc := d.doc(path) // as JavaScript reads it: numbers are doubles
		if doc["version"] != fmt.Sprint(version) {
			t.Fatalf("%v, want %q", doc["version"], fmt.Sprint(version))
		}
		rounded := fmt.Sprintf("%.0f", float64(version))
		for _, bad := range []string{`"` + rounded + `"`, rounded} {
			d.said("POST", path+"/release", `{"reason":"x","if_version":`+bad+`}`, 409)
		}
		for _, none := range []string{`0`, `"0"`, `""`, `"x"`, `-1`, `1.5`, `1e3`, `"+1"`, `null`, `true`, `9223372036854775808`} {
			if a := d.said("POST", path+"/release", `{"reason":"x","if_version":`+none+`}`, 400); a.Parameter != "if_version" {
				t.Errorf("%s: %+v", none, a)
			}
		}
		again, _ := json.Marshal(map[string]any{"reason": "x", "if_version": doc["version"]})
		after := d.said("POST", path+"/release", string(again), 200)
		if i%2 == 0 { // the number is taken as well
			d.said("DELETE", path+fmt.Sprintf("?reason=x&if_version=%d", after.Version), "", 204)
			continue
		}
		return
	}
}

// Everything that changes a record is refused where the record has another version than was decided
// on.
func TestEveryChangeHonoursIfVersion(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	d.put("s", "done", answered(201))
	unknown := d.unknown("k")
	for _, c := range [][3]string{
		{"POST", "/k/resolve", `{"reason":"x","outcome":"completed","status":200,"if_version":"1"}`},
		{"POST", "/k/resolve", `{"reason":"x","outcome":"not-executed","now":true,"if_version":"1"}`},
		{"POST", "/k/release", `{"reason":"x","now":true,"override":true,"if_version":"1"}`},
		{"POST", "/k/note", `{"reason":"x","if_version":"1"}`},
		{"POST", "/k/snooze", `{"reason":"x","for_s":60,"if_version":"1"}`},
		{"POST", "/k/hand", `{"to":"ben","if_version":"1"}`},
		{"POST", "/done/extend", `{"reason":"x","seconds":1e8,"if_version":"1"}`},
		{"DELETE", "/done?reason=x&if_version=1", ""},
	} {
		a := d.said(c[0], "/api/v1/keys/s"+c[1], c[2], 409)
		if a.Code != "state-changed" || !strings.Contains(a.Detail, "Look at it again") {
			t.Errorf("%v: %+v", c, a)
		}
	}
	if d.record(unknown).State != stet.Unknown || d.record(stet.ID{Scope: "s", Key: "done"}).State != stet.Completed {
		t.Error("a record was changed")
	}
}

func TestFilters(t *testing.T) { // D06
	d := newDesk(t, admin.Config{Tokens: tokens()}, nil)
	d.token = "viewer-token"
	d.put("t1", "secret-first", answered(201))
	d.put("t2", "secret-second", unknown)
	dead := d.unknown("secret-third")
	head := d.record(dead).Head
	if _, _, err := d.engine.Operator().Probing(t.Context(), &head, stet.Never, &stet.Note{Who: "reconciler", Why: "8 probes"}); err != nil {
		t.Fatal(err)
	}
	got := func(query string) (scopes string) {
		t.Helper()
		for _, k := range d.doc("/api/v1/keys?" + query)["keys"].([]any) {
			scopes += k.(map[string]any)["scope"].(string) + " "
		}
		return strings.TrimSpace(scopes)
	}
	for query, want := range map[string]string{
		"escalated=1": "s", "escalated=true": "s", "cause=panic": "t2", "cause=timeout": "s", "cause=other": "",
		"path=/v1/payments": "t2 t1", "path=/v1": "", "method=POST&path=/v1/payments&scope=t1": "t1", "method=post": "",
		"trace=0af7651916cd43dd8448eb211c80319c": "t2 t1", "trace=other": "", "sort=oldest": "t1 t2 s", "": "s t2 t1",
		"escalated=1&scope=t1": "", "state=unknown&sort=oldest": "t2 s",
	} {
		if have := got(query); have != want {
			t.Errorf("%s: %q, want %q", query, have, want)
		}
	}
	if doc := d.doc("/api/v1/keys?escalated=1")["keys"].([]any)[0].(map[string]any); doc["escalated"] != true || doc["due_at"] != nil {
		t.Errorf("%v", doc)
	}
	for query, name := range map[string]string{"escalated=0": "escalated", "escalated=no": "escalated", "sort=newest": "sort", "escalated=1&escalated=1": "escalated"} {
		if p := d.refused("/api/v1/keys?"+query, 400, "bad-parameter"); p != name {
			t.Errorf("%s: %q is blamed", query, p)
		}
	}
	// Only callers who may see keys may ask by key or by a name from further down, and an answer
	// repeats neither.
	for _, query := range []string{"q=secret-first", "downstream=secret-second"} {
		d.refused("/api/v1/keys?"+query, 403, "forbidden")
	}
	d.token = "operator-token"
	for query, want := range map[string]string{"q=secret-first": "t1", "q=secret-first&scope=t2": "", "q=secret": "", "downstream=none": ""} {
		if have := got(query); have != want {
			t.Errorf("%s: %q, want %q", query, have, want)
		}
	}
	for _, query := range []string{"q=secret-first", "q=secret-first&limit=secret", "downstream=secret-second&limit=3", "q=secret-a&q=secret-b", "secret=1"} {
		if _, body := d.get("/api/v1/keys?" + query); strings.Contains(body, "secret-") {
			t.Errorf("%s: echoed: %s", query, body)
		}
	}
	if strings.Contains(d.log.String(), "secret") {
		t.Errorf("logged: %s", &d.log)
	}
}

// What a provider knows a record by finds it.
func TestFindByDownstreamName(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	named := func(c *stet.Claim) stet.Outcome {
		o := answered(201)(c)
		if err := c.Downstream(t.Context(), "psp-key", "ch_1"); err != nil {
			t.Fatal(err)
		}
		return o
	}
	d.put("t1", "a", named)
	d.put("t2", "b", named)
	d.put("t2", "c", answered(201))
	for query, want := range map[string]int{"downstream=ch_1": 2, "downstream=psp-key&scope=t2": 1, "downstream=a": 0} {
		doc := d.doc("/api/v1/keys?" + query)
		if n := len(doc["keys"].([]any)); n != want || doc["next_cursor"] != "" {
			t.Errorf("%s: %v", query, doc)
		}
	}
	for _, more := range []string{"limit=1", "state=unknown", "cursor=x", "escalated=1", "q=a", "sort=oldest"} {
		if p := d.refused("/api/v1/keys?downstream=ch_1&"+more, 400, "bad-parameter"); p != "downstream" {
			t.Errorf("%s: %q is blamed", more, p)
		}
	}
}

// A body that means two things, or nothing, changes nothing; the problem names the member and the
// mend.
func TestBodiesAreReadStrictly(t *testing.T) { // D10
	d := newDesk(t, admin.Config{}, nil)
	id := d.unknown("k")
	before := d.record(id).Version
	const answers = `belongs to "outcome": "completed"; leave it out`
	for _, c := range []struct{ verb, body, member, mend string }{
		{"resolve", `{"reason":"x","outcome":"not-executed","status":201}`, "status", answers}, // freed the key
		{"resolve", `{"reason":"x","outcome":"not-executed","status":0}`, "status", answers},
		{"resolve", `{"reason":"x","outcome":"not-executed","headers":{}}`, "headers", answers},
		{"resolve", `{"reason":"x","outcome":"not-executed","body":""}`, "body", answers},
		{"resolve", `{"reason":"x","outcome":"not-executed","body_b64":""}`, "body_b64", answers},
		{"release", `{"reason":"x","status":201}`, "status", answers},
		{"release", `{"reason":"x","outcome":"completed"}`, "outcome", "resolve takes the other outcome"}, // freed the key
		{"resolve", `{"reason":"x","outcome":"completed","status":200,"now":true}`, "now", `belongs to "outcome": "not-executed"`},
		{"resolve", `{"reason":"x","outcome":"completed","status":200,"override":true}`, "override", `belongs to "outcome": "not-executed"`},
		{"resolve", `{"reason":"x","outcome":"completed"}`, "status", "200 to 599"},
		{"resolve", `{"reason":"x","outcome":"Completed","status":200}`, "outcome", "completed or not-executed"},
		{"resolve", `{"reason":"x","outcome":"completed","status":"200"}`, "status", "a whole number"},
		{"resolve", `{"reason":"x","outcome":"completed","status":200,"headers":{"A":"b"}}`, "headers", `{"Name": ["value"]}`},
		{"resolve", `{"reason":"x","outcome":"completed","status":200,"body_b64":"%"}`, "body_b64", "base64"},
		{"release", `{"reason":"x","if_verson":"1"}`, "if_verson", "did you mean if_version?"},
		{"release", `{"reason":"x","Now":true}`, "Now", "did you mean now?"},
		{"release", `{"reason":"x","reason":"y"}`, "reason", "send it once"},
		{"release", `{"reason":"x","evidence":null}`, "evidence", "a string"},
		{"release", `{"reason":"x"} {}`, "body", "something follows"},
		{"release", `["x"]`, "body", "no JSON object"},
		{"release", ``, "body", "no JSON object"},
		{"release", `{"evidence":"x"}`, "reason", "say why"},
		{"release", `{"reason":""}`, "reason", "say why"},
		{"release", `{"reason":" \t\n\u00a0"}`, "reason", "say why"}, // was taken
		{"release?reason=x", `{}`, "query", "in the body"},
		{"release?if_version=1", `{"reason":"x"}`, "query", "in the body"}, // was ignored
		{"extend", `{"reason":"x"}`, "seconds", "at least 1"},
		{"extend", `{"reason":"x","seconds":-5}`, "seconds", "at least 1"},
		{"extend", `{"reason":"x","seconds":"600"}`, "seconds", "a number"},
		{"extend", `{"reason":" ","seconds":600}`, "reason", "say why"},
		{"note", `{}`, "reason", "say why"},
		{"note", `{"reason":"x","text":"y"}`, "text", "send one"},
		{"note", `{"text":"  "}`, "reason", "say why"},
		{"probe", `{"reason":"  "}`, "reason", "say why"},
		{"probe", `{"now":true}`, "now", "there are if_basis, if_version and reason"},
	} {
		a := d.said("POST", "/api/v1/keys/s/k/"+c.verb, c.body, 400)
		if a.Parameter != c.member || !strings.Contains(a.Detail, c.member) && c.member != "body" || !strings.Contains(a.Detail, c.mend) {
			t.Errorf("%s %s: %q: %s; want %s, %s", c.verb, c.body, a.Parameter, a.Detail, c.member, c.mend)
		}
	}
	for query, member := range map[string]string{"": "reason", "?reason=": "reason", "?reason=%20": "reason", "?reason=x&reason=y": "reason",
		"?reason=x&if_verson=1": "if_verson", "?reason=x&if_version=0": "if_version"} {
		if a := d.said("DELETE", "/api/v1/keys/s/k"+query, "", 400); a.Parameter != member {
			t.Errorf("DELETE %s: %+v", query, a)
		}
	}
	if d.record(id).Version != before {
		t.Error("the record was changed")
	}
}

// A release right after the attempt is refused, and says until when it may still have its effect,
// and what is known.
func TestReleaseBeforeSettling(t *testing.T) { // D09
	d := newDesk(t, admin.Config{Config: operate.Config{Settle: time.Hour}, Who: "kim@desk"}, nil)
	id := d.unknown("k")
	head := d.record(id).Head
	if _, mine, err := d.engine.Operator().Probing(t.Context(), &head, time.Minute, nil); err != nil || !mine {
		t.Fatal(err)
	}
	now := d.record(id)
	ended := now.Ended()
	for _, c := range [][2]string{{"release", `{"reason":"x"}`}, {"resolve", `{"reason":"x","outcome":"not-executed"}`}} {
		a := d.said("POST", "/api/v1/keys/s/k/"+c[0], c[1], 409)
		if a.Code != "not-settled" || a.Until.Before(ended.Add(time.Hour)) || a.Until.After(ended.Add(time.Hour+time.Second)) {
			t.Errorf("%s: %+v, it ended %s", c[0], a, ended)
		}
		for _, want := range []string{"Wait until " + a.Until.Format(time.RFC3339), "cause timeout", "attempt 1", " old", "asked about 1 times, the last by 2", "release it with now"} {
			if !strings.Contains(a.Detail, want) {
				t.Errorf("%s: it does not say %q: %s", c[0], want, a.Detail)
			}
		}
	}
	if d.record(id).State != stet.Unknown {
		t.Fatal("it was released")
	}
	if a := d.said("POST", "/api/v1/keys/s/k/release", `{"reason":"the provider has cancelled it","now":true}`, 200); a.State != "retryable" {
		t.Errorf("%+v", a)
	}
	if note := d.record(id).Note; note == nil || !strings.Contains(note.Evidence, "before it had settled") || note.Who != "kim@desk" {
		t.Errorf("the audit trail does not say so: %+v", note)
	}
	// That it happened needs no time.
	d.unknown("happened")
	d.said("POST", "/api/v1/keys/s/happened/resolve", `{"reason":"x","outcome":"completed","status":201}`, 200)
	// The default is that of the configuration, and where silence never proves anything people
	// decide at once.
	d = newDesk(t, admin.Config{Config: operate.Config{Settle: reconcile.DefaultSettle}}, nil)
	d.unknown("k")
	d.said("POST", "/api/v1/keys/s/k/release", `{"reason":"x"}`, 409)
	d = newDesk(t, admin.Config{Config: operate.Config{Settle: stet.Never}}, nil)
	d.unknown("k")
	d.said("POST", "/api/v1/keys/s/k/release", `{"reason":"x"}`, 200)
}

// An operator asks now, also about a dead letter; what was found ends the record, and that one
// asked is kept.
func TestProbeNow(t *testing.T) { // D06
	found, fails := reconcile.Finding{Effect: reconcile.Missing, Evidence: "the probe was answered 404"}, error(nil)
	r := &reconcile.Reconciler{Settle: 20 * time.Minute, Resolver: reconcile.Resolver(func(context.Context, stet.Head) (reconcile.Finding, error) { return found, fails })}
	d := newDesk(t, admin.Config{Config: operate.Config{Settle: 20 * time.Minute, Reconciler: r}, Who: "kim@desk"}, nil)
	r.Engine = d.engine
	id := d.unknown("k")
	head := d.record(id).Head
	if _, _, err := d.engine.Operator().Probing(t.Context(), &head, stet.Never, &stet.Note{Who: "reconciler", Why: "8 probes"}); err != nil {
		t.Fatal(err)
	}
	path := "/api/v1/keys/" + d.engine.Tag(id) + "/probe"
	a := d.said("POST", path, `{}`, 200)
	if a.State != "unknown" || !a.Escalated || a.Probe.Found != "missing" || a.Probe.Evidence != found.Evidence || !a.Probe.Settles.Equal(head.Ended().Add(20*time.Minute)) {
		t.Errorf("%+v", a)
	}
	d.said("POST", path, `{"if_version":"1"}`, 409)
	fails = errors.New("connection refused")
	if a := d.said("POST", path, `{"reason":"it is up again"}`, 502); a.Code != "probe-failed" || !strings.Contains(a.Detail, "connection refused") || !strings.Contains(a.Detail, "reconcile.probe.url") {
		t.Errorf("%+v", a)
	}
	fails, found = nil, reconcile.Finding{Effect: reconcile.Happened, Evidence: "ch_1", Response: &stet.Response{Status: 201}}
	a = d.said("POST", path, `{"reason":"the customer calls"}`, 200)
	if a.State != "completed" || a.Status != 201 || a.Escalated || a.Probe.Found != "happened" || !a.Probe.Settles.IsZero() {
		t.Errorf("%+v", a)
	}
	if a := d.said("POST", path, `{}`, 409); a.Code != "state-changed" || !strings.Contains(a.Detail, "completed") {
		t.Errorf("%+v", a)
	}
	if _, ok := stet.As[stet.Historian](d.engine.Store()); ok {
		_, trail := d.get("/api/v1/audit")
		for want, n := range map[string]int{`"action":"probe"`: 2, `"action":"resolve"`: 1, "asked now: the customer calls": 1, `"who":"kim@desk"`: 3,
			`"evidence":"missing, in `: 1, `"evidence":"silent, in `: 1} {
			if strings.Count(trail, want) != n {
				t.Errorf("the audit trail has not %d of %s: %s", n, want, trail)
			}
		}
	}
	d = newDesk(t, admin.Config{}, nil)
	d.unknown("k")
	if a := d.said("POST", "/api/v1/keys/s/k/probe", `{}`, 409); a.Code != "no-probe" || !strings.Contains(a.Detail, "reconcile.probe.url") {
		t.Errorf("%+v", a)
	}
}

func TestExtend(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	d.put("s", "k", answered(201))
	path := "/api/v1/keys/s/k/extend"
	a := d.said("POST", path, `{"reason":"disputed","seconds":864000.5}`, 200)
	if left := time.Until(a.ExpiresAt); left < 864000*time.Second-time.Minute || left > 864001*time.Second {
		t.Errorf("it is kept for %s", left)
	}
	if b := d.said("POST", path, `{"reason":"x","seconds":60}`, 409); b.Code != "state-changed" || !strings.Contains(b.Detail, "only lengthens") {
		t.Errorf("%+v", b)
	}
	d.said("POST", path, `{"reason":"x","seconds":1e300}`, 200)
	d.unknown("open")
	d.said("POST", "/api/v1/keys/s/open/extend", `{"reason":"x","seconds":60}`, 409)
}

// A note changes nothing, and is kept.
func TestNote(t *testing.T) {
	d := newDesk(t, admin.Config{Who: "kim@desk"}, nil)
	id := d.unknown("k")
	before := d.record(id).Version
	d.said("POST", "/api/v1/keys/s/k/note", `{"text":"asked the provider","evidence":"case 7"}`, 200)
	d.said("POST", "/api/v1/keys/s/k/note", `{"reason":"no word yet"}`, 200)
	if d.record(id).Version != before {
		t.Error("a note changed the record")
	}
	if _, ok := stet.As[stet.Historian](d.engine.Store()); !ok {
		return
	}
	_, trail := d.get("/api/v1/audit")
	for _, want := range []string{`"action":"note"`, "asked the provider", "case 7", "no word yet", `"id":"` + d.engine.Tag(id) + `"`} {
		if !strings.Contains(trail, want) {
			t.Errorf("the audit trail has no %s: %s", want, trail)
		}
	}
}

// What changes records takes a token that may.
func TestRolesOfRecordVerbs(t *testing.T) {
	d := newDesk(t, admin.Config{Tokens: tokens()}, nil)
	id := d.unknown("k")
	for token, status := range map[string]int{"": 401, "viewer-token": 403} {
		d.token = token
		for _, verb := range []string{"extend", "probe", "note"} {
			d.said("POST", "/api/v1/keys/"+url.PathEscape(d.engine.Tag(id))+"/"+verb, `{"reason":"x"}`, status)
		}
	}
	d.token = "operator-token"
	if status, _ := d.change(http.MethodPost, "/api/v1/keys/"+d.engine.Tag(id)+"/note", "reason=x", "Content-Type", "text/plain"); status != 415 {
		t.Errorf("a form: %d", status)
	}
}
