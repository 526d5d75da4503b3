package figures

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
)

// The proofs of this file walk the types, so that a field that is added is merged, told, summed and
// documented, or a test fails.

// fullRecord has every field set that a process publishes.
func fullRecord(now time.Time) *record {
	n := 0
	r := &record{}
	fill(reflect.ValueOf(r).Elem(), &n, now)
	r.State, r.Partial = draining, false
	r.Shadows[0].Name = r.Routes[0].Name
	for _, s := range []*strip{&r.Hour, &r.Day, &r.Routes[0].strip, &r.Shadows[0].strip} {
		step := hourStep
		switch s {
		case &r.Hour:
			step = fineStep
		case &r.Day:
			step = dayStep
		}
		s.Last = now.UnixNano()/int64(step) - 3
	}
	return r
}

func fill(v reflect.Value, n *int, now time.Time) {
	*n++
	switch at := pointer(v).(type) {
	case *time.Time:
		*at = now
		return
	case *map[string][]uint64:
		*at = map[string][]uint64{}
		for i, name := range columnNames {
			(*at)[name] = []uint64{uint64(10 + i)}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() || v.Type().Field(i).Anonymous {
				fill(v.Field(i), n, now)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n, now)
	case reflect.String:
		v.SetString(fmt.Sprint("x", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	default:
		panic("what is a " + v.Type().String())
	}
}

// pointer is to a value; nil of an embedded struct, whose fields are walked.
func pointer(v reflect.Value) any {
	if !v.CanInterface() {
		return nil
	}
	return v.Addr().Interface()
}

// leaves visits each thing that a record says, with a function that takes it out.
func leaves(path string, v reflect.Value, visit func(path string, take func())) {
	switch at := pointer(v).(type) {
	case *time.Time:
		visit(path, func() { *at = time.Time{} })
		return
	case *map[string][]uint64:
		for _, name := range columnNames {
			visit(path+"."+name, func() { delete(*at, name) })
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				leaves(path+"."+f.Name, v.Field(i), visit)
			}
		}
	case reflect.Slice:
		if v.Len() > 0 {
			leaves(path, v.Index(0), visit)
		}
	case reflect.Bool:
		visit(path, func() { v.SetBool(!v.Bool()) })
	default:
		visit(path, func() { v.SetZero() })
	}
}

// merged is what a reader knows of processes with these records.
func merged(now time.Time, records ...*record) *Board {
	b := New(Config{})
	b.reader = true
	b.clock.own = now
	var all []peer
	for i, r := range records {
		all = append(all, peer{head: stet.Head{State: stet.Running, Holder: fmt.Sprint("gw-", i), UpdatedAt: now, AsOf: now, DueAt: now.Add(lease)}, record: *r})
	}
	v := b.merge(all)
	v.until = time.Now().Add(time.Hour)
	b.views.last.Store(v)
	return b
}

// said is all of it.
func said(t *testing.T, b *Board, r *record, now time.Time) string {
	a, _ := b.Asking(t.Context(), r.Asked[0].ID, now.Add(-time.Hour))
	_, m := b.Asking(t.Context(), r.Mismatches[0].ID, time.Time{})
	return fmt.Sprintf("%+v %+v %+v", b.Figures(t.Context()), a, m)
}

// All that a process publishes survives its way through the store, and reaches readers.
func TestEveryFigureIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // all views are of one instant
		now := time.Now().UTC()
		full := fullRecord(now)
		packed, err := full.encode(&packer{})
		if err != nil {
			t.Fatal(err)
		}
		back, err := decode(packed)
		if err != nil || !reflect.DeepEqual(&back, full) {
			t.Errorf("stored:\n%+v, %v\npublished:\n%+v", back, err, full)
		}
		complete, n := said(t, merged(now, full), full, now), 0
		leaves("", reflect.ValueOf(full).Elem(), func(path string, _ func()) {
			without := fullRecord(now)
			leaves("", reflect.ValueOf(without).Elem(), func(p string, take func()) {
				if p == path {
					take()
				}
			})
			missed := said(t, merged(now, without), full, now) != complete
			if n++; missed == unread(path) {
				t.Errorf("that a reader misses %s is %v", path, missed)
			}
		})
		if n < 5*columns {
			t.Errorf("only %d leaves", n)
		}
	})
}

// unread says of a path that no reader is told of it: what is beside the results is told of routes
// alone, and parts and trace are of mismatches.
func unread(path string) bool {
	return strings.Contains(path, "+") && !strings.HasPrefix(path, ".Routes") || path == ".Asked.Parts" || path == ".Asked.Trace"
}

// Readers are told every field of the documents, and of two processes the sum.
func TestEveryFigureIsSummed(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	full := fullRecord(now)
	one := merged(now, full).Figures(t.Context())
	full.Partial = true
	two := merged(now, full, full).Figures(t.Context())
	set := map[string]bool{}
	fields("", reflect.ValueOf(two), set)
	for path, is := range set {
		if configured := path == ".Routes.Match" || path == ".Routes.Mode"; is == configured {
			t.Errorf("%s is told: %v", path, is)
		}
	}
	doubled(t, "hour", reflect.ValueOf(one.Hour), reflect.ValueOf(two.Hour))
	doubled(t, "day", reflect.ValueOf(one.Day), reflect.ValueOf(two.Day))
	doubled(t, "routes", reflect.ValueOf(one.Routes), reflect.ValueOf(two.Routes))
}

// fields notes of each field whether an element has it.
func fields(path string, v reflect.Value, set map[string]bool) {
	switch {
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			fields(path+"."+v.Type().Field(i).Name, v.Field(i), set)
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			fields(path, v.Index(i), set)
		}
	default:
		set[path] = set[path] || !v.IsZero()
	}
}

// doubled compares what one process says with what two of the same say.
func doubled(t *testing.T, path string, one, two reflect.Value) {
	t.Helper()
	switch one.Kind() {
	case reflect.Struct:
		for i := range one.NumField() {
			if f := one.Type().Field(i); f.IsExported() && f.Name != "Step" {
				doubled(t, path+"."+f.Name, one.Field(i), two.Field(i))
			}
		}
	case reflect.Slice:
		for i := range one.Len() {
			doubled(t, path, one.Index(i), two.Index(i))
		}
	case reflect.Map:
		for _, k := range one.MapKeys() {
			doubled(t, path+"."+k.String(), one.MapIndex(k), two.MapIndex(k))
		}
	case reflect.Int:
		if one.Int() == 0 || 2*one.Int() != two.Int() {
			t.Errorf("%s: %d of one, %d of two", path, one.Int(), two.Int())
		}
	case reflect.Float64:
		if 2*one.Float() != two.Float() {
			t.Errorf("%s: %v of one, %v of two", path, one.Float(), two.Float())
		}
	case reflect.String:
	default:
		t.Errorf("what is a %s", one.Type())
	}
}

// Operators find every member of the figures' documents in docs/operate.md.
func TestEveryFigureIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, doc := range []reflect.Type{reflect.TypeFor[operate.Gateway](), reflect.TypeFor[operate.Series](), reflect.TypeFor[operate.RouteFigures](),
		reflect.TypeFor[operate.Asking](), reflect.TypeFor[operate.Mismatch]()} {
		for i := range doc.NumField() {
			name, _, _ := strings.Cut(doc.Field(i).Tag.Get("json"), ",")
			if n++; !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/operate.md does not say what `%s` of a %s is", name, doc.Name())
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d members", n)
	}
}
