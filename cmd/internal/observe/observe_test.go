package observe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate/fleet"
	"github.com/stet-dev/stet/outbox"
)

const canary = "canary-5d3f0f5e9c7b"

var id = stet.ID{Scope: "acme", Key: canary}

// events are one of each kind, with a key in the only place where one can be.
var events = []stet.Event{
	{Kind: stet.Transition, ID: id, By: "request", Route: "POST /x", TraceID: "t1", To: stet.Running, Attempt: 1},
	{Kind: stet.Transition, ID: id, By: "holder", Route: "POST /x", TraceID: "t1", From: stet.Running, To: stet.Completed, Attempt: 1, Took: 12 * time.Millisecond},
	{Kind: stet.Transition, ID: id, By: "holder", Route: "POST /x", From: stet.Running, To: stet.Unknown, Attempt: 2, Cause: "panic", Took: 60300 * time.Millisecond},
	{Kind: stet.Transition, ID: id, By: "sweeper", Route: "POST /x", From: stet.Running, To: stet.Unknown, Attempt: 1, Cause: "lease-lapsed", Lapse: "lease-lapsed"},
	{Kind: stet.Transition, ID: id, By: "reaper", Route: "POST /x", From: stet.Completed, Attempt: 1},
	{Kind: stet.Trimmed, Count: 7},
	{Kind: stet.StoreCall, Op: "create", Took: 3 * time.Millisecond},
	{Kind: stet.StoreCall, Op: "get", Took: time.Millisecond, Err: errors.New("disk on fire")},
	{Kind: stet.LeaseLost, ID: id, Route: "POST /x", Attempt: 1},
	{Kind: stet.Hangs, ID: id, Op: "resolver", Result: "left", Took: 11 * time.Second}, // K07
	{Kind: stet.Hangs, ID: id, Op: "resolver", Result: "left", Took: 11 * time.Second},
	{Kind: stet.Hangs, ID: id, Op: "resolver", Result: "returned", Took: time.Hour},
	{Kind: stet.PersistFailed, ID: id, Route: "POST /x", To: stet.Completed, Err: errors.New("away")},
	{Kind: stet.Persisted, ID: id, Route: "POST /x", To: stet.Completed},
	{Kind: stet.Answer, ID: id, Route: "POST /x", Result: "new", Status: 201, Attempt: 1, WeakKey: true},
	{Kind: stet.Answer, ID: id, Route: "POST /x", Result: "replay", Status: 201},
	{Kind: stet.Answer, ID: id, Route: "shadowed", Result: "bypass", Cause: "conflict", Status: 200, Unprotected: true},
	{Kind: stet.Answer, ID: id, Route: "POST /x", Result: "conflict", Status: 422, Mismatch: []string{"body", "header:Accept"}},
	{Kind: stet.Miswired, ID: id, Route: "POST /x", Cause: "second-guard", Attempt: 1},
	{Kind: stet.Miswired, ID: id, Route: "POST /x", Cause: "bad-outcome", Attempt: 1},
	{Kind: stet.Miswired, Route: "POST /x", Cause: "bad-render"},
	{Kind: stet.Miswired, ID: id, Route: "POST /x", TraceID: "t1", Cause: "answered-elsewhere", Attempt: 1},                                   // C09
	{Kind: stet.Transition, ID: id, By: "request", Route: "POST /x", From: stet.Running, To: stet.Running, Attempt: 2, Lapse: "lease-lapsed"}, // U01
	{Kind: stet.DoubleEffect, ID: id, Route: "POST /x", TraceID: "t1", To: stet.Completed, Attempt: 2, Fence: 17, Status: 201},
	{Kind: stet.Unplaced, ID: id, Route: "POST /x", To: stet.Completed, Attempt: 1, Status: 201, Err: errors.New("gone")},
	{Kind: stet.Unplaced, ID: id, Route: "POST /x", To: stet.Completed, Attempt: 1, Status: 201},
	{Kind: stet.Overfull, Count: 3},
	{Kind: stet.Neglected, ID: id, Route: "POST /x", From: stet.Running, Took: 11 * time.Minute}, // N06
}

func logAt(level slog.Level, events ...stet.Event) string {
	var b bytes.Buffer
	l := NewLog(slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: level})), func(stet.ID) string { return "k_0123456789abcdef" })
	for _, e := range events {
		l.Observe(e)
	}
	return b.String()
}

