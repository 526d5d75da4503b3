package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/memstore"
)

// stores are those at hand without a server; internal/integration/notices has the others.
var stores = map[string]func(t *testing.T) stet.Store{
	"memory": func(*testing.T) stet.Store { return memstore.New(memstore.Config{}) },
	"file": func(t *testing.T) stet.Store {
		s, err := filestore.Open(t.TempDir(), filestore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	},
}

// onStore is a ward on a store of the table, with one record: the outcome of its first attempt is
// unknown.
func onStore(t *testing.T, open func(t *testing.T) stet.Store) (*ward, *Webhook) {
	w := wardOn(t, open(t))
	w.doubt(stet.Execute)
	return w, &Webhook{Engine: w.Engine, Secrets: []string{secret}}
}

// doubt lets an attempt run whose answer is lost.
func (w *ward) doubt(want stet.Verdict) (attempt int, fence int64) {
	w.t.Helper()
	c := w.begin(0, want)
	c.Unknown("lost")
	if err := c.Settle(w.t.Context(), stet.Outcome{}); err != nil {
		w.t.Fatal(err)
	}
	for r := w.state(0); r.Attended(); r = w.state(0) { // the way to the store and back may count as a handler's
		runtime.Gosched()
	}
	return c.Attempt(), c.Fence()
}

// toldBy is the word of an answer: its result, or its problem's code.
func toldBy(t *testing.T, a *httptest.ResponseRecorder) string {
	t.Helper()
	var doc struct{ Result, Code, Detail, Type string }
	if err := json.Unmarshal(a.Body.Bytes(), &doc); err != nil {
		t.Fatalf("%d %s: %v", a.Code, a.Body, err)
	}
	if media := a.Header().Get("Content-Type"); (media == "application/json") != (a.Code == 200) || (doc.Detail != "") != (a.Code != 200) {
		t.Errorf("%d is %s: %+v", a.Code, media, doc)
	}
	return fmt.Sprint(a.Code, " ", doc.Result+doc.Code)
}

// A notice that is delivered again, also signed anew, frees nothing that came after it.
func TestANoticeThatComesAgainRunsNothing(t *testing.T) { // A01, I1, I14
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			w, hook := onStore(t, open)
			notice, now := w.notice(0, `"outcome":"not-executed","evidence":"evt_1"`), time.Now()
			for i := range 2 { // at once, and once more before the retry
				want := []string{"200 resolved", "200 known"}[i]
				if a := redeliver(hook, "msg_1", notice, secret, now); toldBy(t, a) != want {
					t.Errorf("%s, want %s", toldBy(t, a), want)
				}
			}
			if attempt, _ := w.doubt(stet.Execute); attempt != 2 { // it has its effect, and its answer is lost
				t.Fatal(attempt)
			}
			for what, at := range map[string]time.Time{"the same bytes": now, "signed anew": now.Add(time.Minute)} {
				if a := redeliver(hook, "msg_1", notice, secret, at); toldBy(t, a) != "200 known" {
					t.Errorf("%s: %s", what, toldBy(t, a))
				}
				w.begin(0, stet.Unresolved)
			}
			if a := redeliver(hook, "msg_2", notice, secret, now); toldBy(t, a) != "409 state-changed" { // by another id
				t.Error(toldBy(t, a))
			}
			w.begin(0, stet.Unresolved)
			if r := w.state(0); r.Attempt != 2 || r.State != stet.Unknown {
				t.Errorf("%s at attempt %d", r.State, r.Attempt)
			}
			h, _, err := w.Operator().History(t.Context(), stet.HistoryQuery{ID: id(0)})
			if err != nil || len(h) != 1 || h[0].Note.Notice != "msg_1" || h[0].Attempt != 1 {
				t.Errorf("%+v, %v", h, err)
			}
		})
	}
}

