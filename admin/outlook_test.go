package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// ward is an admin handler without a listener, for a bubble.
type ward struct {
	*testing.T
	engine *stet.Engine
	http.Handler
	token string
}

func newWard(t *testing.T, c admin.Config) *ward {
	t.Helper()
	e := must(stet.New(memstore.New(memstore.Config{}), stet.Config{Pepper: []byte("pepper"), Holder: "host:1"}))
	if c.Reconciler != nil {
		c.Reconciler.Engine = e
	}
	return &ward{T: t, engine: e, Handler: admin.New(e, c)}
}

// ask demands a status, and reads the answer into doc.
func (w *ward) ask(method, path, body string, status int, doc any) {
	w.Helper()
	r := httptest.NewRequestWithContext(w.Context(), method, "http://localhost"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:9"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	if rec.Code != status {
		w.Fatalf("%s %s %s: %d %s, want %d", method, path, body, rec.Code, rec.Body, status)
	}
	if doc != nil {
		if err := json.Unmarshal(rec.Body.Bytes(), doc); err != nil {
			w.Fatal(err)
		}
	}
}

// unknown makes a record whose outcome is unknown.
func (w *ward) unknown(scope stet.Scope, key, route, cause string) *stet.Claim {
	w.Helper()
	d, err := w.engine.Begin(w.Context(), stet.Request{ID: stet.ID{Scope: scope, Key: stet.Key(key)}, Route: route,
		Subject: stet.Subject{Method: "POST", Path: "/v1/charges", Body: []byte("1")}})
	if err != nil || d.Claim == nil {
		w.Fatal(d.Verdict, err)
	}
	d.Claim.Unknown(cause)
	if err := d.Claim.Settle(w.Context(), stet.Outcome{}); err != nil {
		w.Fatal(err)
	}
	return d.Claim
}

func (w *ward) head(id stet.ID) *stet.Head {
	w.Helper()
	rec := must(w.engine.Get(w.Context(), id))
	return &rec.Head
}

// probed takes a record for a probe.
func (w *ward) probed(id stet.ID, in time.Duration) {
	w.Helper()
	if _, mine, err := w.engine.Operator().Probing(w.Context(), w.head(id), in, nil); err != nil || !mine {
		w.Fatal(mine, err)
	}
}

// What the API says that a client hears is what the middleware says.
func TestClientsHearWhatIsSaid(t *testing.T) {
	t.Run("the default", func(t *testing.T) { clientsHear(t, stethttp.Config{}, false) })
	t.Run("another wait", func(t *testing.T) {
		clientsHear(t, stethttp.Config{Route: "charges", RetryAfterMax: 40 * time.Second}, true)
	})
	t.Run("accepted", func(t *testing.T) {
		clientsHear(t, stethttp.Config{Route: "charges", RetryAfterMax: time.Second, Waiting: stethttp.Accepted}, true)
	})
}