func TestLog(t *testing.T) {
	text := logAt(slog.LevelDebug, events...)
	if strings.Contains(text, canary) {
		t.Errorf("the log holds a key:\n%s", text)
	}
	type line struct {
		Level, Msg, ID, Scope, Route, From, By, Cause, Lapse, Error, Result, Mismatch string
		TraceID                                                                       string `json:"trace_id"`
		Attempt, Status, Entries                                                      int
		Earlier                                                                       int     `json:"earlier_fence"`
		Took                                                                          float64 `json:"took_ms"`
		Due                                                                           float64 `json:"due_since_s"`
	}
	const tag, route = "k_0123456789abcdef", "POST /x"
	want := []line{
		{Level: "DEBUG", Msg: "key running", ID: tag, Route: route, From: "absent", By: "request", TraceID: "t1", Attempt: 1},
		{Level: "INFO", Msg: "key completed", ID: tag, Route: route, From: "running", By: "holder", TraceID: "t1", Attempt: 1, Took: 12},
		{Level: "WARN", Msg: "key unknown", ID: tag, Route: route, From: "running", By: "holder", Cause: "panic", Attempt: 2},
		{Level: "WARN", Msg: "key unknown", ID: tag, Route: route, From: "running", By: "sweeper", Cause: "lease-lapsed", Lapse: "lease-lapsed", Attempt: 1},
		{Level: "DEBUG", Msg: "key absent", ID: tag, Route: route, From: "completed", By: "reaper", Attempt: 1},
		{Level: "INFO", Msg: "the history was trimmed", Entries: 7},
		{Level: "ERROR", Msg: "store error", Error: "disk on fire", Took: 1},
		{Level: "WARN", Msg: "lease lost", ID: tag, Route: route, Attempt: 1},
		{Level: "WARN", Msg: "a call of a resolver has not returned in its time, and still runs", ID: tag, Took: 11_000},
		{Level: "WARN", Msg: "a call of a resolver has not returned in its time, and still runs", ID: tag, Took: 11_000},
		{Level: "INFO", Msg: "a call of a resolver has returned late; its answer is not used", ID: tag, Took: 3_600_000},
		{Level: "ERROR", Msg: "the result could not be stored; trying on until the store takes it", ID: tag, Route: route, Error: "away"},
		{Level: "INFO", Msg: "the result is stored after all", ID: tag, Route: route},
		{Level: "DEBUG", Msg: "answer", ID: tag, Route: route, Result: "new", Attempt: 1, Status: 201},
		{Level: "DEBUG", Msg: "answer", ID: tag, Route: route, Result: "replay", Status: 201},
		{Level: "DEBUG", Msg: "answer", ID: tag, Route: "shadowed", Result: "bypass", Status: 200},
		{Level: "WARN", Msg: "a key was used for another request", ID: tag, Route: route, Mismatch: "body header:Accept"},
		{Level: "DEBUG", Msg: "answer", ID: tag, Route: route, Result: "conflict", Status: 422},
		{Level: "ERROR", Msg: miswires["second-guard"], ID: tag, Route: route, Cause: "second-guard", Attempt: 1},
		{Level: "WARN", Msg: miswires["bad-outcome"], ID: tag, Route: route, Cause: "bad-outcome", Attempt: 1},
		{Level: "ERROR", Msg: miswires["bad-render"], Route: route, Cause: "bad-render"},
		{Level: "ERROR", Msg: miswires["answered-elsewhere"], ID: tag, Route: route, TraceID: "t1", Cause: "answered-elsewhere", Attempt: 1},
		{Level: "INFO", Msg: "key running", ID: tag, Route: route, From: "running", By: "request", Lapse: "lease-lapsed", Attempt: 2},
		{Level: "ERROR", Msg: doubleEffect, ID: tag, Route: route, TraceID: "t1", Attempt: 2, Earlier: 17, Status: 201},
		{Level: "ERROR", Msg: unplaced, ID: tag, Route: route, Attempt: 1, Status: 201, Error: "gone"},
		{Level: "ERROR", Msg: unplaced, ID: tag, Route: route, Attempt: 1, Status: 201, Error: "the record is of another life"},
		{Level: "WARN", Msg: overfull, Entries: 3},
		{Level: "ERROR", Msg: neglected, ID: tag, Route: route, Due: 660},
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), text)
	}
	for i, l := range lines {
		if want[i].ID != "" {
			want[i].Scope = "acme" // D11: whose request a line is about
		}
		var got line
		if err := json.Unmarshal([]byte(l), &got); err != nil {
			t.Fatal(err)
		}
		if got != want[i] {
			t.Errorf("line %d:\ngot  %+v\nwant %+v", i, got, want[i])
		}
	}
	if n := strings.Count(logAt(slog.LevelInfo, events...), "\n"); n != 22 {
		t.Errorf("%d lines at info, want 22", n)
	}
}