// A fence tells one life of a key from another, which an attempt cannot.
func TestANoticeOfAnEarlierLife(t *testing.T) { // A01
	w, hook := onStore(t, stores["memory"])
	h := w.state(0).Head
	early := fmt.Sprintf(`{"scope":"s","key":"k0","outcome":"not-executed","fence":%d}`, h.Fence())
	done := stet.Resolution{Response: &stet.Response{Status: 500}}
	if _, err := w.Operator().Resolve(t.Context(), id(0), execution.Of(t.Context(), w.Engine, id(0)), done, stet.Note{Who: "w", Why: "y"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Operator().Purge(t.Context(), id(0), 0, stet.Note{Who: "w", Why: "y"}); err != nil {
		t.Fatal(err)
	}
	attempt, fence := w.doubt(stet.Execute)
	if attempt != 1 || fence == h.Fence() {
		t.Fatal(attempt, fence)
	}
	if a := notify(hook, early, secret, time.Now()); toldBy(t, a) != "409 state-changed" {
		t.Error(toldBy(t, a))
	}
	for _, late := range []string{fmt.Sprintf(`{"scope":"s","key":"k0","outcome":"completed","status":201,"fence":%d}`, h.Fence()),
		fmt.Sprintf(`{"scope":"s","key":"k0","outcome":"not-executed","fence":%d}`, fence+1)} {
		if a := notify(hook, late, secret, time.Now()); toldBy(t, a) != "409 state-changed" {
			t.Errorf("%s: %s", late, toldBy(t, a))
		}
	}
	w.begin(0, stet.Unresolved)
	now := fmt.Sprintf(`{"scope":"s","key":"k0","outcome":"not-executed","fence":"%d"}`, fence) // as the header had it
	if a := notify(hook, now, secret, time.Now()); toldBy(t, a) != "200 resolved" {
		t.Error(toldBy(t, a))
	}
	w.begin(0, stet.Execute)
}

// A fence and a key that Stet has made name one life.
func TestANoticeNamesALife(t *testing.T) { // K01, I14
	w, hook := onStore(t, stores["memory"])
	first := w.state(0).Head
	if _, err := w.Operator().Resolve(t.Context(), id(0), first.Execution(), stet.Resolution{Response: &stet.Response{Status: 500}},
		stet.Note{Who: "w", Why: "y"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Operator().Purge(t.Context(), id(0), 0, stet.Note{Who: "w", Why: "y"}); err != nil {
		t.Fatal(err)
	}
	w.doubt(stet.Execute)
	second := w.state(0).Head
	for notice, want := range map[string]string{
		`"outcome":"not-executed"`:                                                      "400 invalid-notice",
		`"outcome":"completed","status":201`:                                            "400 invalid-notice",
		fmt.Sprintf(`"outcome":"not-executed","fence":%d`, first.Fence()):               "409 state-changed",
		fmt.Sprintf(`"outcome":"completed","status":201,"fence":%d`, first.Fence()):     "409 state-changed",
		`"outcome":"completed","status":201,"downstream_key":"` + first.LifeKey() + `"`: "404 not-found",
		`"outcome":"not-executed","downstream_key":"` + second.LifeKey() + `"`:          "400 invalid-notice",
	} {
		if a := notify(hook, `{"scope":"s","key":"k0",`+notice+`}`, secret, time.Now()); toldBy(t, a) != want {
			t.Errorf("%s: %s, want %s", notice, toldBy(t, a), want)
		}
		if now := w.state(0); now.Version != second.Version {
			t.Fatalf("%s changed the record", notice)
		}
	}
	life := `{"scope":"s","key":"k0","outcome":"completed","status":201,"downstream_key":"` + second.LifeKey() + `"}`
	if a := notify(hook, life, secret, time.Now()); a.Code != 200 {
		t.Error(toldBy(t, a))
	}
}

// Each name that is given has to be the record's, and a name is looked for within the scope.
func TestNoticesByNamesOfOtherSystems(t *testing.T) { // K11
	w := newWard(t, 0)
	hook := &Webhook{Engine: w.Engine, Secrets: []string{secret}}
	named := func(scope stet.Scope, key, downKey, downID string) *stet.Head {
		d, err := w.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: scope, Key: stet.Key(key)}, Subject: stet.Subject{Body: []byte("1")}})
		if err != nil || d.Claim == nil {
			t.Fatal(d.Verdict, err)
		}
		if err := d.Claim.Downstream(t.Context(), downKey, downID); err != nil {
			t.Fatal(err)
		}
		d.Claim.Unknown("lost")
		if err := d.Claim.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
		h := d.Claim.Head()
		return &h
	}
	ch7 := named("s", "ch_7", "", "") // a client's key looks like an id of the provider
	order := named("s", "order", "stet_1", "ch_1")
	named("s", "another", "stet_3", "ch_3")
	for names, want := range map[string]string{
		`"scope":"s","downstream_id":"ch_7"`:                           "404 not-found",
		`"scope":"s","downstream_key":"ch_7"`:                          "404 not-found",
		`"scope":"s","downstream_key":"ch_1"`:                          "404 not-found", // it is its id
		`"scope":"s","downstream_id":"stet_1"`:                         "404 not-found",
		`"scope":"s","downstream_key":"stet_1","downstream_id":"ch_2"`: "404 not-found",
		`"scope":"s","downstream_key":"stet_2","downstream_id":"ch_1"`: "404 not-found",
		`"scope":"s","key":"ch_7","downstream_id":"ch_1"`:              "404 not-found",
		`"scope":"s","key":"order","downstream_id":"ch_2"`:             "404 not-found",
		`"scope":"t","downstream_id":"ch_1"`:                           "404 not-found",
	} {
		for _, h := range []*stet.Head{ch7, order} {
			for _, outcome := range []string{`"outcome":"not-executed"`, `"outcome":"completed","status":201`} {
				a := notify(hook, fmt.Sprintf(`{%s,"fence":%d,%s}`, names, h.Fence(), outcome), secret, time.Now())
				if got := toldBy(t, a); got != want {
					t.Errorf("%s, %s: %s, want %s", names, outcome, got, want)
				}
			}
		}
	}
	life := ch7.LifeKey() // which Stet makes, and stores nowhere
	for names, want := range map[string]string{
		`"downstream_key":"` + order.LifeKey()[:12] + life[12:] + `"`: "404 not-found", // its tag, and another sum
		`"scope":"t","downstream_key":"` + life + `"`:                 "404 not-found",
		`"downstream_key":"` + life + `","downstream_id":"ch_1"`:      "404 not-found",
		`"scope":"s","downstream_key":"stet_1"`:                       "400 invalid-notice", // which the handler chose
		`"scope":"s","downstream_id":"ch_3"`:                          "200 resolved",
		`"downstream_key":"` + life + `"`:                             "200 resolved",
	} {
		a := notify(hook, `{`+names+`,"outcome":"completed","status":201}`, secret, time.Now())
		if got := toldBy(t, a); got != want {
			t.Errorf("%s: %s, want %s", names, got, want)
		}
	}
	const tenants = stet.DefaultLimit + 50
	for i := range tenants {
		scope := stet.Scope(fmt.Sprint("tenant_", i))
		h := named(scope, "k", "order_1", "")
		if i%2 == 0 {
			continue
		}
		a := notify(hook, fmt.Sprintf(`{"scope":%q,"downstream_key":"order_1","fence":%d,"outcome":"not-executed"}`, scope, h.Fence()), secret, time.Now())
		if toldBy(t, a) != "200 resolved" {
			t.Fatal(toldBy(t, a))
		}
	}
	a := notify(hook, `{"downstream_key":"order_1","outcome":"completed","status":201}`, secret, time.Now())
	if toldBy(t, a) != "409 ambiguous" {
		t.Error(toldBy(t, a))
	}
	a = notify(hook, fmt.Sprintf(`{"scope":"s","downstream_key":"stet_1","downstream_id":"ch_1","key":"order","fence":%d,"outcome":"not-executed"}`, order.Fence()), secret, time.Now())
	if toldBy(t, a) != "200 resolved" {
		t.Error(toldBy(t, a))
	}
}

func TestNoticesAreReadStrictly(t *testing.T) { // A02
	w, hook := onStore(t, stores["memory"])
	const rest = `"key":"k0","outcome":"not-executed","fence":1`
	for body, want := range map[string]string{
		`{"scop":"s",` + rest + `}`:                                                                                        `unknown member "scop"; did you mean scope?`,
		`{"scope":"s","quantity":1,` + rest + `}`:                                                                          `unknown member "quantity".`,
		`{"Scope":"s",` + rest + `}`:                                                                                       `unknown member "Scope"; did you mean scope?`,
		`{"scope":"s","scope":"t",` + rest + `}`:                                                                           `member "scope" twice`,
		`{"scope":"s",` + rest + `}{}`:                                                                                     "something follows",
		`{"scope":"s",` + rest + `} x`:                                                                                     "something follows",
		`[{"scope":"s",` + rest + `}]`:                                                                                     "no JSON object",
		`{"scope":"s",` + rest:                                                                                             "no JSON object",
		`{"scope":null,` + rest + `}`:                                                                                      `"scope" has a value of another kind`,
		`{"scope":7,` + rest + `}`:                                                                                         `"scope" has a value of another kind`,
		`{"scope":"s","key":"k0","outcome":"not-executed"}`:                                                                "needs the fence",
		`{"scope":"s","key":"k0","outcome":"not-executed","downstream_key":"x"}`:                                           "needs the fence",
		`{"scope":"s","key":"k0","outcome":"completed","status":201}`:                                                      "downstream_key or downstream_id",
		`{"scope":"s","downstream_id":"k0","outcome":"not-executed"}`:                                                      "needs the fence",
		`{"scope":"s","key":"k0","outcome":"not-executed","fence":0}`:                                                      "fence has to be",
		`{"scope":"s","key":"k0","outcome":"not-executed","fence":1.5}`:                                                    "fence has to be",
		`{"scope":"s","key":"k0","outcome":"not-executed","fence":9223372036854775808}`:                                    "fence has to be",
		`{"scope":"s","key":"k0","outcome":"not-executed","fence":"x"}`:                                                    `"fence" has a value of another kind`,
		`{"scope":"s","key":"k0","outcome":"not-executed","fence":-1}`:                                                     "fence has to be",
		`{"scope":"s","key":"k0","outcome":"completed","fence":1,"status":201,"headers":{"A":["1"],"A":["2"]}}`:            "a name twice in its headers",
		`{"scope":"s","key":"k0","outcome":"completed","fence":1,"status":201,"evidence":"\ud800"}`:                        "no Unicode",
		`{"scope":"s","key":"k0","outcome":"completed","fence":1,"status":201,"headers":{"A b":["1"]}}`:                    "no header can have",
		`{"scope":"s","key":"k0","outcome":"completed","fence":1,"status":201,"body_b64":"?"}`:                             `"body_b64" has a value of another kind`,
		`{"scope":"s","key":"k0","outcome":"Not-Executed","fence":1}`:                                                      "outcome has to be",
		`{"scope":"s","key":"k0","outcome":"completed","status":201,"` + strings.Repeat("long", 1000) + `":"","status":1}`: "unknown member",
	} {
		a := notify(hook, body, secret, time.Now())
		if toldBy(t, a) != "400 invalid-notice" || !strings.Contains(strings.ReplaceAll(a.Body.String(), `\"`, `"`), want) || a.Body.Len() > 500 {
			t.Errorf("%.80s: %d %s, want %s", body, a.Code, a.Body, want)
		}
	}
	w.begin(0, stet.Unresolved)
}

// What the record knows better is not overruled, and the provider is told what to do. If a key was
// freed of which the provider says that it happened, no retry runs, and people hear of it.
func TestNoticesAgainstTheRecord(t *testing.T) { // A04, K03c
	const voided, done, declined = `"outcome":"not-executed"`, `"outcome":"completed","status":201`, `"outcome":"completed","status":402`
	note := stet.Note{Who: "w", Why: "y"}
	for name, c := range map[string]struct {
		before func(w *ward)
		notice string
		want   string
	}{
		"it is completed, and so the notice": {func(w *ward) { w.resolve(&stet.Response{Status: 201}, note) }, done, "200 known"},
		"it is completed":                    {func(w *ward) { w.resolve(&stet.Response{Status: 201}, note) }, voided, "409 contradicted"},
		"nothing happened, both":             {func(w *ward) { w.resolve(nil, note) }, voided, "200 known"},
		"nothing happened":                   {func(w *ward) { w.resolve(nil, note) }, done, "409 contradicted"},
		"it is completed otherwise":          {func(w *ward) { w.resolve(&stet.Response{Status: 201}, note) }, declined, "409 contradicted"},
		"it is running":                      {func(w *ward) { w.resolve(nil, note); w.begin(0, stet.Execute) }, done, "409 in-progress"},
	} {
		t.Run(name, func(t *testing.T) {
			w, hook := onStore(t, stores["memory"])
			c.before(w)
			before := w.state(0)
			if a := notify(hook, w.notice(0, c.notice), secret, time.Now()); toldBy(t, a) != c.want {
				t.Errorf("%s, want %s", toldBy(t, a), c.want)
			}
			if entries := w.entries(ActionContradiction); len(entries) != strings.Count(c.want, "contradicted") ||
				int(w.told["contradicted"].Load()) != len(entries) {
				t.Errorf("%d entries, %d events: want both where the record contradicts", len(entries), w.told["contradicted"].Load())
			}
			if now := w.state(0); now.Version != before.Version && name != "nothing happened" {
				t.Error("it changed the record")
			}
			if name != "nothing happened" {
				return
			}
			if err := w.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.begin(0, stet.Unresolved)
			if now := w.state(0); now.State != stet.Unknown || now.Cause != "contradicted" || now.Note == nil || now.Note.Who != "webhook" {
				t.Errorf("%s, %q, by %+v", now.State, now.Cause, now.Note)
			}
		})
	}
}

// entries are what the history has by this action.
func (w *ward) entries(action string) []stet.Change {
	w.t.Helper()
	all, _, err := w.Operator().History(w.t.Context(), stet.HistoryQuery{ID: id(0)})
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c stet.Change) bool { return c.Action() != action })
}