func clientsHear(t *testing.T, c stethttp.Config, published bool) {
	synctest.Test(t, func(t *testing.T) {
		var ac admin.Config
		if published {
			other := admin.Route{Config: stethttp.Config{Route: "other", RetryAfterMax: time.Hour}}
			ac.Policy = func() admin.Policy { return admin.Policy{Routes: []admin.Route{other, {Config: c}}} }
		}
		w := newWard(t, ac)
		ran := 0
		api := stethttp.Middleware(w.engine, stethttp.SingleTenant, c)(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ran++; w.WriteHeader(201) }))
		post := func(key string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/v1/charges", strings.NewReader("{}"))
			r.Header.Set("Idempotency-Key", key)
			rec := httptest.NewRecorder()
			api.ServeHTTP(rec, r)
			return rec
		}
		due := func(s stet.State, in time.Duration, edit func(h *stet.Head)) func(h *stet.Head) {
			return func(h *stet.Head) {
				if h.State, h.DueIn = s, in; edit != nil {
					edit(h)
				}
			}
		}
		const wait = time.Minute // between the change and the look
		for name, change := range map[string]func(h *stet.Head){
			"running":              due(stet.Running, wait+5*time.Second, nil),
			"running for long":     due(stet.Running, time.Hour, nil),
			"suspended":            due(stet.Running, wait+7*time.Second, func(h *stet.Head) { h.Cause = stet.CauseSuspended }),
			"lapsed":               due(stet.Running, 0, nil),
			"lapsed, and runs":     due(stet.Running, 0, func(h *stet.Head) { h.Rules.OnLapse = stet.LapseReexecute }),
			"completed":            due(stet.Completed, time.Hour, nil),
			"completed, no body":   due(stet.Completed, time.Hour, func(h *stet.Head) { h.Kept = stet.KeptStatus }),
			"failed":               due(stet.Completed, time.Hour, func(h *stet.Head) { h.Status = 503 }),
			"over":                 due(stet.Completed, 0, nil),
			"over, and refused":    due(stet.Completed, 0, func(h *stet.Head) { h.Rules.KeepExpired = time.Hour }),
			"retryable":            due(stet.Retryable, time.Hour, nil),
			"expired":              due(stet.Expired, time.Hour, nil),
			"unknown":              due(stet.Unknown, wait+9*time.Second, nil),
			"unknown, and due":     due(stet.Unknown, 0, nil),
			"unknown, dead letter": due(stet.Unknown, stet.Never, func(h *stet.Head) { h.Escalated = true }),
		} {
			key := strings.Map(func(r rune) rune {
				if r == ' ' || r == ',' {
					return '-'
				}
				return r
			}, name)
			if got := post(key); got.Code != 201 {
				t.Fatalf("%s: %d %s", name, got.Code, got.Body)
			}
			h := *w.head(stet.ID{Scope: "default", Key: stet.Key(key)})
			was := h.Version
			h.Version++
			change(&h)
			body := stet.Body{Response: &stet.Response{Status: h.Status}}
			if _, err := w.engine.Store().Replace(t.Context(), was, h, &body); err != nil {
				t.Fatal(err)
			}
			time.Sleep(wait)
			var doc operate.Record
			w.ask("GET", "/api/v1/keys/default/"+key, "", 200, &doc)
			before := ran
			heard := post(key)
			var problem struct{ Code string }
			_ = json.Unmarshal(heard.Body.Bytes(), &problem)
			after, _ := strconv.ParseFloat(heard.Header().Get("Retry-After"), 64)
			want := operate.ClientAnswer{Status: heard.Code, Code: problem.Code, RetryAfter: after}
			if ran > before {
				want = operate.ClientAnswer{Retry: true}
			}
			if doc.Outlook == nil || doc.Outlook.Client != want {
				t.Errorf("%s: it says %+v, and a client hears %+v", name, doc.Outlook, want)
			}
		}
	})
}

// A record says what its last probe was answered, and what follows: the same as the refusal to free
// its key too early.
func TestRecordSaysWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		found := reconcile.Finding{Evidence: "the probe was answered 202", Status: 202}
		r := &reconcile.Reconciler{Settle: 5 * time.Minute, MaxProbes: 8, Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) {
			time.Sleep(30 * time.Millisecond)
			return found, nil
		}}
		w := newWard(t, admin.Config{Config: operate.Config{Settle: 5 * time.Minute, Reconciler: r}})
		c := w.unknown("s", "k", "POST /v1/charges", "lease-lapsed")
		ended := time.Now().UTC()
		w.probed(c.ID(), 10*time.Second)
		var doc operate.Record
		path := "/api/v1/keys/" + w.engine.Tag(c.ID())
		w.ask("GET", path, "", 200, &doc)
		o := doc.Outlook
		if o == nil || !o.SettledAt.Equal(ended.Add(5*time.Minute)) || o.ProbesLeft != 7 || !o.NextProbe.Equal(ended.Add(10*time.Second)) ||
			o.IfNothing != "probe" || !o.At.Equal(o.NextProbe) || !o.FreesAt.After(o.SettledAt) || doc.Probe != nil || doc.Late != nil {
			t.Fatalf("%+v, %+v", o, doc)
		}
		var refusal struct{ Until time.Time }
		w.ask("POST", path+"/release", `{"reason":"x"}`, 409, &refusal)
		if !refusal.Until.Equal(o.SettledAt) {
			t.Errorf("it is refused until %s, and settled at %s", refusal.Until, o.SettledAt)
		}
		type answered struct {
			operate.Record
			Answer struct {
				Settles time.Time `json:"settles_at"`
			} `json:"probe"`
		}
		var asked answered
		w.ask("POST", path+"/probe", `{"reason":"the customer calls"}`, 200, &asked)
		w.ask("GET", path, "", 200, &doc)
		want := operate.ProbeAnswer{At: ended.Add(30 * time.Millisecond), TookMS: 30, Found: "pending", Status: 202, Evidence: found.Evidence}
		if doc.Probe == nil || *doc.Probe != want || *asked.Record.Probe != want || !asked.Answer.Settles.IsZero() {
			t.Errorf("%+v and %+v, want %+v", doc.Probe, asked.Record.Probe, want)
		}
		found = reconcile.Finding{Effect: reconcile.Missing}
		w.ask("POST", path+"/probe", `{}`, 200, &asked)
		if !asked.Answer.Settles.Equal(o.SettledAt) {
			t.Errorf("missing is a proof from %s, and it settles at %s", asked.Answer.Settles, o.SettledAt)
		}
		time.Sleep(time.Minute)
		c.Completed()
		if err := c.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("ch_1")}}); err == nil {
			t.Fatal("it was not too late")
		}
		came := time.Now().UTC()
		asked, doc = answered{}, operate.Record{}
		w.ask("POST", path+"/probe", `{}`, 200, &asked)
		w.ask("GET", path, "", 200, &doc)
		if doc.Late == nil || *doc.Late != (operate.LateAnswer{Status: 201, Bytes: 4, At: came}) || !doc.Outlook.SettledAt.IsZero() || !asked.Answer.Settles.IsZero() {
			t.Errorf("%+v, %+v, %+v", doc.Late, doc.Outlook, asked.Answer)
		}
		var after operate.Record
		w.ask("POST", path+"/resolve", `{"outcome":"completed","status":201,"reason":"the late answer"}`, 200, &after)
		w.ask("GET", path, "", 200, &doc)
		if after.Outlook == nil || after.Late != nil || after.Outlook.IfNothing != "expires" || !after.Outlook.At.Equal(after.DueAt) {
			t.Errorf("%+v", after)
		}
	})
}

