package bounds

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
)

// TB is what Covers and Refuses need of a [testing.TB].
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Covers reports an error for each exported field of the table's struct that is a number and has no
// row, and for each row that has no such field. It looks into embedded structs, into structs and
// lists that are fields, and behind pointers to structs of the same package. A row [Free] covers
// all that is in its field.
func Covers(t TB, table *Table) {
	t.Helper()
	w := walk{from: table.of.PkgPath(), rows: table.rows, used: map[string]bool{}}
	w.enter(table.of, "")
	for _, path := range w.bare {
		t.Errorf("%s%s is a number that has no bounds: add a row to the struct's bounds.For, such as "+
			"bounds.Duration(%[2]q, bounds.Short, bounds.Long).OrDefault() or bounds.Number(%[2]q, 0, bounds.Many), "+
			"or bounds.Free(%[2]q, \"the reason why it may be anything\")", table.name, path)
	}
	for _, r := range table.rows {
		if !w.used[r.field] {
			t.Errorf("%s%s has a row, and is no number", table.name, r.field)
		}
		if r.kind == duration && r.from > 0 && r.from < int64(Short) {
			t.Errorf("%s%s takes a number without a unit: let its least be bounds.Short, or 0 where it is what is left of a time", table.name, r.field)
		}
		if r.kind == free && r.why == "" {
			t.Errorf("%s%s is free for no reason", table.name, r.field)
		}
	}
}

// walk looks for the numbers of a struct.
type walk struct {
	from string // the package of the root
	rows []Row
	used map[string]bool // rows that have their field
	bare []string        // paths of numbers without a row
	open []reflect.Type  // the structs that it is in, which may point at themselves
}

func (w *walk) enter(t reflect.Type, path string) {
	if slices.Contains(w.open, t) {
		return
	}
	w.open = append(w.open, t)
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct && !w.has(join(path, f.Name)):
			w.enter(f.Type, path) // its fields have the names of this struct's own
		case f.IsExported():
			w.visit(f.Type, join(path, f.Name))
		}
	}
	w.open = w.open[:len(w.open)-1]
}

// visit looks at the type of a field, or of a list's elements.
func (w *walk) visit(t reflect.Type, path string) {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Func, reflect.Interface, reflect.Map, reflect.Chan:
		return // no number, and nothing with numbers in it that could be named
	}
	if w.has(path) {
		return
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64:
		w.bare = append(w.bare, path)
	case reflect.Struct:
		w.enter(t, path)
	case reflect.Pointer:
		// What belongs to another package, such as an engine, looks after itself, unless a row says
		// otherwise.
		if e := t.Elem(); e.Kind() != reflect.Struct || e.PkgPath() == w.from || w.within(path) {
			w.visit(e, path)
		}
	case reflect.Slice, reflect.Array:
		if t.Elem() != reflect.TypeFor[byte]() { // text and sums are no numbers
			w.visit(t.Elem(), path+"[]")
		}
	}
}

// within reports whether a row is of something within what a path leads to.
func (w *walk) within(path string) bool {
	return slices.ContainsFunc(w.rows, func(r Row) bool { return strings.HasPrefix(r.field, path+".") })
}

// has reports whether a path has a row, and notes that the row has its field.
func (w *walk) has(path string) bool {
	has := slices.ContainsFunc(w.rows, func(r Row) bool { return r.field == path })
	if has {
		w.used[path] = true
	}
	return has
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Refuses is what a package tests of each of its tables: that it [Covers] its struct, and that use,
// the door by which the struct enters, looks at it. use is given valid with each of its fields out
// of bounds, one at a time: the value before the least, the one after the most, and the least and
// the largest of its type. Refuses reports an error where use returns no [Error], or one that does
// not name the field. For what is valid use may return any other error, such as one of something
// that is missing. Rows that are free are not tried. Each of the others has to be there in valid:
// no pointer on the way may be nil, and no list empty.
func Refuses[T any](t TB, table *Table, valid func() T, use func(T) error) {
	t.Helper()
	Covers(t, table)
	if err := use(valid()); refused(err) {
		t.Errorf("what is valid is refused: %v", err)
	}
	for _, r := range table.rows {
		for _, value := range r.outside() {
			v := valid()
			f, there := find(reflect.ValueOf(&v), r.steps)
			if !there {
				t.Errorf("%s%s cannot be tried: it is behind a nil pointer, or in an empty list", table.name, r.field)
				break
			}
			if !set(f, value) {
				continue
			}
			_, name, _ := strings.Cut(table.name, ": ")
			switch err := use(v); {
			case !refused(err):
				t.Errorf("%s%s: %v is taken, or not looked at before something else: %v", name, r.field, value, err)
			case !strings.Contains(err.Error(), name+r.field+" is "):
				t.Errorf("%s%s: %v is refused without its name: %v", name, r.field, value, err)
			}
		}
	}
}

func refused(err error) bool { return errors.As(err, new(*Error)) }

// find returns what the steps lead to, in a list its last element.
func find(v reflect.Value, steps []step) (f reflect.Value, there bool) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return v, false
		}
		v = v.Elem()
	}
	if len(steps) == 0 {
		return v, true
	}
	f = v.FieldByIndex(steps[0].index)
	if steps[0].list {
		if f.Len() == 0 {
			return f, false
		}
		f = f.Index(f.Len() - 1)
	}
	return find(f, steps[1:])
}

// outside returns values that the row refuses.
func (r *Row) outside() (all []any) {
	switch r.kind {
	case free:
		return nil
	case fraction:
		return []any{math.NaN(), math.Inf(-1), math.Inf(1),
			math.Nextafter(r.least, math.Inf(-1)), math.Nextafter(r.most, math.Inf(1))}
	}
	for _, v := range []int64{math.MinInt64, r.from - 1, r.to + 1, math.MaxInt64} {
		if r.Check(v) != nil {
			all = append(all, v)
		}
	}
	return all
}

// set reports whether the field can hold the value.
func set(f reflect.Value, value any) bool {
	switch v := value.(type) {
	case float64:
		f.SetFloat(v)
	case int64:
		switch {
		case f.CanInt() && !f.OverflowInt(v):
			f.SetInt(v)
		case f.CanUint() && v >= 0 && !f.OverflowUint(uint64(v)):
			f.SetUint(uint64(v))
		default:
			return false
		}
	}
	return true
}
