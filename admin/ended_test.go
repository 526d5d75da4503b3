package admin_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
)

// What is not unknown any more is told with who settled it and why: many of a minute as one, the
// last first, and each of them only to those who may see its scope.
func TestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, admin.Config{Tokens: []admin.Token{admin.NewToken("sue", "sue-token", operate.Operator),
			scoped(admin.NewToken("tim", "tim-token", operate.Operator), "t")}})
		at := map[string]string{}
		for _, key := range []string{"a", "b", "c"} {
			at[key] = "/api/v1/keys/" + w.engine.Tag(w.unknown("s", key, "POST /v1/charges", "panic").ID())
		}
		other := "/api/v1/keys/" + w.engine.Tag(w.unknown("t", "e", "POST /v1/charges", "panic").ID())
		ended := func(token string) []operate.Ended {
			t.Helper()
			time.Sleep(2 * time.Second) // a reading is shared for one second
			w.token = token
			var s operate.Status
			w.ask("GET", "/api/v1/status", "", 200, &s)
			return s.Ended
		}
		if all := ended("sue-token"); all == nil || len(all) > 0 {
			t.Errorf("%+v", all)
		}
		time.Sleep(time.Hour)
		w.ask("POST", at["a"]+"/note", `{"text":"look"}`, 200, nil)
		w.ask("POST", at["a"]+"/release", `{"reason":"the bank has none"}`, 200, nil)
		w.ask("POST", at["b"]+"/release", `{"reason":"the bank has none"}`, 200, nil)
		time.Sleep(time.Minute)
		w.ask("POST", at["c"]+"/release", `{"reason":"nor of this"}`, 200, nil)
		w.token = "tim-token"
		w.ask("POST", other+"/resolve", `{"outcome":"completed","status":201,"reason":"it is in the list"}`, 200, nil)
		theirs := ended("tim-token")
		if len(theirs) != 1 || theirs[0].To != "completed" || theirs[0].Count != 1 || theirs[0].Who != "tim" || "/api/v1/keys/"+theirs[0].ID != other {
			t.Errorf("tim sees %+v", theirs)
		}
		all := ended("sue-token")
		if len(all) != 3 || all[0] != theirs[0] || all[1].Count != 1 || all[1].Reason != "nor of this" || all[2].ID != "" || all[2].Count != 2 ||
			all[2].To != "retryable" || all[2].Action != "release" || all[2].Who != "sue" || all[2].Reason != "the bank has none" || all[2].At.IsZero() {
			t.Errorf("sue sees %+v", all)
		}
	})
}
