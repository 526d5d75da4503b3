package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
)

// change sends a change, and returns status and body.
func (d *desk) change(method, path, body string, header ...string) (int, string) {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if d.token != "" {
		r.Header.Set("Authorization", "Bearer "+d.token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// unknown makes a record whose outcome is unknown.
func (d *desk) unknown(key string) stet.ID {
	d.Helper()
	id := stet.ID{Scope: "s", Key: stet.Key(key)}
	got, err := d.engine.Begin(d.Context(), stet.Request{ID: id, Subject: stet.Subject{Body: []byte("1")}})
	if err != nil || got.Claim == nil {
		d.Fatal(got.Verdict, err)
	}
	got.Claim.Unknown("timeout")
	if err := got.Claim.Settle(d.Context(), stet.Outcome{}); err != nil {
		d.Fatal(err)
	}
	return id
}

func TestResolveReleaseDelete(t *testing.T) {
	d := newDesk(t, admin.Config{Who: "kim@desk"}, nil)
	id := d.unknown("k")
	status, body := d.change("POST", "/api/v1/keys/s/"+d.engine.Tag(id)+"/resolve",
		`{"outcome":"completed","status":201,"headers":{"content-type":["text/x"]},"body":"ch_1","evidence":"ch_1","reason":"asked"}`)
	var doc operate.Record
	if err := json.Unmarshal([]byte(body), &doc); status != 200 || err != nil || doc.State != "completed" || doc.Status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	r, err := d.engine.Get(t.Context(), id)
	if err != nil || string(r.Response.Body) != "ch_1" || r.Response.Header[0].Name != "Content-Type" || r.Note == nil || r.Note.Who != "kim@desk" || r.Note.Why != "asked" {
		t.Errorf("%+v, %v", r, err)
	}
	if status, body := d.change("DELETE", "/api/v1/keys/s/k?reason=wrong", ""); status != 204 || body != "" {
		t.Errorf("%d %s", status, body)
	}
	d.unknown("k2")
	if status, body := d.change("POST", "/api/v1/keys/s/k2/release", `{"reason":"never arrived"}`); status != 200 || !strings.Contains(body, `"retryable"`) {
		t.Errorf("%d %s", status, body)
	}
	if _, ok := stet.As[stet.Historian](d.engine.Store()); !ok {
		return // without a history there is no audit trail
	}
	if _, body := d.get("/api/v1/audit"); strings.Count(body, `"who":"kim@desk"`) != 3 {
		t.Errorf("%s", body)
	}
}

func TestChangesThatAreRefused(t *testing.T) {
	d := newDesk(t, admin.Config{}, nil)
	id := d.unknown("k")
	before, _ := d.engine.Get(t.Context(), id)
	const resolve, release = "/api/v1/keys/s/k/resolve", "/api/v1/keys/s/k/release"
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		code               string
		header             []string
	}{
		"no reason":               {"POST", release, `{}`, 400, "reason-required", nil},
		"no reason to delete":     {"DELETE", "/api/v1/keys/s/k", "", 400, "reason-required", nil},
		"no outcome":              {"POST", resolve, `{"reason":"x"}`, 400, "bad-parameter", nil},
		"no status":               {"POST", resolve, `{"reason":"x","outcome":"completed"}`, 400, "bad-parameter", nil},
		"two bodies":              {"POST", resolve, `{"reason":"x","outcome":"completed","status":200,"body":"a","body_b64":"YQ=="}`, 400, "bad-parameter", nil},
		"header injection":        {"POST", resolve, `{"reason":"x","outcome":"completed","status":200,"headers":{"X":["a\r\nb"]}}`, 400, "bad-parameter", nil},
		"an unknown member":       {"POST", resolve, `{"reason":"x","outcomes":"completed"}`, 400, "bad-parameter", nil},
		"two documents":           {"POST", release, `{"reason":"x"}{}`, 400, "bad-parameter", nil},
		"too long":                {"POST", release, `{"reason":"` + strings.Repeat("x", 3<<20) + `"}`, 400, "bad-parameter", nil},
		"a form":                  {"POST", release, `reason=x`, 415, "not-json", []string{"Content-Type", "text/plain"}},
		"another origin":          {"POST", release, `{"reason":"x"}`, 403, "forbidden", []string{"Origin", "http://evil.example"}},
		"deleted elsewhere":       {"DELETE", "/api/v1/keys/s/k?reason=x", "", 403, "forbidden", []string{"Origin", "null"}},
		"another version":         {"POST", release, fmt.Sprintf(`{"reason":"x","if_version":%d}`, uint64(before.Version)^1), 409, "state-changed", nil},
		"delete of an unknown":    {"DELETE", "/api/v1/keys/s/k?reason=x", "", 409, "state-changed", nil},
		"an absent record":        {"POST", "/api/v1/keys/s/none/release", `{"reason":"x"}`, 404, "not-found", nil},
		"a version that is none":  {"DELETE", "/api/v1/keys/s/k?reason=x&if_version=y", "", 400, "bad-parameter", nil},
		"a limit that is none":    {"GET", "/api/v1/audit?limit=0", "", 400, "bad-parameter", nil},
		"an unknown audit filter": {"GET", "/api/v1/audit?whoever=x", "", 400, "bad-parameter", nil},
	} {
		if status, body := d.change(c.method, c.path, c.body, c.header...); status != c.status || !strings.Contains(body, `"code":"`+c.code+`"`) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if after, _ := d.engine.Get(t.Context(), id); after.Version != before.Version {
		t.Error("the record was changed")
	}
}

func TestRolesOfChanges(t *testing.T) {
	d := newDesk(t, admin.Config{Tokens: only(admin.NewToken("v", "see", operate.Viewer), admin.NewToken("o", "do", operate.Operator), admin.NewToken("a", "all", operate.Admin))}, nil)
	for token, want := range map[string][2]int{"": {401, 401}, "see": {403, 403}, "do": {200, 403}, "all": {200, 204}} {
		d.token = token
		d.unknown("k" + token)
		if status, body := d.change("POST", "/api/v1/keys/s/k"+token+"/release", `{"reason":"x"}`); status != want[0] {
			t.Errorf("release by %q: %d %s", token, status, body)
		}
		if status, body := d.change("DELETE", "/api/v1/keys/s/k"+token+"?reason=x", ""); status != want[1] {
			t.Errorf("delete by %q: %d %s", token, status, body)
		}
	}
}

// What the record knows is said to who would free its key all the same, and overridden only by who
// says so, for all to see.
func TestReleaseAgainstWhatTheRecordKnows(t *testing.T) { // A03, A04, I16
	d := newDesk(t, admin.Config{Who: "kim@desk"}, nil)
	begun := func(key string) *stet.Claim {
		got, err := d.engine.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(key)}, Subject: stet.Subject{Body: []byte("1")}})
		if err != nil || got.Claim == nil {
			t.Fatal(got.Verdict, err)
		}
		return got.Claim
	}
	attended := begun("attended")
	attended.Overdue("execution-timeout")
	if err := attended.Settle(t.Context(), stet.Outcome{}); err != nil {
		t.Fatal(err)
	}
	late := begun("late")
	late.Unknown("lease-lapsed")
	if err := late.Settle(t.Context(), stet.Outcome{}); err != nil {
		t.Fatal(err)
	}
	if r, err := d.engine.Get(t.Context(), late.ID()); err != nil {
		t.Fatal(err)
	} else if _, _, err := d.engine.Operator().Probing(t.Context(), &r.Head, 0, nil); err != nil { // it was touched
		t.Fatal(err)
	}
	late.Completed()
	if err := late.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err == nil {
		t.Fatal("it was not too late")
	}
	for key, want := range map[string][2]string{"attended": {"not-settled", "with now"}, "late": {"contradicted", "with override"}} {
		for _, verb := range []string{"/release", "/resolve"} {
			status, body := d.change("POST", "/api/v1/keys/s/"+key+verb, `{"reason":"x","outcome":"not-executed"}`)
			if status != 409 || !strings.Contains(body, `"code":"`+want[0]+`"`) || !strings.Contains(body, want[1]) {
				t.Errorf("%s%s: %d %s", key, verb, status, body)
			}
		}
		if status, body := d.change("POST", "/api/v1/keys/s/"+key+"/release", `{"reason":"refunded by hand","override":true}`); status != 200 {
			t.Errorf("%s: %d %s", key, status, body)
		}
	}
	if _, ok := stet.As[stet.Historian](d.engine.Store()); !ok {
		return
	}
	_, body := d.get("/api/v1/audit")
	for _, against := range []string{"against a late answer with status 201", "against a handler that had not returned"} {
		if !strings.Contains(body, against) {
			t.Errorf("the audit trail does not say %q: %s", against, body)
		}
	}
}
