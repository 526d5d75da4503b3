package flow_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// ledger counts the calls of phases, which releases name and order as they like.
type ledger struct {
	e     *stet.Engine
	calls []string
	fails map[string]error // the next call of a phase
}

func newLedger(t *testing.T) *ledger {
	return &ledger{e: engineOn(t, memstore.New(memstore.Config{})), fails: map[string]error{}}
}

func (l *ledger) phase(name string) flow.Phase[counts] {
	return flow.Foreign(name, func(ctx context.Context, call *flow.Call, s *counts) error {
		if err := l.fails[name]; err != nil {
			delete(l.fails, name)
			return err
		}
		return call.Do(ctx, func(context.Context, string) error {
			l.calls = append(l.calls, name)
			s.N++
			return nil
		})
	})
}

func (l *ledger) release(t *testing.T, phases ...string) *flow.Flow[counts] {
	t.Helper()
	var all []flow.Phase[counts]
	for _, name := range phases {
		all = append(all, l.phase(name))
	}
	return build(t, flow.Config[counts]{Engine: l.e}, all...)
}

// A phase that the runs of a record came through does not run again, and one that was to come does,
// wherever the next release has it.
func TestPhasesInAnotherOrder(t *testing.T) { // K10
	for name, c := range map[string]struct {
		first  []string
		stops  string
		second []string
		calls  []string
	}{
		"the one before comes after":   {[]string{"charge", "book"}, "book", []string{"book", "charge"}, []string{"charge", "book"}},
		"the one after comes before":   {[]string{"reserve", "charge", "book"}, "charge", []string{"book", "reserve", "charge"}, []string{"reserve", "charge", "book"}},
		"at the first":                 {[]string{"charge", "book"}, "charge", []string{"book", "charge"}, []string{"charge", "book"}},
		"a new one before the point":   {[]string{"charge", "book"}, "book", []string{"check", "charge", "book"}, []string{"charge", "book"}},
		"a new one after it":           {[]string{"charge", "book"}, "charge", []string{"charge", "tell", "book"}, []string{"charge", "tell", "book"}},
		"turned round":                 {[]string{"a", "b", "c", "d"}, "c", []string{"d", "c", "b", "a"}, []string{"a", "b", "c", "d"}},
		"one that was to come is gone": {[]string{"a", "b", "c"}, "b", []string{"a", "b"}, []string{"a", "b"}},
		"one that was passed is gone":  {[]string{"a", "b", "c"}, "b", []string{"c", "b"}, []string{"a", "b", "c"}},
		"the same":                     {[]string{"a", "b", "c"}, "b", []string{"a", "b", "c"}, []string{"a", "b", "c"}},
	} {
		for _, resolved := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", in doubt: ", resolved), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, want := newLedger(t), c.calls
					l.fails[c.stops] = flow.RetryLater(errDown)
					if resolved { // the call was made, and its answer was lost
						l.fails[c.stops] = flow.Maybe(errDown)
						want = slices.DeleteFunc(slices.Clone(want), func(name string) bool { return name == c.stops })
					}
					_, _ = l.release(t, c.first...).Do(t.Context(), ask(), counts{})
					next := l.release(t, c.second...)
					if r, err := l.e.Get(t.Context(), ask().ID); err != nil {
						t.Fatal(err)
					} else if resolved {
						if err := next.Resolve(t.Context(), r.ID, r.Execution(), flow.Evidence[counts]{Phase: c.stops, Made: true}, clerk); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(time.Minute)
					if _, err := next.Do(t.Context(), ask(), counts{}); err != nil || !slices.Equal(l.calls, want) {
						t.Errorf("%v after %v, want %v", err, l.calls, want)
					}
				})
			})
		}
	}
}

// A reservation says which phases are to come, too: of a run that wrote nothing more.
func TestAReservationInAnotherOrder(t *testing.T) { // K10
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		q := ask()
		q.Point, q.Keep, q.Policy = "a", []byte(`{"flow":"f","schema":1,"state":{},"left":["b"]}`), &policy
		d, err := l.e.Begin(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		d.Claim.NotExecuted("stopped")
		if err := d.Claim.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
		_, _ = l.release(t, "b", "a").Run(t.Context(), must(t, l.e, q), counts{})
		if !slices.Equal(l.calls, []string{"a", "b"}) {
			t.Errorf("%v", l.calls)
		}
		l.fails["x"] = flow.RetryLater(errDown)
		_, _ = l.release(t, "x", "y").Do(t.Context(), stet.Request{ID: stet.ID{Scope: "shop", Key: "other"}}, counts{})
		r, err := l.e.Get(t.Context(), stet.ID{Scope: "shop", Key: "other"})
		if err != nil || !strings.Contains(string(r.Request), `"left":["y"]`) {
			t.Errorf("%s, %v", r.Request, err)
		}
	})
}

