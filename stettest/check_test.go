package stettest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/stettest"
	"github.com/stet-dev/stet/store/memstore"
)

// charges is a handler whose answers differ from run to run, so that a second run shows.
func charges() http.Handler {
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%d,"request":%q}`, n.Add(1), body)
	})
}

func guarded(scope stethttp.ScopeFunc, c stethttp.Config) http.Handler {
	return guardedHandler(scope, c, charges())
}

func guardedHandler(scope stethttp.ScopeFunc, c stethttp.Config, h http.Handler) http.Handler {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	return stethttp.Middleware(engine, scope, c)(h)
}

var asOther = stettest.Sample{Header: http.Header{"X-Tenant": {"a"}}, As: func(r *http.Request) { r.Header.Set("X-Tenant", "b") }}

func TestCheckPassesWhatIsRight(t *testing.T) {
	stettest.Check(t, guarded(stethttp.SingleTenant, stethttp.Config{}))
	stettest.Check(t, http.TimeoutHandler(guarded(stethttp.SingleTenant, stethttp.Config{}), time.Hour, ""))
	stettest.Check(t, guarded(stethttp.HeaderScope("X-Tenant"), stethttp.Config{Waiting: stethttp.Wait}), asOther)
}

// recorder is a testing.TB that remembers what failed.
type recorder struct {
	testing.TB
	failed []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	firstLine := stettest.Sample{Body: "a\n1", OtherBody: "a\n2"}
	for _, c := range []struct {
		name    string
		handler http.Handler
		sample  stettest.Sample
		want    string
	}{
		{"no layer at all", charges(), stettest.Sample{}, "the same key and request twice"},
		{"keys not required", guarded(stethttp.SingleTenant, stethttp.Config{Mode: stethttp.ModeOptional}), stettest.Sample{}, "without a key"},
		{"one scope for all", guarded(stethttp.SingleTenant, stethttp.Config{}), asOther, "two tenants"},
		{"shadow", guarded(stethttp.SingleTenant, stethttp.Config{Mode: stethttp.ModeShadow}), stettest.Sample{}, "concurrent duplicates"},
		{"a fingerprint of too little", guarded(stethttp.SingleTenant, stethttp.Config{Fingerprint: stet.Recipe{Body: stet.BodyFields, Fields: []string{"/currency"}}}),
			stettest.Sample{Body: `{"amount":1,"currency":"EUR"}`, OtherBody: `{"amount":2,"currency":"EUR"}`}, "another request"},
		{"a handler that is given up", guardedHandler(stethttp.SingleTenant, stethttp.Config{}, http.StripPrefix("", http.TimeoutHandler(charges(), time.Hour, ""))),
			stettest.Sample{}, "put it around the guard"},
		{"a sample that is refused", guarded(stethttp.SingleTenant, stethttp.Config{MaxBody: 2}), firstLine, "give Check a Sample"},
	} {
		r := &recorder{TB: t}
		stettest.Check(r, c.handler, c.sample)
		if !strings.Contains(strings.Join(r.failed, "\n"), c.want) {
			t.Errorf("%s: nothing about %q in %q", c.name, c.want, r.failed)
		}
	}
}

func ExampleCheck() {
	var t testing.TB // your test's
	stettest.Check(t, guarded(stethttp.SingleTenant, stethttp.Config{}), stettest.Sample{
		Target: "/v1/charges", Body: `{"amount":1099}`, OtherBody: `{"amount":900}`,
	})
}

func ExampleClock() {
	var clock stettest.Clock
	engine, err := stet.New(memstore.New(memstore.Config{Clock: clock.Now}), stet.Config{})
	if err != nil {
		panic(err)
	}
	request := stet.Request{ID: stet.ID{Scope: "s", Key: "k"}}
	ask := func() stet.Verdict {
		d, err := engine.Begin(context.Background(), request)
		if err != nil {
			panic(err)
		}
		return d.Verdict
	}
	fmt.Println(ask())
	fmt.Println(ask())
	clock.Advance(time.Minute) // the holder never came back
	fmt.Println(ask())
	// Output:
	// execute
	// in-progress
	// unresolved
}
