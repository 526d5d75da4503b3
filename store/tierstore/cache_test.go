package tierstore

import (
	"context"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// A reader who comes late with an older record does not put it over a newer one.
func TestNewerStays(t *testing.T) {
	now := time.Now()
	at := func(v stet.Version, age time.Duration) stet.Record {
		return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Version: v, State: stet.Completed, UpdatedAt: now.Add(-age)}}
	}
	for name, f := range map[string]Cache{"memory": NewMemory(0), "shared": Shared(memstore.New(memstore.Config{}))} {
		for _, put := range []struct{ put, want stet.Record }{
			{at(1, time.Hour), at(1, 0)}, {at(3, time.Minute), at(3, 0)}, {at(2, 2*time.Minute), at(3, 0)}, {at(4, time.Second), at(4, 0)},
		} {
			stored, err := f.put(t.Context(), put.put, time.Minute, f.see(put.put.ID, now))
			if err != nil || stored != (put.put.Version == put.want.Version) {
				t.Fatalf("%s: put of version %d: %v, %v", name, put.put.Version, stored, err)
			}
			got, _, ok, err := f.take(t.Context(), put.put.ID, now)
			if err != nil || !ok || got.Version != put.want.Version {
				t.Errorf("%s: after version %d was put there is %d (%v, %v)", name, put.put.Version, got.Version, ok, err)
			}
		}
	}
}

// stubborn is a cache in which another write of the stripe overtakes each copy on its way.
type stubborn struct{ *Memory }

func (c stubborn) put(ctx context.Context, r stet.Record, ttl time.Duration, m mark) (bool, error) {
	m.stripe.writes.Add(1)
	return c.Memory.put(ctx, r, ttl, m)
}

// A result whose copy the cache refuses leaves no copy of the result before it.
func TestARefusedCopyLeavesNoOther(t *testing.T) {
	origin, cache := memstore.New(memstore.Config{}), NewMemory(0)
	h := stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Version: 1, State: stet.Completed, Attempt: 1, DueIn: time.Hour}
	s, err := New(cache, origin, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), stet.Record{Head: h}); err != nil {
		t.Fatal(err)
	}
	if _, _, ok, _ := cache.take(t.Context(), h.ID, time.Now()); !ok {
		t.Fatal("there is no copy of the first result")
	}
	if s, err = New(stubborn{cache}, origin, Config{}); err != nil {
		t.Fatal(err)
	}
	h.Version, h.DueIn = 2, time.Hour
	if _, err := s.Replace(t.Context(), 1, h, &stet.Body{}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), h.ID); err != nil || got.Version != 2 {
		t.Errorf("version %d is read after version 2 was written: %v", got.Version, err)
	}
}

// fill gives v, and all that it holds, values that are parts of something larger, as those of
// requests and of servers' answers are.
func fill(v reflect.Value) {
	const part = 2000
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
	case v.Kind() == reflect.String:
		v.SetString(strings.Repeat("larger", part)[part : 2*part])
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		v.Set(reflect.MakeSlice(v.Type(), part, 2*part))
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 9))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.SetMapIndex(key, value)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// span is memory that something has.
type span struct {
	of   string
	from uintptr
	size int
}

// spans returns the memory that v refers to, and that what is there refers to.
func spans(of string, v reflect.Value) (all []span) {
	switch v.Kind() {
	case reflect.String:
		all = []span{{of, uintptr(unsafe.Pointer(unsafe.StringData(v.String()))), v.Len()}}
	case reflect.Pointer:
		if v.Type() != reflect.TypeFor[*time.Location]() && !v.IsNil() {
			all = append(spans(of, v.Elem()), span{of, v.Pointer(), int(v.Type().Elem().Size())})
		}
	case reflect.Slice:
		all = []span{{of, v.Pointer(), v.Cap() * int(v.Type().Elem().Size())}}
		for i := range v.Len() {
			all = append(all, spans(of, v.Index(i))...)
		}
	case reflect.Map:
		pair := int(v.Type().Key().Size() + v.Type().Elem().Size())
		all = []span{{of, v.Pointer(), 48 + 8 + 8*pair}} // its head, and a group of eight
		for _, key := range v.MapKeys() {
			all = append(append(all, spans(of, key)...), spans(of, v.MapIndex(key))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			all = append(all, spans(of+"."+v.Type().Field(i).Name, v.Field(i))...)
		}
	}
	return all
}

// A copy in memory keeps nothing else in memory, whatever the record was a part of; and all that it
// takes counts.
func TestCopiesShareNoMemory(t *testing.T) {
	var r stet.Record
	fill(reflect.ValueOf(&r).Elem())
	c := NewMemory(0)
	now := time.Now()
	if stored, err := c.put(t.Context(), r, time.Minute, c.see(r.ID, now)); err != nil || !stored {
		t.Fatalf("put: %v, %v", stored, err)
	}
	got, _, ok, _ := c.take(t.Context(), r.ID, now)
	if !ok || !reflect.DeepEqual(got, r) {
		t.Fatalf("there is %v, %+v\nwant %+v", ok, got, r)
	}
	e, _ := c.entries.GetIfPresent(r.ID)
	size := int(unsafe.Sizeof(*e))
	given := spans("", reflect.ValueOf(r))
	for _, s := range spans("", reflect.ValueOf(e.record)) {
		size += s.size
		for _, g := range given {
			if s.from < g.from+uintptr(g.size) && g.from < s.from+uintptr(s.size) {
				t.Errorf("%s of the copy shares memory with %s of the record", s.of, g.of)
			}
		}
	}
	for key := range c.entries.Keys() {
		if unsafe.StringData(string(key.Key)) == unsafe.StringData(string(r.Key)) {
			t.Error("the index shares memory with the record")
		}
	}
	if size > int(e.weight) {
		t.Errorf("a copy of %d bytes counts as %d", size, e.weight)
	}
	runtime.KeepAlive(&r)
}