func must(t *testing.T, e *stet.Engine, q stet.Request) *stet.Claim {
	t.Helper()
	d, err := e.Begin(t.Context(), q)
	if err != nil || d.Claim == nil {
		t.Fatal(d.Verdict, err)
	}
	return d.Claim
}

// A release that does not know the point leaves the record as it is: what it proved of the call
// holds for the release that does.
func TestAReleaseThatDoesNotKnowThePointChangesNothing(t *testing.T) { // K10
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		now, older := l.release(t, "charge", "book"), l.release(t, "book")
		l.fails["charge"] = flow.RetryLater(errDown)
		_, _ = now.Do(t.Context(), ask(), counts{})
		time.Sleep(time.Minute)
		was, err := l.e.Get(t.Context(), ask().ID)
		if err != nil {
			t.Fatal(err)
		}
		unchanged := func(by string, err error) {
			t.Helper()
			if r, gerr := l.e.Get(t.Context(), ask().ID); gerr != nil || r.Version != was.Version || !errors.Is(err, flow.ErrRelease) {
				t.Errorf("%s: attempt %d, version %d; %v, %v", by, r.Attempt, r.Version, err, gerr)
			}
		}
		_, err = older.Do(t.Context(), ask(), counts{})
		unchanged("a retry", err)
		waits := ask()
		waits.Wait = 10 * time.Second
		began := time.Now()
		_, err = older.Do(t.Context(), waits, counts{})
		if unchanged("one that waits", err); time.Since(began) != waits.Wait {
			t.Errorf("it waited %s", time.Since(began))
		}
		_, err = older.Resume(t.Context(), ask().ID)
		unchanged("a completer", err)
		if got, err := now.Do(t.Context(), ask(), counts{}); err != nil || string(got.Body) != "2" {
			t.Errorf("%q, %v", got.Body, err)
		}
	})
}

// Behind a guard the attempt has begun when the flow looks. What was proven stays so.
func TestARunThatDoesNotKnowThePointVoidsNoProof(t *testing.T) { // K10
	for name, c := range map[string]struct {
		proven bool
		want   error
	}{"not sent": {true, nil}, "it may have been sent": {false, flow.ErrUnknown}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLedger(t)
				now, older := l.release(t, "charge", "book"), l.release(t, "book")
				if l.fails["charge"] = flow.RetryLater(errDown); c.proven {
					_, _ = now.Do(t.Context(), ask(), counts{})
				} else {
					must(t, l.e, stet.Request{ID: ask().ID, Point: "charge", Keep: []byte(`{"flow":"f","schema":1,"state":{},"of_tomorrow":7}`)})
				}
				for range 3 {
					time.Sleep(10 * time.Minute)
					if _, err := older.Run(t.Context(), must(t, l.e, stet.Request{ID: ask().ID, Subject: subject(t, l.e)}), counts{}); !errors.Is(err, flow.ErrRelease) {
						t.Fatal(err)
					}
				}
				r, err := l.e.Get(t.Context(), ask().ID)
				if err != nil || !c.proven && !strings.Contains(string(r.Progress), `"of_tomorrow":7`) {
					t.Errorf("%s, %v", r.Progress, err)
				}
				time.Sleep(10 * time.Minute)
				delete(l.fails, "charge")
				if _, err := now.Run(t.Context(), must(t, l.e, stet.Request{ID: ask().ID, Subject: subject(t, l.e)}), counts{}); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		})
	}
}

// subject is what a guard would compare: the same in each request.
func subject(t *testing.T, e *stet.Engine) stet.Subject {
	t.Helper()
	r, err := e.Get(t.Context(), ask().ID)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(r.Fingerprint.Recipe, "fields") {
		return stet.Subject{Header: map[string][]string{"Content-Type": {"application/json"}}, Body: []byte(`{"N":0}`)}
	}
	return stet.Subject{}
}

