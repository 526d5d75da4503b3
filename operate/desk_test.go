package operate_test

import (
	"context"
	"errors"
	"go/build"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// What is here is for any way to ask: neither HTTP nor pages are.
func TestTheRulesKnowNoHTTP(t *testing.T) {
	here, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, barred := range []string{"net/http", "html/template"} {
		if slices.Contains(here.Imports, barred) {
			t.Errorf("package operate imports %s", barred)
		}
	}
}

// roles are those that the methods of a desk take; the others take a viewer.
var roles = map[string]operate.Role{
	"Reveal": operate.Operator, "Resolve": operate.Operator, "Release": operate.Operator, "Extend": operate.Operator,
	"Probe": operate.Operator, "Note": operate.Operator, "Snooze": operate.Operator, "Hand": operate.Operator,
	"Delete": operate.Admin, "AcceptStore": operate.Admin, "Erase": operate.Admin,
	"Preview": operate.Operator, "Start": operate.Operator, "StopJob": operate.Operator, "ResumeJob": operate.Operator,
	"RevealMessage": operate.Operator, "Retry": operate.Operator, "Discard": operate.Operator, "Confirm": operate.Operator,
}

// newEngine returns an engine over a store.
func newEngine(t *testing.T, s stet.Store) *stet.Engine {
	t.Helper()
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Each method of a desk refuses a lower role by itself, whichever way the call came.
func TestEachMethodTakesARole(t *testing.T) {
	e := newEngine(t, memstore.New(memstore.Config{}))
	s, err := operate.New(operate.Config{Engine: e, Jobs: operate.NewJobs()})
	if err != nil {
		t.Fatal(err)
	}
	for role := operate.Viewer; role <= operate.Admin; role++ {
		desk := reflect.ValueOf(s.For(operate.Caller{Name: "kim", Role: role}, nil))
		for i := range desk.NumMethod() {
			name, method := desk.Type().Method(i).Name, desk.Method(i)
			args := []reflect.Value{reflect.ValueOf(t.Context())}
			for n := 1; n < method.Type().NumIn(); n++ {
				args = append(args, reflect.Zero(method.Type().In(n)))
			}
			results := method.Call(args)
			err, _ := results[len(results)-1].Interface().(error)
			p, _ := errors.AsType[*operate.Problem](err)
			if refused := p != nil && p.Code == "forbidden"; refused != (role < roles[name]) {
				t.Errorf("%s, as %s: %v", name, role, err)
			}
		}
	}
}

// The cursors of those who may not see keys open at services with the same secret, and without one at
// no other.
func TestCursorsAreOfASecret(t *testing.T) {
	e := newEngine(t, memstore.New(memstore.Config{}))
	for i := range 3 {
		if _, err := e.Begin(t.Context(), stet.Request{ID: key(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for secret, opens := range map[string]bool{"": false, "shared": true} {
		list := func(cursor string) (operate.RecordList, error) {
			s, err := operate.New(operate.Config{Engine: e, CursorSecret: []byte(secret)})
			if err != nil {
				t.Fatal(err)
			}
			return s.For(operate.Caller{Name: "vera"}, nil).Records(t.Context(), operate.RecordQuery{Page: operate.Page{Cursor: cursor, Limit: 1}})
		}
		first, err := list("")
		if err != nil || first.NextCursor == "" {
			t.Fatal(first, err)
		}
		if second, err := list(first.NextCursor); (err == nil) != opens || opens && len(second.Keys) != 1 {
			t.Errorf("with the secret %q: %v, %v", secret, second, err)
		}
	}
}

// A release costs the store a few calls, however the record is named.
func TestAReleaseIsFewCalls(t *testing.T) {
	var calls atomic.Int64
	e := newEngine(t, ability.Wrap(memstore.New(memstore.Config{}), func(ctx context.Context, c *ability.Call) error {
		calls.Add(1)
		return c.Do(ctx)
	}, false))
	id := stet.ID{Scope: "s", Key: "k"}
	d, err := e.Begin(t.Context(), stet.Request{ID: id})
	if err != nil || d.Verdict != stet.Execute {
		t.Fatal(d.Verdict, err)
	}
	d.Claim.Unknown("timeout")
	if err := d.Claim.Settle(t.Context(), stet.Outcome{}); err != nil {
		t.Fatal(err)
	}
	s, err := operate.New(operate.Config{Engine: e, Settle: stet.Never})
	if err != nil {
		t.Fatal(err)
	}
	desk := s.For(operate.Caller{Name: "kim", Role: operate.Operator}, nil)
	before, err := desk.Record(t.Context(), operate.Name{Key: e.Tag(id)})
	if err != nil {
		t.Fatal(err)
	}
	calls.Store(0)
	after, err := desk.Release(t.Context(), operate.Name{Key: before.ID}, operate.Resolution{Change: operate.Change{
		Condition: operate.Condition{Basis: operate.Basis(before.Basis)}, Reason: "the provider has no such charge"}})
	if n := calls.Load(); err != nil || after.State != "retryable" || n == 0 || n > 8 {
		t.Errorf("%d calls of the store, %v, %v", n, after.State, err)
	}
}