// A store that is away fails with every request; the log says so once a second.
func TestStoreErrorsAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := NewLog(slog.New(slog.NewJSONHandler(&b, nil)), nil)
		for range 30 { // three seconds
			l.Observe(stet.Event{Kind: stet.StoreCall, Op: "create", Err: errors.New("away")})
			time.Sleep(100 * time.Millisecond)
		}
		if n := strings.Count(b.String(), "\n"); n != 3 {
			t.Errorf("%d lines in three seconds:\n%s", n, b.String())
		}
		if strings.Count(b.String(), `"suppressed":9`) != 2 {
			t.Errorf("what was suppressed is not counted:\n%s", b.String())
		}
	})
}

// C18, C10: clients and set-ups that are wrong are so with every request: a line a second for each
// scope, one a minute for each route.
func TestMisuseIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := NewLog(slog.New(slog.NewJSONHandler(&b, nil)), func(stet.ID) string { return "k_1" })
		for range 20 { // two seconds
			for _, scope := range []stet.Scope{"a", "b"} {
				l.Observe(stet.Event{Kind: stet.Answer, ID: stet.ID{Scope: scope, Key: canary}, Result: "conflict", Mismatch: []string{"body"}})
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := strings.Count(b.String(), "\n"); n != 4 || strings.Count(b.String(), `"suppressed":9`) != 2 {
			t.Errorf("%d lines for two scopes in two seconds:\n%s", n, b.String())
		}
		l.Observe(stet.Event{Kind: stet.Answer, Result: "conflict"}) // of an expired key
		b.Reset()
		for range 120 { // two minutes
			for _, route := range []string{"POST /a", "POST /b"} {
				l.Observe(stet.Event{Kind: stet.Miswired, Route: route, Cause: "second-guard"})
				l.Observe(stet.Event{Kind: stet.Miswired, Route: route, Cause: "bad-outcome"})
			}
			time.Sleep(time.Second)
		}
		if n := strings.Count(b.String(), "\n"); n != 8 || strings.Count(b.String(), `"suppressed":59`) != 4 {
			t.Errorf("%d lines for two routes and two causes in two minutes:\n%s", n, b.String())
		}
	})
}

// Scopes that a client can invent do not fill the memory.
func TestThrottlesAreBounded(t *testing.T) {
	th := throttle{every: time.Hour}
	now := time.Now()
	for i := range 3 * maxNames {
		th.pass(strconv.Itoa(i), now)
	}
	if len(th.of) > maxNames {
		t.Errorf("%d names, the bound is %d", len(th.of), maxNames)
	}
}

func scrape(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if strings.Contains(w.Body.String(), canary) || strings.Contains(w.Body.String(), "acme") {
		t.Error("the metrics hold a key or a scope")
	}
	series := map[string]string{}
	for l := range strings.Lines(w.Body.String()) {
		if i := strings.LastIndexByte(l, ' '); i > 0 && l[0] != '#' {
			series[l[:i]] = strings.TrimSpace(l[i+1:])
		}
	}
	return series
}

