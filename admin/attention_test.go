package admin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
)

func TestSnoozeAndHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, admin.Config{Who: "kim@desk"})
		c := w.unknown("s", "k", "", "timeout")
		path := "/api/v1/keys/" + w.engine.Tag(c.ID())
		now := time.Now().UTC()
		var doc operate.Record
		w.ask("POST", path+"/snooze", fmt.Sprintf(`{"for_s":1800,"reason":"the bank looks","if_version":"%d"}`, w.head(c.ID()).Version), 200, &doc)
		want := operate.Snooze{Until: now.Add(30 * time.Minute), Who: "kim@desk", Reason: "the bank looks"}
		if doc.Snooze == nil || *doc.Snooze != want || doc.State != "unknown" {
			t.Errorf("%+v", doc)
		}
		doc = operate.Record{}
		w.ask("POST", path+"/hand", `{"to":" ben ","note":"yours"}`, 200, &doc)
		if doc.With == nil || *doc.With != (operate.Handover{To: "ben", Who: "kim@desk", Note: "yours", At: now}) || doc.Snooze == nil {
			t.Errorf("%+v", doc)
		}
		w.probed(c.ID(), time.Hour)
		doc = operate.Record{}
		if w.ask("GET", path, "", 200, &doc); doc.With == nil || doc.Snooze == nil || *doc.Snooze != want {
			t.Errorf("after a probe: %+v", doc)
		}
		time.Sleep(30 * time.Minute)
		doc = operate.Record{}
		if w.ask("GET", path, "", 200, &doc); doc.Snooze != nil || doc.With == nil {
			t.Errorf("after half an hour: %+v", doc)
		}
		until, _ := json.Marshal(time.Now().Add(time.Hour))
		doc = operate.Record{}
		if w.ask("POST", path+"/snooze", `{"until":`+string(until)+`,"reason":"lunch"}`, 200, &doc); doc.Snooze == nil || !doc.Snooze.Until.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("%+v", doc.Snooze)
		}
		doc = operate.Record{}
		if w.ask("POST", path+"/snooze", `{"for_s":0}`, 200, &doc); doc.Snooze != nil {
			t.Errorf("it was woken: %+v", doc.Snooze)
		}
		var trail struct{ Entries []operate.Entry }
		w.ask("GET", "/api/v1/audit", "", 200, &trail)
		var did []string
		for _, e := range trail.Entries {
			did = append(did, e.Action+" by "+e.Who+": "+e.Reason)
		}
		if got := strings.Join(did, "; "); got != "wake by kim@desk: woken; snooze by kim@desk: lunch; hand by kim@desk: yours; snooze by kim@desk: the bank looks" {
			t.Errorf("the audit trail has %s", got)
		}
		w.ask("POST", path+"/resolve", `{"outcome":"completed","status":201,"reason":"found it"}`, 200, nil)
		doc = operate.Record{}
		if w.ask("GET", path, "", 200, &doc); doc.With != nil || doc.Snooze != nil {
			t.Errorf("it is not unknown any more: %+v", doc)
		}
		w.ask("POST", path+"/snooze", `{"for_s":60,"reason":"x"}`, 409, nil)
		w.ask("POST", path+"/hand", `{"to":"ben"}`, 409, nil)
	})
}

func TestSnoozesAndHandsThatAreRefused(t *testing.T) {
	d := newDesk(t, admin.Config{Tokens: tokens()}, nil)
	id := d.unknown("k")
	before := d.record(id).Version
	d.token = "viewer-token"
	d.said("POST", "/api/v1/keys/s/k/snooze", `{"for_s":60,"reason":"x"}`, 403)
	d.said("POST", "/api/v1/keys/s/k/hand", `{"to":"ben"}`, 403)
	d.token = "operator-token"
	past, _ := json.Marshal(time.Now().Add(-time.Minute))
	late, _ := json.Marshal(time.Now().Add(stet.MaxSnooze + time.Hour))
	for _, c := range []struct{ verb, body, member string }{
		{"snooze", `{"reason":"x"}`, "for_s"},
		{"snooze", `{"reason":"x","for_s":60,"until":` + string(late) + `}`, "for_s"},
		{"snooze", `{"reason":"x","for_s":-1}`, "for_s"},
		{"snooze", `{"reason":"x","for_s":1e9}`, "for_s"},
		{"snooze", `{"reason":"x","until":` + string(past) + `}`, "until"},
		{"snooze", `{"reason":"x","until":` + string(late) + `}`, "until"},
		{"snooze", `{"reason":"x","until":"soon"}`, "until"},
		{"snooze", `{"for_s":60}`, "reason"},
		{"snooze", `{"for_s":60,"reason":"` + strings.Repeat("x", 1001) + `"}`, "reason"},
		{"snooze", `{"for_s":60,"reason":"a\u0000b"}`, "reason"},
		{"hand", `{"note":"x"}`, "to"},
		{"hand", `{"to":" "}`, "to"},
		{"hand", `{"to":"` + strings.Repeat("x", 101) + `"}`, "to"},
		{"hand", `{"to":"ben","reason":"x"}`, "reason"},
	} {
		if a := d.said("POST", "/api/v1/keys/s/k/"+c.verb, c.body, 400); a.Parameter != c.member {
			t.Errorf("%s %s: %+v", c.verb, c.body, a)
		}
	}
	for _, c := range [][2]string{{"snooze", `{"for_s":60,"reason":"x","if_version":"1"}`}, {"hand", `{"to":"ben","if_version":"1"}`}} {
		if a := d.said("POST", "/api/v1/keys/s/k/"+c[0], c[1], 409); a.Code != "state-changed" {
			t.Errorf("%v: %+v", c, a)
		}
	}
	if d.record(id).Version != before {
		t.Error("the record was changed")
	}
}
