package admin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/store/memstore"
)

func TestAuditIsErased(t *testing.T) { // N10
	s := memstore.New(memstore.Config{})
	d := newDesk(t, admin.Config{Who: "kim@desk"}, s)
	told := func(scope stet.Scope, key stet.Key) {
		err := d.engine.Operator().Audit(t.Context(), stet.ID{Scope: scope, Key: key}, stet.Note{Who: "ben", Why: "about " + string(key), Action: "note"})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []stet.Key{"a", "b", "c"} {
		told("t1", key)
		told("t2", key)
	}
	erase := func(body string) (int, string) { return d.change("POST", "/api/v1/audit/erase", body) }
	tag := d.engine.Tag(stet.ID{Scope: "t1", Key: "b"})
	for body, want := range map[string]string{
		`{"scope": "t1"}`:                                                 "reason",
		`{"reason": "INC-1"}`:                                             `"parameter":"scope"`,
		`{"scope": "", "reason": "INC-1"}`:                                `"parameter":"scope"`,
		`{"key": "a", "reason": "INC-1"}`:                                 `"parameter":"scope"`,
		`{"scope": "t1", "key": "", "reason": "x"}`:                       `"parameter":"key"`,
		`{"id": "k_1", "reason": "x"}`:                                    `"parameter":"id"`,
		`{"scope": "t1", "key": "a", "id": "` + tag + `", "reason": "x"}`: `"parameter":"id"`,
		`{"scope": "t1", "reason": "for t1"}`:                             `"parameter":"reason"`,
		`{"scop": "t1", "reason": "x"}`:                                   "scop",
	} {
		if status, got := erase(body); status != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", body, status, got)
		}
	}
	if n := len(d.entries("")); n != 6 {
		t.Fatalf("what was refused left %d entries", n)
	}
	for _, step := range []struct{ body, want string }{
		{`{"scope": "t1", "key": "a", "reason": "INC-1"}`, `{"erased":1}`},
		{`{"scope": "t1", "key": "a", "reason": "INC-1"}`, `{"erased":0}`},
		{`{"id": "` + tag + `", "reason": "INC-1"}`, `{"erased":1}`},
		{`{"scope": "t1", "reason": "INC-1", "evidence": "ticket 17"}`, `{"erased":1}`},
	} {
		if status, got := erase(step.body); status != 200 || strings.Join(strings.Fields(got), "") != step.want {
			t.Errorf("%s: %d %s", step.body, status, got)
		}
	}
	if n := len(d.entries("scope=t1")); n != 0 {
		t.Errorf("%d entries of the scope are left", n)
	}
	if n := len(d.entries("scope=t2")); n != 3 {
		t.Errorf("%d entries of the other scope are left", n)
	}
	done := d.entries("action=erase")
	if len(done) != 8 || done[0].Who != "kim@desk" || done[0].Reason != "INC-1" || done[0].Evidence != "entries: 1" || done[1].Evidence != "ticket 17" ||
		done[0].Scope != "" || done[0].ID != "" {
		t.Errorf("the entries of the erasures are %+v", done)
	}
	left := d.entries("who=ben")
	b, err := json.Marshal(left)
	if err != nil || strings.Contains(string(b), "t1") || strings.Contains(string(b), tag) || strings.Count(string(b), `"reason":"erased"`) != 3 {
		t.Errorf("the trail has %s", b)
	}
}

// A token that is bound to scopes erases what is in them alone.
func TestAuditIsErasedWithinScopes(t *testing.T) { // N10, D12
	d := bound(t)
	for _, scope := range []stet.Scope{"acme", "shop-1", "none"} {
		if err := d.engine.Operator().Audit(t.Context(), stet.ID{Scope: scope, Key: "told"}, stet.Note{Who: "ben", Action: "note"}); err != nil {
			t.Fatal(err)
		}
	}
	of := func(scope stet.Scope) string { return d.engine.Tag(stet.ID{Scope: scope, Key: "told"}) }
	for _, step := range []struct {
		token, body, want string
		status            int
	}{
		{"token-of-acme", `{"scope": "none", "reason": "x"}`, "forbidden", 403},
		{"token-of-acme", `{"scope": "none", "key": "told", "reason": "x"}`, "forbidden", 403},
		{"token-of-acme", `{"id": "` + of("none") + `", "reason": "x"}`, `"erased": 0`, 200},
		{"token-of-shops", `{"id": "` + of("none") + `", "reason": "x"}`, "forbidden", 403},
		{"token-of-shops", `{"scope": "other", "id": "` + of("none") + `", "reason": "x"}`, `"erased": 0`, 200},
		{"token-of-shops", `{"scope": "shop-1", "id": "` + of("shop-1") + `", "reason": "x"}`, `"erased": 1`, 200},
		{"token-of-acme", `{"id": "` + of("acme") + `", "reason": "x"}`, `"erased": 1`, 200},
		{"token-of-all", `{"id": "` + of("none") + `", "reason": "x"}`, `"erased": 1`, 200},
	} {
		d.token = step.token
		if status, got := d.change("POST", "/api/v1/audit/erase", step.body); status != step.status || !strings.Contains(strings.ReplaceAll(got, `":`, `": `), step.want) {
			t.Errorf("%s, %s: %d %s", step.token, step.body, status, got)
		}
	}
}
