package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/store/memstore"
)

// newBulkDesk is a desk whose jobs are run.
func newBulkDesk(t *testing.T, c admin.Config) *desk {
	t.Helper()
	store := memstore.New(memstore.Config{})
	e, err := stet.New(store, stet.Config{Pepper: []byte("pepper")})
	if err != nil {
		t.Fatal(err)
	}
	c.Bulk, c.Settle = bulk.New(e), stet.Never
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Bulk.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-ended })
	return newDesk(t, c, store)
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
	status, job := d.bulk("/api/v1/bulk", `{"action":"release","filter":{"scope":"t1","older_than_s":0},"expect":300,"reason":"tests","evidence":"ticket 7"}`)
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
}

// What it takes for one record it takes for many; and what is in another token's scope is not
// there.
func TestBulkRoles(t *testing.T) {
	bound := admin.NewToken("tina", "tina-token", admin.Admin)
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
		`{"action":"resolve","filter":{"scope":"t1"},"expect":1,"reason":"x"}`:                 "action",
		`{"action":"release","filter":{"scope":"t1"},"reason":"x"}`:                            "expect",
		`{"action":"release","filter":{},"expect":1,"reason":"x"}`:                             "filter",
		`{"action":"release","expect":1,"reason":"x"}`:                                         "filter",
		`{"action":"release","filter":{"sate":"unknown"},"expect":1,"reason":"x"}`:             "filter",
		`{"action":"release","filter":{"scope":""},"expect":1,"reason":"x"}`:                   "filter",
		`{"action":"release","filter":{"state":"unknown","scope":""},"expect":1,"reason":"x"}`: "filter",
		`{"action":"release","filter":{"limit":5},"expect":1,"reason":"x"}`:                    "filter",
		`{"action":"release","filter":{"scope":" stet"},"expect":1,"reason":"x"}`:              "filter",
		`{"action":"release","filter":[],"expect":1,"reason":"x"}`:                             "filter",
		`{"action":"release","filter":{"scope":"t1"},"expect":1,"reason":" "}`:                 "reason",
		`{"action":"extend","filter":{"scope":"t1"},"expect":1,"reason":"x"}`:                  "seconds",
		`{"action":"release","filter":{"scope":"t1"},"expect":1,"reason":"x","seconds":5}`:     "seconds",
		`{"action":"delete","filter":{"scope":"t1"},"expect":1,"reason":"x","now":true}`:       "now",
		`{"action":"delete","filter":{"scope":"t1"},"expect":1,"reason":"x","override":true}`:  "override",
		`{"action":"release","filter":{"scope":"t1"},"expect":"1","reason":"x"}`:               "expect",
		`{"action":"release","filter":{"scope":"t1"},"expect":1,"reason":"x","dry":true}`:      "dry",
	} {
		if status, doc := d.bulk("/api/v1/bulk", body); status != 400 || doc["parameter"] != want || doc["detail"] == "" {
			t.Errorf("%s: %d %v", body, status, doc)
		}
	}
	if jobs := d.doc("/api/v1/bulk")["jobs"].([]any); len(jobs) != 0 {
		t.Errorf("%v", jobs)
	}
}
