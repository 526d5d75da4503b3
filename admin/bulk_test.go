package admin_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
)

// newBulkDesk is a desk whose jobs are run.
func newBulkDesk(t *testing.T, c admin.Config) *desk {
	t.Helper()
	c.Jobs, c.Settle = operate.NewJobs(), stet.Never
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Jobs.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-ended })
	return newDesk(t, c, nil)
}

// bulk sends a body, and returns what is answered.
func (d *desk) bulk(path, body string) (int, map[string]any) {
	d.Helper()
	req, err := http.NewRequest(http.MethodPost, d.url+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		d.Fatal(err)
	}
	defer res.Body.Close()
	var doc map[string]any
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		d.Fatal(err)
	}
	return res.StatusCode, doc
}

// ended waits for the end of a job.
func (d *desk) ended(job any) map[string]any {
	d.Helper()
	for d.Context().Err() == nil {
		if doc := d.doc(fmt.Sprint("/api/v1/bulk/", job)); doc["state"] == "completed" {
			return doc
		}
	}
	d.Fatal("the job did not end")
	return nil
}

func TestBulk(t *testing.T) {
	d := newBulkDesk(t, admin.Config{Who: "otto"})
	for i := range 300 {
		d.put("t1", stet.Key(fmt.Sprint("lost-", i)), unknown)
	}
	d.put("t2", "other", unknown)
	status, count := d.bulk("/api/v1/bulk/count", `{"action":"release","filter":{"scope":"t1"}}`)
	if status != 200 || count["matching"] != 300.0 || count["oldest"] == nil || fmt.Sprint(count["states"]) != "map[unknown:300]" {
		t.Fatalf("%d %v", status, count)
	}
	status, bad := d.bulk("/api/v1/bulk", `{"action":"release","filter":{"scope":"t1"},"expect":299,"reason":"tests"}`)
	if status != 409 || bad["code"] != "expect-mismatch" || bad["expect"] != 299.0 || bad["matching"] != 300.0 || !strings.Contains(fmt.Sprint(bad["detail"]), "299") {
		t.Errorf("%d %v", status, bad)
	}
	status, job := d.bulk("/api/v1/bulk", `{"action":"release","filter":{"scope":"t1","older_than_s":0},"expect":300,"now":true,"reason":"tests","evidence":"ticket 7"}`)
	if status != 202 || len(job) != 1 {
		t.Fatalf("%d %v", status, job)
	}
	end := d.ended(job["job"])
	if end["done"] != 300.0 || end["failed"] != 0.0 || end["left"] != 0.0 || end["who"] != "otto" || end["reason"] != "tests" || end["action"] != "release" ||
		fmt.Sprint(end["filter"]) != "map[scope:t1 state:unknown]" || end["errors"] == nil || end["created_at"] == nil || end["completed_at"] == nil {
		t.Errorf("%v", end)
	}
	if recent := d.doc("/api/v1/bulk")["jobs"].([]any); len(recent) != 1 || recent[0].(map[string]any)["job"] != job["job"] {
		t.Errorf("%v", recent)
	}
	if keys := d.doc("/api/v1/keys?limit=1000")["keys"].([]any); len(keys) != 301 {
		t.Errorf("%d records are listed", len(keys))
	}
	actions := map[string]int{}
	for _, e := range d.doc("/api/v1/audit?limit=1000")["entries"].([]any) {
		entry := e.(map[string]any)
		actions[entry["action"].(string)]++
		if entry["who"] != "otto" || entry["reason"] != "tests" || entry["notice"] != job["job"] {
			t.Fatalf("%v", entry)
		}
	}
	if fmt.Sprint(actions) != "map[bulk:1 release:300]" {
		t.Errorf("%v", actions)
	}
	notice := "notice=" + fmt.Sprint(job["job"])
	if got := d.entries(notice + "&action=bulk"); len(got) != 1 || got[0].Job != job["job"] || got[0].ID != "" {
		t.Errorf("%+v", got)
	}
	if got := d.entries(notice + "&limit=1000"); len(got) != 301 || got[0].Job != "" || got[0].ID == "" {
		t.Errorf("%d entries, %+v", len(got), got)
	}
	if got := d.entries("notice=bulk_other"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// What it takes for one record it takes for many; and what is in another token's scope is not
// there.
func TestBulkRoles(t *testing.T) {
	bound := admin.NewToken("tina", "tina-token", operate.Admin)
	bound.Scopes = []string{"t1"}
	all := append(tokens(), bound)
	d := newBulkDesk(t, admin.Config{Tokens: only(all...)})
	d.put("t1", "lost", unknown)
	d.put("t2", "lost", unknown)
	order := func(action, scope string, expect int) string {
		return fmt.Sprintf(`{"action":%q,"filter":{"state":"unknown"%s},"expect":%d,"reason":"tests"}`, action, scope, expect)
	}
	for _, c := range []struct {
		token, body string
		status      int
		code        any
	}{
		{"viewer-token", order("release", "", 2), 403, "forbidden"},
		{"operator-token", order("delete", "", 2), 403, "forbidden"},
		{"tina-token", order("release", `,"scope":"t2"`, 1), 404, "not-found"},
		{"tina-token", order("release", "", 2), 409, "expect-mismatch"}, // of hers there is one
		{"tina-token", order("release", "", 1), 202, nil},
		{"admin-token", order("release", `,"scope":"t2"`, 1), 202, nil},
	} {
		d.token = c.token
		status, doc := d.bulk("/api/v1/bulk", c.body)
		if status != c.status || doc["code"] != c.code {
			t.Errorf("%s: %s: %d %v", c.token, c.body, status, doc)
		}
		if status == 202 {
			d.ended(doc["job"])
			d.token = "tina-token"
			if res, _ := d.get(fmt.Sprint("/api/v1/bulk/", doc["job"])); (res.StatusCode == 200) != (c.token == "tina-token") {
				t.Errorf("a job of %s is shown to tina with %d", c.token, res.StatusCode)
			}
		}
	}
	d.token = "tina-token"
	if jobs := d.doc("/api/v1/bulk")["jobs"].([]any); len(jobs) != 1 {
		t.Errorf("tina sees %v", jobs)
	}
	d.refused("/api/v1/bulk/bulk_none", 404, "not-found")
}

func TestBadBulk(t *testing.T) {
	d := newBulkDesk(t, admin.Config{})
	d.put("t1", "k", unknown)
	for body, want := range map[string]string{
		`{"action":"undo","filter":{"scope":"t1"},"expect":1,"reason":"x"}`:                            "action",
		`{"action":"probe","filter":{"scope":"t1"},"expect":1,"reason":"x"}`:                           "action",
		`{"action":"release","ids":[],"expect":1,"reason":"x"}`:                                        "ids",
		`{"action":"release","ids":[],"filter":{"scope":"t1"},"expect":1,"reason":"x"}`:                "ids",
		`{"action":"release","ids":["k_0123456789abcdef@"],"expect":1,"reason":"x"}`:                   "ids",
		`{"action":"snooze","filter":{"scope":"t1"},"expect":1,"reason":"x"}`:                          "until",
		`{"action":"hand","filter":{"scope":"t1"},"expect":1,"reason":"x"}`:                            "to",
		`{"action":"release","filter":{"scope":"t1"},"expect":1,"reason":"x","note":"n"}`:              "note",
		`{"action":"hand","to":"` + strings.Repeat("x", 101) + `","filter":{"scope":"t1"},"expect":1}`: "to",
		`{"action":"release","filter":{"scope":"t1"},"reason":"x"}`:                                    "expect",
		`{"action":"release","filter":{},"expect":1,"reason":"x"}`:                                     "filter",
		`{"action":"release","expect":1,"reason":"x"}`:                                                 "filter",
		`{"action":"release","filter":{"sate":"unknown"},"expect":1,"reason":"x"}`:                     "filter",
		`{"action":"release","filter":{"scope":""},"expect":1,"reason":"x"}`:                           "filter",
		`{"action":"release","filter":{"state":"unknown","scope":""},"expect":1,"reason":"x"}`:         "filter",
		`{"action":"release","filter":{"limit":5},"expect":1,"reason":"x"}`:                            "filter",
		`{"action":"release","filter":{"scope":" stet"},"expect":1,"reason":"x"}`:                      "filter",
		`{"action":"release","filter":[],"expect":1,"reason":"x"}`:                                     "filter",
		`{"action":"release","filter":{"scope":"t1"},"expect":1,"reason":" "}`:                         "reason",
		`{"action":"extend","filter":{"scope":"t1"},"expect":1,"reason":"x"}`:                          "seconds",
		`{"action":"release","filter":{"scope":"t1"},"expect":1,"reason":"x","seconds":5}`:             "seconds",
		`{"action":"delete","filter":{"scope":"t1"},"expect":1,"reason":"x","now":true}`:               "now",
		`{"action":"delete","filter":{"scope":"t1"},"expect":1,"reason":"x","override":true}`:          "override",
		`{"action":"release","filter":{"scope":"t1"},"expect":"1","reason":"x"}`:                       "expect",
		`{"action":"release","filter":{"scope":"t1"},"expect":1,"reason":"x","dry":true}`:              "dry",
	} {
		if status, doc := d.bulk("/api/v1/bulk", body); status != 400 || doc["parameter"] != want || doc["detail"] == "" {
			t.Errorf("%s: %d %v", body, status, doc)
		}
	}
	if jobs := d.doc("/api/v1/bulk")["jobs"].([]any); len(jobs) != 0 {
		t.Errorf("%v", jobs)
	}
}

// A job may name its records by their ids, in place of a filter.
func TestBulkNamed(t *testing.T) {
	all, one := admin.NewToken("otto", "token-of-all-scopes", operate.Admin), admin.NewToken("one", "token-of-one-scope", operate.Admin)
	one.Scopes = []string{"t1", "t3"}
	d := newBulkDesk(t, admin.Config{Tokens: []admin.Token{all, one}})
	id := map[string]string{}
	for _, name := range []string{"t1/a", "t1/b", "t1/c", "t2/a", "t3/a"} {
		scope, key, _ := strings.Cut(name, "/")
		d.put(stet.Scope(scope), stet.Key(key), unknown)
		id[name] = d.engine.Tag(stet.ID{Scope: stet.Scope(scope), Key: stet.Key(key)})
	}
	order := func(expect int, more string, names ...string) string {
		var ids []string
		for _, n := range names {
			ids = append(ids, id[n])
		}
		doc, _ := json.Marshal(ids)
		return fmt.Sprintf(`{"action":"release","ids":%s,"expect":%d,"now":true,"reason":"tests"%s}`, doc, expect, more)
	}
	for _, c := range []struct {
		token, body string
		status      int
		code        string
	}{
		{"token-of-all-scopes", order(2, "", "t1/a"), 409, "expect-mismatch"},
		{"token-of-all-scopes", order(1, `,"filter":{"state":"unknown"}`, "t1/a"), 400, "bad-parameter"},
		{"token-of-all-scopes", order(1, `,"limit":1`, "t1/a"), 400, "bad-parameter"},
		{"token-of-all-scopes", order(2, "", "t1/a", "t1/a"), 400, "bad-parameter"},
		{"token-of-all-scopes", `{"action":"release","ids":["a"],"expect":1,"reason":"tests"}`, 400, "bad-parameter"},
		{"token-of-one-scope", order(1, "", "t2/a"), 409, "expect-mismatch"},
		{"token-of-one-scope", order(2, "", "t1/a", "t3/a"), 400, "bad-parameter"},
	} {
		d.token = c.token
		if status, doc := d.bulk("/api/v1/bulk", c.body); status != c.status || doc["code"] != c.code {
			t.Errorf("%s: %d %v", c.body, status, doc)
		}
	}
	d.token = "token-of-one-scope"
	status, job := d.bulk("/api/v1/bulk", order(2, "", "t1/a", "t1/c"))
	if status != 202 {
		t.Fatalf("%d %v", status, job)
	}
	if end := d.ended(job["job"]); end["done"] != 2.0 || fmt.Sprint(end["filter"]) != "map[scope:t1]" {
		t.Errorf("%v", end)
	}
	d.token = "token-of-all-scopes"
	if keys := d.doc("/api/v1/keys?state=unknown")["keys"].([]any); len(keys) != 3 {
		t.Errorf("%d are unknown", len(keys))
	}
}

// A key that is named with a version is changed at that version alone, and the report says which
// were left.
func TestBulkVersions(t *testing.T) {
	d := newBulkDesk(t, admin.Config{})
	var ids []string
	for _, key := range []stet.Key{"a", "b"} {
		d.put("t1", key, unknown)
		r, err := d.engine.Get(t.Context(), stet.ID{Scope: "t1", Key: key})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, fmt.Sprintf("%q", fmt.Sprintf("%s@%s", r.Tag, r.Basis())))
	}
	if _, err := d.engine.Operator().Hand(t.Context(), stet.ID{Scope: "t1", Key: "b"}, 0, "ann", stet.Note{Who: "otto", Why: "tests"}); err != nil {
		t.Fatal(err)
	}
	status, job := d.bulk("/api/v1/bulk", `{"action":"hand","to":"bob","note":"look","ids":[`+strings.Join(ids, ",")+`],"expect":2}`)
	if status != 202 {
		t.Fatalf("%d %v", status, job)
	}
	end := d.ended(job["job"])
	if end["done"] != 1.0 || end["left"] != 1.0 || end["failed"] != 0.0 || end["to"] != "bob" || end["reason"] != "look" {
		t.Errorf("%v", end)
	}
	res, body := d.get(fmt.Sprint("/api/v1/bulk/", job["job"], "/report"))
	var line operate.Failure
	if err := json.Unmarshal([]byte(body), &line); err != nil || res.Header.Get("Content-Type") != "application/x-ndjson" || !line.Left ||
		line.Cause != "state-changed" || line.Detail == "" || strings.Count(body, "\n") != 1 || !strings.HasPrefix(ids[1], `"`+line.ID) {
		t.Errorf("%s %v: %q", res.Header.Get("Content-Type"), err, body)
	}
	if res, _ := d.get("/api/v1/bulk/bulk_none/report"); res.StatusCode != 404 {
		t.Error(res.StatusCode)
	}
}

// A job is stopped by who may change records.
func TestBulkStop(t *testing.T) {
	bound := admin.NewToken("tina", "tina-token", operate.Admin)
	bound.Scopes = []string{"t2"}
	d := newDesk(t, admin.Config{Config: operate.Config{Jobs: operate.NewJobs()}, Tokens: append(tokens(), bound)}, nil) // nothing works on its jobs
	d.put("t1", "done", func(*stet.Claim) stet.Outcome { return stet.Outcome{Response: stet.Response{Status: 201}} })
	d.token = "admin-token"
	status, started := d.bulk("/api/v1/bulk", `{"action":"delete","filter":{"scope":"t1"},"expect":1,"reason":"tests"}`)
	if status != 202 {
		t.Fatalf("%d %v", status, started)
	}
	at := fmt.Sprint("/api/v1/bulk/", started["job"], "/stop")
	for _, c := range []struct {
		token, body string
		status      int
		told        any // the code, or the state
	}{
		{"viewer-token", `{"reason":"x"}`, 403, "forbidden"},
		{"tina-token", `{"reason":"x"}`, 404, "not-found"},
		{"operator-token", `{}`, 400, "reason-required"},
		{"operator-token", `{"reason":"x"}`, 200, "running"},
		{"operator-token", `{"reason":"x"}`, 409, "state-changed"},
	} {
		d.token = c.token
		status, doc := d.bulk(at, c.body)
		if told := cmp.Or(doc["code"], doc["state"]); status != c.status || told != c.told {
			t.Errorf("%s %s: %d %v", c.token, c.body, status, doc)
		}
	}
	about := 0
	for _, e := range d.entries(fmt.Sprint("notice=", started["job"])) {
		if e.Job == started["job"] && e.ID == "" {
			about++
		}
	}
	if about != 2 { // a start and a stop
		t.Errorf("%d entries are about the job", about)
	}

	// The job's records are for jobs alone: nothing is done to them as if they were a client's.
	job := stet.ID{Scope: stet.OwnScope, Key: stet.Key(fmt.Sprint(started["job"]))}
	before := d.record(job).Version
	d.token = "admin-token"
	for _, c := range [][2]string{{"resolve", `{"reason":"x","outcome":"completed","status":200}`}, {"release", `{"reason":"x","override":true}`},
		{"note", `{"reason":"x"}`}, {"extend", `{"reason":"x","seconds":60}`}, {"snooze", `{"reason":"x","for_s":60}`}} {
		for _, name := range []string{string(job.Key), d.engine.Tag(job)} {
			d.said("POST", "/api/v1/keys/%20stet/"+name+"/"+c[0], c[1], 404)
		}
	}
	d.said("DELETE", "/api/v1/keys/%20stet/"+string(job.Key)+"?reason=x", "", 404)
	if d.record(job).Version != before {
		t.Error("the job was changed")
	}
}