func (w *ward) resolve(r *stet.Response, n stet.Note) {
	w.t.Helper()
	if _, err := w.Operator().Resolve(w.t.Context(), id(0), execution.Of(w.t.Context(), w.Engine, id(0)), stet.Resolution{Response: r}, n); err != nil {
		w.t.Fatal(err)
	}
}

// What belonged to one exchange, or to one client, is not what others get.
func TestHeadersOfANoticeThatAreNotKept(t *testing.T) { // A20
	w, hook := onStore(t, stores["memory"])
	body := w.notice(0, `"outcome":"completed","status":201,"body_b64":"Y2hfMQ==","headers":{"set-cookie":["sid=1"],"Connection":["X-Hop"],
		"X-Hop":["1"],"content-length":["999"],"Transfer-Encoding":["chunked"],"Keep-Alive":["1"],"Date":["then"],"Trailer":["x"],
		"Content-Type":["text/x"],"X-Kept":["1","2"]}`)
	if a := notify(hook, body, secret, time.Now()); toldBy(t, a) != "200 resolved" {
		t.Fatal(toldBy(t, a))
	}
	want := []stet.Field{{Name: "Content-Type", Value: "text/x"}, {Name: "X-Kept", Value: "1"}, {Name: "X-Kept", Value: "2"}}
	if got := w.state(0).Response.Header; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// unread fails the test when it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// What cannot be a signed notice is turned away before its body is read: bodies are large, and
// anyone may send them.
func TestHeadersOfANoticeComeFirst(t *testing.T) { // C11
	w, hook := onStore(t, stores["memory"])
	const body = `{"scope":"s","key":"k0","outcome":"not-executed","fence":1}`
	for name, c := range map[string]struct {
		change func(r *http.Request)
		want   string
	}{
		"no signature":           {func(r *http.Request) { r.Header.Del("Webhook-Signature") }, "401 unauthenticated"},
		"another algorithm":      {func(r *http.Request) { r.Header.Set("Webhook-Signature", "v2,AAAA") }, "401 unauthenticated"},
		"a signature too short":  {func(r *http.Request) { r.Header.Set("Webhook-Signature", "v1,AAAA") }, "401 unauthenticated"},
		"no id":                  {func(r *http.Request) { r.Header.Del("Webhook-Id") }, "401 unauthenticated"},
		"a long id":              {func(r *http.Request) { r.Header.Set("Webhook-Id", strings.Repeat("m", 256)) }, "401 unauthenticated"},
		"an id that is no ASCII": {func(r *http.Request) { r.Header.Set("Webhook-Id", "\xff") }, "401 unauthenticated"},
		"no timestamp":           {func(r *http.Request) { r.Header.Del("Webhook-Timestamp") }, "401 unauthenticated"},
		"an old timestamp":       {func(r *http.Request) { r.Header.Set("Webhook-Timestamp", "1") }, "401 unauthenticated"},
		"announced as too long":  {func(r *http.Request) { r.ContentLength = maxNotice + 1 }, "413 payload-too-large"},
		"another method":         {func(r *http.Request) { r.Method = http.MethodPut }, "405 method-not-allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := signedNotice("msg_1", body, secret, time.Now())
			r.Body = io.NopCloser(unread{t})
			c.change(r)
			a := httptest.NewRecorder()
			hook.ServeHTTP(a, r)
			if toldBy(t, a) != c.want {
				t.Errorf("%s, want %s", toldBy(t, a), c.want)
			}
		})
	}
	long := signedNotice("msg_1", strings.Repeat("x", maxNotice+1), secret, time.Now())
	long.ContentLength = -1
	a := httptest.NewRecorder()
	if hook.ServeHTTP(a, long); toldBy(t, a) != "413 payload-too-large" {
		t.Error(toldBy(t, a))
	}
	cut := signedNotice("msg_1", body, secret, time.Now())
	cut.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), failing{}))
	a = httptest.NewRecorder()
	if hook.ServeHTTP(a, cut); toldBy(t, a) != "400 invalid-notice" {
		t.Error(toldBy(t, a))
	}
	w.begin(0, stet.Unresolved)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("reset") }
