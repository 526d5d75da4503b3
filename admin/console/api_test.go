package console_test

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/console"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// counted is an API of which it is known what was asked.
type counted struct {
	*fake
	asked []string
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/whoami" { // costs nothing where the API is in the process
		c.asked = append(c.asked, r.Method+" "+r.URL.Path)
	}
	c.fake.ServeHTTP(w, r)
}

// A release is three calls of the API: the release itself, and the record and its history for the
// page that follows, beside the status in the frame of every page.
func TestAReleaseIsFewCalls(t *testing.T) {
	f := newFake()
	f.settle()
	c := &counted{fake: f}
	v := as(t, door{c}, "operator")
	page := v.page("/keys/" + cutID + "/released")
	c.asked = nil
	res, _ := v.submit(page, "/keys/"+cutID+"/release", url.Values{"reason": {"INC-1"}})
	v.page(res.Header.Get("Location"))
	at := "/api/v1/keys/" + cutID
	if want := []string{"POST " + at + "/release", "GET " + at, "GET /api/v1/audit", "GET /api/v1/status"}; !slices.Equal(c.asked, want) {
		t.Errorf("%d: %q", res.StatusCode, c.asked)
	}
}

// A form that does not say what it was decided on changes nothing.
func TestAFormSaysWhatItWasDecidedOn(t *testing.T) {
	s := newShop(t, stet.Never)
	v := as(t, s.api, "admin")
	at := "/keys/" + s.id("lost-0")
	for from, form := range map[string]url.Values{
		at + "/released":                    {"reason": {"r"}},
		at + "/happened":                    {"reason": {"r"}, "type": {""}},
		"/keys/" + s.id("done") + "/forget": {"reason": {"r"}, "id": {s.id("done")}},
	} {
		action := map[string]string{"released": "release", "happened": "resolve", "forget": "forget"}[from[strings.LastIndex(from, "/")+1:]]
		action = from[:strings.LastIndex(from, "/")+1] + action
		form.Set("if_basis", "")
		if res, _ := v.submit(v.page(from), action, form); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", action, res.StatusCode)
		}
	}
	if s.state("lost-0") != stet.Unknown || s.state("done") != stet.Completed {
		t.Error("something was changed")
	}
}

// An API that cannot be used says why, and its pages do.
func TestAnAPIThatCannotBeUsed(t *testing.T) {
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	v := visit(t, admin.New(e, admin.Config{Config: operate.Config{Settle: -time.Second}}), console.Config{})
	for _, method := range []string{"GET", "POST"} {
		res, page := v.send(method, map[string]string{"GET": "/unknown", "POST": "/login"}[method], url.Values{"token": {"x"}})
		if says(t, method, page, "The admin API cannot be used", "Settle"); res.StatusCode != 500 {
			t.Errorf("%s: %d", method, res.StatusCode)
		}
	}
}

// What is shown is a copy: the API may have the same document for others.
func TestWhatIsShownIsACopy(t *testing.T) {
	hostile := func() operate.Incident {
		return operate.Incident{Route: "a\u202eb", With: []string{"\x00"}, Probes: map[string]int{"\x01": 1},
			Keys: []operate.Record{{Cause: "\u2066", Late: &operate.LateAnswer{Status: 200}, Asking: &operate.Asking{Count: 1},
				Snooze: &operate.Snooze{Who: "\x07"}, Response: &operate.Response{Body: []byte("\x00")}}}}
	}
	was, now := hostile(), console.Tidied(operate.IncidentList{Incidents: []operate.Incident{hostile()}}).Incidents[0]
	given := hostile()
	if console.Tidied(given); !reflect.DeepEqual(given, was) {
		t.Error("the API's own document was rewritten")
	}
	if now.Route != `a\u202eb` || now.With[0] != `\u0000` || now.Probes[`\u0001`] != 1 || now.Keys[0].Cause != `\u2066` ||
		now.Keys[0].Snooze.Who != `\u0007` || now.Keys[0].Late.Status != 200 || string(now.Keys[0].Response.Body) != "\x00" {
		t.Errorf("%+v", now)
	}
	if any := console.Tidied(map[string]any{"a": []string{"\x00"}}); any["a"].([]string)[0] != `\u0000` {
		t.Errorf("in a value of any kind: %q", any)
	}
	if list := console.Tidied(operate.RecordList{NextCursor: "\x00"}); list.NextCursor != "\x00" {
		t.Errorf("the cursor is %q", list.NextCursor)
	}
}