// A guard that knows what its flow knows does not even take the record.
func TestAGuardLeavesTheRecordOfAnotherRelease(t *testing.T) { // K10
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		serve := func(f *flow.Flow[counts]) int {
			h := stethttp.Middleware(l.e, stethttp.SingleTenant, stethttp.Config{Policy: l.e.Policy(), Continue: f.Knows})(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if answer, err := f.Run(r.Context(), stet.ClaimFrom(r.Context()), counts{}); err == nil {
						w.WriteHeader(answer.Status)
					}
				}))
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
			r.Header.Set("Idempotency-Key", string(ask().ID.Key))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		now, older := l.release(t, "charge", "book"), l.release(t, "book")
		l.fails["charge"] = flow.RetryLater(errDown)
		serve(now)
		time.Sleep(time.Minute)
		id := stet.ID{Scope: "default", Key: ask().ID.Key}
		was, err := l.e.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if code := serve(older); code != http.StatusConflict {
			t.Errorf("answered %d", code)
		}
		if r, err := l.e.Get(t.Context(), id); err != nil || r.Version != was.Version {
			t.Errorf("attempt %d, %v", r.Attempt, err)
		}
		if code := serve(now); code != http.StatusOK {
			t.Errorf("the release that knows it answered %d", code)
		}
	})
}

// A flow that takes longer than its result is kept leaves a result that can be asked for.
func TestAFlowLongerThanItsRetention(t *testing.T) { // K18, X04
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		f := l.release(t, "charge", "book")
		q := ask()
		q.Policy = &stet.Policy{Execution: stet.Never, Rules: stet.Rules{Retain: time.Hour, FromCreation: true, OnLapse: stet.LapseResume}}
		l.fails["book"] = flow.RetryLater(errDown)
		_, _ = f.Do(t.Context(), q, counts{})
		time.Sleep(3 * time.Hour)
		if n, err := (flow.Completer{Engine: l.e, Flows: []flow.Resumer{f}}).Round(t.Context()); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		ended := time.Now()
		time.Sleep(15*time.Minute - time.Second)
		if got, err := f.Do(t.Context(), q, counts{}); err != nil || string(got.Body) != "2" || len(l.calls) != 2 {
			t.Errorf("%q, %v, after %v", got.Body, err, l.calls)
		}
		if r, err := l.e.Get(t.Context(), q.ID); err != nil || !r.DueAt.Equal(ended.Add(15*time.Minute)) {
			t.Errorf("it is kept until %s after its end, %v", r.DueAt.Sub(ended), err)
		}
	})
}

// What a Lookup waited for counts for a release that knows the point, over one that does not.
func TestSettlingGoesOnOverAnotherRelease(t *testing.T) { // K10, A13
	synctest.Test(t, func(t *testing.T) {
		d := &distant{newWorld(false), 0, nil}
		f, e := d.program(t, true)
		_, _ = f.Do(t.Context(), ask(), counts{})
		drained(t, e)
		time.Sleep(time.Minute)
		f, e = d.program(t, false)
		if _, err := f.Do(t.Context(), ask(), counts{}); !errors.Is(err, stet.ErrNotSettled) {
			t.Fatal(err)
		}
		time.Sleep(flow.DefaultSettle)
		older := build(t, flow.Config[counts]{Engine: e}, add("another"))
		if _, err := older.Run(t.Context(), must(t, e, stet.Request{ID: ask().ID, Subject: subject(t, e)}), counts{}); !errors.Is(err, flow.ErrRelease) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got, err := f.Do(t.Context(), ask(), counts{}); err != nil || string(got.Body) != "1" {
			t.Errorf("%q, %v", got.Body, err)
		}
	})
}