// What was counted of the clients of a record is shown with it.
func TestRecordSaysWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var id string
		at := time.Now().UTC()
		w := newWard(t, admin.Config{Config: operate.Config{Asking: func(_ context.Context, of string, _ time.Time) (*operate.Asking, *operate.Mismatch) {
			if of != id {
				return nil, nil
			}
			return &operate.Asking{Count: 3, LastAt: at}, &operate.Mismatch{Count: 1, At: at, Parts: []string{"body"}}
		}}})
		c := w.unknown("s", "k", "", "timeout")
		w.unknown("s", "other", "", "timeout")
		id = w.engine.Tag(c.ID())
		var doc operate.Record
		if w.ask("GET", "/api/v1/keys/"+id, "", 200, &doc); doc.Asking == nil || doc.Asking.Count != 3 || doc.Mismatch == nil || doc.Mismatch.Parts[0] != "body" {
			t.Errorf("%+v, %+v", doc.Asking, doc.Mismatch)
		}
		doc = operate.Record{}
		if w.ask("GET", "/api/v1/keys/s/other", "", 200, &doc); doc.Asking != nil || doc.Mismatch != nil {
			t.Errorf("%+v, %+v", doc.Asking, doc.Mismatch)
		}
	})
}

// The record of a flow says which phases were begun, and when, as long as it is not completed.
func TestPointsOfAFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, admin.Config{})
		lost := true
		phase := func(name string) flow.Phase[struct{}] {
			return flow.Foreign(name, func(ctx context.Context, call *flow.Call, _ *struct{}) error {
				return call.Do(ctx, func(context.Context, string) error {
					if time.Sleep(time.Second); name == "charge" && lost {
						return flow.Maybe(errors.New("the connection was cut"))
					}
					return nil
				})
			})
		}
		f := must(flow.New(flow.Config[struct{}]{Engine: w.engine, Name: "pay",
			Answer: func(*struct{}) stet.Response { return stet.Response{Status: 201} }}, phase("reserve"), phase("charge")))
		id, policy := stet.ID{Scope: "s", Key: "k"}, w.engine.Policy()
		policy.Rules.OnLapse = stet.LapseResume
		if _, err := f.Do(t.Context(), stet.Request{ID: id, Policy: &policy}, struct{}{}); !errors.Is(err, flow.ErrUnknown) {
			t.Fatal(err)
		}
		var rec operate.Record
		w.ask("GET", "/api/v1/keys/"+w.engine.Tag(id), "", 200, &rec)
		if len(rec.Points) != 2 || rec.Points[1].Name != "charge" || rec.Points[1].At.Sub(rec.CreatedAt) != time.Second {
			t.Errorf("%+v", rec.Points)
		}
		var list struct{ Keys []operate.Record }
		if w.ask("GET", "/api/v1/keys", "", 200, &list); len(list.Keys) != 1 || list.Keys[0].Points != nil {
			t.Errorf("a list, which reads no bodies: %+v", list)
		}
	})
}