// C15: every event moves exactly its series, by one.
func TestMetrics(t *testing.T) {
	m := NewMetrics("test", "POST /x", "shadowed")
	for _, route := range []string{"POST /x", "shadowed"} {
		for _, result := range Results {
			if v := scrape(t, m)[fmt.Sprintf(`idem_requests_total{result=%q,route=%q}`, result, route)]; v != "0" {
				t.Errorf("%s %s begins with %q", route, result, v)
			}
		}
	}
	for _, e := range events {
		m.Observe(e)
	}
	got, expected := scrape(t, m), map[string]bool{}
	for series, want := range map[string]string{
		`idem_requests_total{result="new",route="POST /x"}`:           "1",
		`idem_requests_total{result="replay",route="POST /x"}`:        "1",
		`idem_requests_total{result="bypass",route="shadowed"}`:       "1",
		`idem_requests_total{result="conflict",route="shadowed"}`:     "0",
		`idem_shadow_total{route="shadowed",would="conflict"}`:        "1",
		`idem_execution_ms_count`:                                     "1", // an unknown run has a lease in its Took
		`idem_execution_ms_sum`:                                       "12",
		`idem_store_operation_seconds_count{op="create"}`:             "1",
		`idem_store_operation_seconds_count{op="get"}`:                "1",
		`idem_store_errors_total{op="get"}`:                           "1",
		`idem_store_errors_total{op="create"}`:                        "0",
		`idem_lease_lost_total`:                                       "1",
		`idem_lapsed_total{cause="lease-lapsed"}`:                     "2",
		`idem_hanging_calls{kind="resolver"}`:                         "1",
		`idem_swept_total`:                                            "1",
		`idem_lapsed_total{cause="lease-lost"}`:                       "0", // there before the first: an alert sees it rise
		`idem_lapsed_total{cause="not-resumed"}`:                      "0",
		`idem_lapsed_total{cause="holder-gone"}`:                      "0",
		`idem_double_effect_total`:                                    "1",
		`idem_unplaced_total`:                                         "2",
		`idem_reaped_total`:                                           "1",
		`idem_history_trimmed_total`:                                  "7",
		`idem_unprotected_total{route="POST /x"}`:                     "0",
		`idem_unprotected_total{route="shadowed"}`:                    "1",
		`idem_weak_keys_total`:                                        "1",
		`idem_build_info{version="test"}`:                             "1",
		`idem_store_operation_seconds_bucket{op="create",le="0.005"}`: "1",
	} {
		name, _, _ := strings.Cut(series, "{")
		expected[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")] = true
		if got[series] != want {
			t.Errorf("%s is %q, want %s", series, got[series], want)
		}
	}
	for series, n := range got {
		name, _, _ := strings.Cut(series, "{")
		family := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if strings.HasPrefix(name, "idem_") && n != "0" && !expected[family] {
			t.Errorf("%s is %s, and no event was to move it", series, n)
		}
	}
	m.Routes("POST /y")
	if got := scrape(t, m); got[`idem_requests_total{result="new",route="POST /y"}`] != "0" || got[`idem_requests_total{result="new",route="POST /x"}`] != "1" {
		t.Error("a reload lost a route or did not make one")
	}
	m.Observe(stet.Event{Kind: stet.Answer, Route: "nowhere", Result: "new"})
	if scrape(t, m)[`idem_requests_total{result="new",route="nowhere"}`] != "1" {
		t.Error("a route nobody declared is not counted")
	}
}

// fakeStore answers as it is told.
type fakeStore struct{ fails map[string]bool }

func (f *fakeStore) Count(_ context.Context, q stet.Query) (int, error) {
	switch {
	case f.fails["count"]:
		return 0, stet.ErrUnsupported
	case q.States[0] == stet.Running:
		return 3, nil
	case q.Failed:
		return 7, nil
	}
	return 0, nil
}

func (f *fakeStore) List(context.Context, stet.Query) ([]stet.Head, string, error) {
	if f.fails["list"] {
		return nil, "", stet.ErrUnsupported
	}
	return nil, "", nil
}

func (f *fakeStore) DoubleEffects(_ context.Context, limit int) ([]stet.Change, error) {
	if f.fails["doubles"] {
		return nil, stet.ErrUnsupported
	}
	return make([]stet.Change, min(2, limit)), nil
}

func (f *fakeStore) messages(context.Context, *stet.Engine) (map[outbox.State]int64, error) {
	if f.fails["messages"] {
		return nil, stet.ErrUnsupported
	}
	return map[outbox.State]int64{outbox.Dead: 2, outbox.Unknown: 1, outbox.Pending: 5}, nil
}

// What is measured of the store is shown, and what it does not answer is absent, which is not 0.
func TestMeasured(t *testing.T) { // Y18, K03
	m, f := NewMetrics("test"), &fakeStore{fails: map[string]bool{}}
	measured := func(measures []fleet.Measure) map[string]float64 {
		all := countKeys(t.Context(), f)
		maps.Copy(all, measureDoubt(t.Context(), f))
		for _, measure := range measures[2:] {
			maps.Copy(all, measure(t.Context(), nil))
		}
		return all
	}
	all := map[string][]string{"count": {`idem_keys_active{state="running"}`, `idem_keys_active{state="failed"}`, `idem_keys_active{state="completed"}`},
		"list":    {"idem_unknown_oldest_age_seconds", "idem_keys_snoozed", `idem_dead_letters{kind="unknown"}`},
		"doubles": {"idem_keys_double_effect"}, "messages": {`idem_dead_letters{kind="outbox"}`}}
	want := map[string]string{`idem_keys_active{state="running"}`: "3", `idem_keys_active{state="failed"}`: "7", `idem_dead_letters{kind="outbox"}`: "3",
		"idem_keys_double_effect": "2"}
	for _, fails := range []string{"", "count", "list", "doubles", "messages", "", "all"} {
		clear(f.fails)
		f.fails[fails] = true
		values := measured(Measures(f.messages))
		if fails == "all" {
			values = nil
		}
		m.Measured(values)
		got := scrape(t, m)
		for what, series := range all {
			for _, s := range series {
				if v, there := got[s]; there != (what != fails && fails != "all") || there && v != cmp.Or(want[s], "0") {
					t.Errorf("%q fails: %s is %q", fails, s, v)
				}
			}
		}
	}
	if values := measured(Measures(nil)); values[keysOf+"running"] != 3 || len(values) != 10 {
		t.Errorf("without an outbox: %v", values)
	}
}

// The store's calls are told as they were lately.
func TestStoreCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics("test")
		near := func(got, want time.Duration) bool { return got > want*3/4 && got < want*4/3 }
		tell := func(n int, took time.Duration, err error) {
			for range n {
				m.Observe(stet.Event{Kind: stet.StoreCall, Op: "get", Took: took, Err: err})
			}
		}
		if p50, p99, failing := m.StoreCalls(); p50 != 0 || p99 != 0 || failing {
			t.Errorf("before the first: %s, %s, %t", p50, p99, failing)
		}
		tell(950, 2*time.Millisecond, nil)
		tell(50, 80*time.Millisecond, nil)
		tell(700, time.Second, context.DeadlineExceeded)
		if p50, p99, failing := m.StoreCalls(); !near(p50, 2*time.Millisecond) || !near(p99, 80*time.Millisecond) || failing {
			t.Errorf("%s, %s, %t", p50, p99, failing)
		}
		time.Sleep(90 * time.Second)
		tell(6, time.Second, context.DeadlineExceeded)
		tell(2, time.Millisecond, nil)
		if p50, _, failing := m.StoreCalls(); !near(p50, 2*time.Millisecond) || !failing {
			t.Errorf("when most fail: %s, %t", p50, failing)
		}
		time.Sleep(7 * time.Minute)
		tell(10, time.Microsecond, nil)
		if _, p99, failing := m.StoreCalls(); p99 > 16*time.Microsecond || failing {
			t.Errorf("seven minutes later: %s, %t", p99, failing)
		}
	})
}

// What only the process knows is asked with each scrape.
func TestUnstored(t *testing.T) { // K03
	m := NewMetrics("test")
	n := 0
	m.Unstored(func() (int, int64) { n++; return n, 1 << 20 })
	if got := scrape(t, m); got["idem_unstored"] == "0" || got["idem_unstored_bytes"] != "1.048576e+06" {
		t.Errorf("%s entries, %s bytes", got["idem_unstored"], got["idem_unstored_bytes"])
	}
}

func BenchmarkObserve(b *testing.B) {
	m := NewMetrics("test", "POST /x")
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(events[1])
		m.Observe(events[5])
		m.Observe(events[5])
		m.Observe(events[10])
	}
}

func BenchmarkLog(b *testing.B) {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	l := NewLog(slog.New(slog.NewJSONHandler(f, nil)), func(stet.ID) string { return "k_0123456789abcdef" })
	b.ReportAllocs()
	for b.Loop() {
		l.Observe(events[1])
	}
}
