package memstore_test

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/fill"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest"
)

// Only this process can reach what is in its memory: there is nothing to tamper with.
var backend = storetest.Backend{Open: func(_ testing.TB, _ string, clock func() time.Time) stet.Store {
	return memstore.New(memstore.Config{Clock: clock})
}}

func TestLaws(t *testing.T) { storetest.Run(t, backend) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, backend) }

func record(i int, state stet.State, due time.Duration) stet.Record {
	return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: stet.Key(fmt.Sprintf("8e03978e-40d5-43e8-bc93-%012d", i))},
		Version: stet.Version(i + 1), State: state, Attempt: 1, Fingerprint: stet.Fingerprint{Recipe: "1 auto"}, DueIn: due,
		Holder: "host:1", Route: "charges", Method: "POST", Path: "/v1/charges"}}
}

// A test's clock may stand at the epoch: a record has its instants there, too, and its fence stays.
func TestClockAtTheEpoch(t *testing.T) { // I13
	now := time.Unix(0, 0)
	s := memstore.New(memstore.Config{Clock: func() time.Time { return now }})
	made, err := s.Create(t.Context(), stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Version: 1, State: stet.Running, Attempt: 1}})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(5 * time.Second)
	h := made.Head
	h.Version, h.State = 2, stet.Completed
	if h, err = s.Replace(t.Context(), made.Version, h, nil); err != nil {
		t.Fatal(err)
	}
	if !made.CreatedAt.Equal(time.Unix(0, 0)) || !h.CreatedAt.Equal(made.CreatedAt) || h.Fence() != made.Fence() {
		t.Errorf("created %s with fence %d, then %s with %d", made.CreatedAt, made.Fence(), h.CreatedAt, h.Fence())
	}
}

func TestFullStoreRefusesRatherThanForgets(t *testing.T) { // LM-08, I10
	var clock storetest.Clock
	s := memstore.New(memstore.Config{MaxKeys: 4, Clock: clock.Now})
	for i, st := range []stet.State{stet.Running, stet.Unknown, stet.Completed, stet.Retryable} {
		if _, err := s.Create(t.Context(), record(i, st, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Create(t.Context(), record(9, stet.Running, 0)); !errors.Is(err, stet.ErrFull) {
		t.Fatalf("Create in a full store: %v, want ErrFull", err)
	}
	clock.Advance(time.Hour) // two are over and may go; running and unknown ones never may
	for i := range 3 {
		_, err := s.Create(t.Context(), record(10+i, stet.Running, time.Hour))
		if want := i == 2; errors.Is(err, stet.ErrFull) != want {
			t.Fatalf("Create %d after the retention: %v", i, err)
		}
	}
	for i := range 2 {
		if _, err := s.Get(t.Context(), record(i, 0, 0).ID); err != nil {
			t.Errorf("a live record was forgotten: %v", err)
		}
	}
}

// Each field of a head is kept also if no other is set: what a record says of itself is not taken
// for what most records say.
func TestEachFieldAlone(t *testing.T) {
	s := memstore.New(memstore.Config{})
	fields := reflect.TypeFor[stet.Head]()
	for i := range fields.NumField() {
		f := fields.Field(i)
		if f.Type == reflect.TypeFor[time.Time]() || f.Name == "ID" || f.Name == "DueIn" {
			continue
		}
		r := stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: stet.Key(f.Name)}, State: stet.Running, Version: 1}}
		want := reflect.ValueOf(&r.Head).Elem().Field(i)
		fill.Zero(want.Addr().Interface())
		if f.Name == "Took" {
			r.Took = time.Hour
		}
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if is := reflect.ValueOf(got.Head).Field(i); f.Name != "Tag" && !reflect.DeepEqual(is.Interface(), want.Interface()) {
			t.Errorf("%s: %v has become %v", f.Name, want, is)
		}
	}
}

// BenchmarkMemory reports the bytes a stored key takes beyond its response body.
func BenchmarkMemory(b *testing.B) {
	const n, body = 1_000_000, 200
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := memstore.New(memstore.Config{MaxKeys: n})
		for i := range n {
			r := record(i, stet.Running, time.Minute)
			response := &stet.Response{Status: 201, Body: make([]byte, body), Header: []stet.Field{
				{Name: "Content-Type", Value: "application/json"}, {Name: "Location", Value: fmt.Sprintf("/v1/charges/%08d", i)}}}
			if _, err := s.Create(b.Context(), r); err != nil {
				b.Fatal(err)
			}
			h := r.Head
			h.Version, h.State, h.Status, h.Size, h.DueIn = h.Version+n, stet.Completed, 201, body, time.Hour
			if _, err := s.Replace(b.Context(), r.Version, h, &stet.Body{Response: response}); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n-body, "B/key")
		runtime.KeepAlive(s)
	}
}

func ExampleNew() {
	engine, err := stet.New(memstore.New(memstore.Config{MaxKeys: 10_000}), stet.Config{})
	fmt.Println(engine != nil, err)
	// Output: true <nil>
}