// An honest retry at a release whose state has one field more is one. Another request is none.
func TestAFieldOfTheStateIsNoOtherRequest(t *testing.T) { // K10
	type order struct {
		Amount int
		Note   string `json:",omitempty"`
	}
	type before struct {
		Order  order
		Charge string
	}
	type orderNow struct {
		order
		Tax int
	}
	type after struct {
		Order  orderNow
		Charge string
		Label  string
	}
	e := engineOn(t, memstore.New(memstore.Config{}))
	old := one[before](t, e, "f")
	next := one[after](t, e, "f")
	was := before{Order: order{Amount: 7}}
	now := after{Order: orderNow{order: order{Amount: 7}, Tax: 1}}
	if _, err := old.Do(t.Context(), ask(), was); err != nil {
		t.Fatal(err)
	}
	if got, err := next.Do(t.Context(), ask(), now); err != nil || string(got.Body) != "done" {
		t.Errorf("an honest retry: %q, %v", got.Body, err)
	}
	other := now
	other.Order.Amount = 8
	if _, err := next.Do(t.Context(), ask(), other); !mismatched(err) {
		t.Errorf("another amount: %v", err)
	}
	q := stet.Request{ID: stet.ID{Scope: "shop", Key: "subject"}, Subject: stet.Subject{Body: []byte("what was asked for")}}
	if _, err := old.Do(t.Context(), q, was); err != nil {
		t.Fatal(err)
	}
	if _, err := next.Do(t.Context(), q, other); err != nil { // the request is the Subject, and no state counts
		t.Errorf("the same request: %v", err)
	}
	if q.Subject.Body = []byte("another"); !mismatched(second(next.Do(t.Context(), q, now))) {
		t.Error("another request was answered")
	}
	refunds := one[after](t, e, "refunds")
	if _, err := refunds.Do(t.Context(), ask(), now); !mismatched(err) {
		t.Errorf("another flow: %v", err)
	}
}

func mismatched(err error) bool {
	refused, ok := errors.AsType[*stet.Refused](err)
	return ok && refused.Verdict == stet.Mismatch
}

func second[T any](_ T, err error) error { return err }

// one is a flow of one phase.
func one[S any](t *testing.T, e *stet.Engine, name string) *flow.Flow[S] {
	t.Helper()
	f, err := flow.New(flow.Config[S]{Name: name, Engine: e, Answer: func(*S) stet.Response { return stet.Response{Status: 200, Body: []byte("done")} }},
		flow.Foreign("p", func(context.Context, *flow.Call, *S) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// States that are no objects, or have too many fields to be named, are compared whole; and a record
// of a former version by the bytes of its state.
func TestWhatOfAStateIsCompared(t *testing.T) { // K10
	e := engineOn(t, memstore.New(memstore.Config{}))
	asks := func(key string, first, again, other any) {
		t.Helper()
		f := one[any](t, e, "f")
		q := stet.Request{ID: stet.ID{Scope: "shop", Key: stet.Key(key)}}
		_, err := f.Do(t.Context(), q, first)
		if err == nil {
			_, err = f.Do(t.Context(), q, again)
		}
		if err != nil || !mismatched(second(f.Do(t.Context(), q, other))) {
			t.Errorf("%s: %v", key, err)
		}
	}
	asks("a number", 7, 7, 8)
	asks("nothing", struct{}{}, struct{}{}, 8)
	asks("names to be escaped", map[string]any{"a/b": 1, "c~d": map[string]int{"": 2}}, map[string]any{"a/b": 1, "c~d": map[string]int{"": 2}, "e": 3},
		map[string]any{"a/b": 1, "c~d": map[string]int{"": 3}})
	many, inner := map[string]any{}, map[string]int{}
	for i := range 300 {
		inner[fmt.Sprint("field", i)] = i
	}
	many["all"], many["amount"] = inner, 7
	more := map[string]any{"all": inner, "amount": 7, "new": 1}
	asks("too many within one", many, more, map[string]any{"all": inner, "amount": 8})
	huge := map[string]int{}
	for i := range 300 {
		huge[fmt.Sprint("field", i)] = i
	}
	asks("too many", huge, huge, inner["field1"])

	q := stet.Request{ID: stet.ID{Scope: "shop", Key: "former"}, Subject: stet.Subject{Body: []byte(`{"N":0}`)}}
	d, err := e.Begin(t.Context(), q)
	if err == nil {
		err = d.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}})
	}
	if err != nil {
		t.Fatal(err)
	}
	q.Subject = stet.Subject{}
	f := build(t, flow.Config[counts]{Engine: e}, add("p"))
	if got, err := f.Do(t.Context(), q, counts{}); err != nil || got.Status != 201 {
		t.Errorf("a record of a former version: %d, %v", got.Status, err)
	}
	if _, err := f.Do(t.Context(), q, counts{N: 1}); !mismatched(err) {
		t.Errorf("another state: %v", err)
	}
}
