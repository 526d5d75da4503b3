// Package bounds checks the numbers and durations of a struct against a table, so that a value that
// cannot be meant is refused where it enters. A duration that was written without its unit, such as
// 24 for 24 hours, is such a value; so is the largest integer, which overflows once something is
// added to it.
//
// A table has a row for each number of the struct:
//
//	var policyBounds = bounds.For[Policy](
//		bounds.Duration("Lease", bounds.Short, bounds.Long).OrDefault(),
//		bounds.Duration("Execution", bounds.Short, bounds.Long).Or("stet.Never", Never),
//		bounds.Number("Waiters", 1, bounds.Many).OrDefault(),
//		bounds.Number("Limits.Body", 1, bounds.Huge), // of the struct in the field Limits
//		bounds.Number("Statuses[]", 400, 599),        // of each element of Statuses
//		bounds.Free("Took", "it is an answer, and nothing counts on it"),
//	)
//
// [Table.Check] compares a struct with its table, and [Row.Check] one value with its row. In a
// test, [Refuses] asks for a row for each number, and tries values that are out of bounds.
package bounds

import (
	"fmt"
	"math"
	"path"
	"reflect"
	"strings"
	"time"
)

// Least and most that a duration, a count and a number of bytes can reasonably be.
const (
	// Short is far below what anything that waits for a store or a person is set to, and far above
	// what a number without a unit comes to: 86400 is 86.4µs.
	Short = time.Millisecond
	// Long leaves room: two of it after an instant of this century are an instant that still has a
	// number of nanoseconds since 1970.
	Long = 100 * 365 * 24 * time.Hour
	// Many things fit an int of 32 bits, also where two such numbers are added.
	Many = 1 << 30
	// Huge is a tebibyte.
	Huge = 1 << 40
)

// Row bounds one field.
type Row struct {
	field       string
	least, most float64 // used for fields of floating point alone
	from, to    int64
	kind        kind
	or          []exception
	why         string // of a field that is free
	steps       []step // from the struct to the field; of a row in a table
}

type kind uint8

const (
	number kind = iota
	duration
	fraction
	free
)

// exception is a value that is taken although it is out of bounds, and its name.
type exception struct {
	value int64
	name  string
}

// Duration bounds a field that is a [time.Duration]. Both bounds are included.
func Duration(field string, least, most time.Duration) Row {
	return Row{field: field, from: int64(least), to: int64(most), kind: duration}
}

// Number bounds a field that is an integer: a count, a size in bytes, a status, or a constant of a
// type with few of them. Both bounds are included.
func Number(field string, least, most int64) Row {
	return Row{field: field, from: least, to: most, kind: number}
}

// Fraction bounds a field of floating point. Both bounds are included, and NaN is out of bounds.
func Fraction(field string, least, most float64) Row {
	return Row{field: field, least: least, most: most, kind: fraction}
}

// Free is for a field that may have any value, or for one with fields of its own that other code
// checks: why says so.
func Free(field, why string) Row { return Row{field: field, kind: free, why: why} }

// OrDefault also lets 0 pass, which stands for a default.
func (r Row) OrDefault() Row { return r.Or("0 for the default", 0) }

// Or also lets value pass, which the error calls name.
func (r Row) Or(name string, value time.Duration) Row {
	r.or = append(r.or[:len(r.or):len(r.or)], exception{int64(value), name})
	return r
}

// Check returns an error if value is out of bounds. It is for arguments that are in no struct, and
// for the path of a request: it costs two comparisons.
func (r *Row) Check(value int64) error {
	if value >= r.from && value <= r.to || r.excepts(value) {
		return nil
	}
	return r.refuse("", value)
}

func (r *Row) excepts(value int64) bool {
	for _, e := range r.or {
		if value == e.value {
			return true
		}
	}
	return false
}

// Error says that a value is out of bounds. It holds nothing but the field's name and numbers.
type Error struct {
	Field string // as it is called in its struct
	text  string
}

func (e *Error) Error() string { return e.text }

func (r *Row) refuse(of string, value any) error {
	least, most := any(r.from), any(r.to)
	switch v, whole := value.(int64); {
	case r.kind == fraction:
		least, most = r.least, r.most
	case r.kind == duration && whole:
		value, least, most = time.Duration(v), time.Duration(r.from), time.Duration(r.to)
	}
	text := fmt.Sprintf("%s%s is %v; it has to be from %v to %v", of, r.field, value, least, most)
	for _, e := range r.or {
		text += ", or " + e.name
	}
	return &Error{r.field, text}
}

// Table bounds the fields of a struct type.
type Table struct {
	of   reflect.Type
	name string // such as "stet: Policy."
	rows []Row
}

// For returns the table of the struct type T. It panics if a row names no field of it. What it
// finds out holds for all instances of a generic type.
func For[T any](rows ...Row) *Table {
	of := reflect.TypeFor[T]()
	name, _, _ := strings.Cut(of.Name(), "[")
	for i := range rows {
		rows[i].steps = stepsTo(of, rows[i].field)
	}
	return &Table{of, path.Base(of.PkgPath()) + ": " + name + ".", rows}
}

// Check returns an error for the first row whose field is out of bounds. It names the field, the
// value and the bounds. of is a pointer to the table's struct. Where a pointer on the way to a
// field is nil, there is nothing to check.
func (t *Table) Check(of any) error {
	root := reflect.ValueOf(of).Elem()
	for i := range t.rows {
		if r := &t.rows[i]; r.kind != free {
			if err := r.look(t.name, root, r.steps); err != nil {
				return err
			}
		}
	}
	return nil
}

// step leads from a struct to one of its fields.
type step struct {
	index []int
	list  bool // to each element of it
}

func stepsTo(t reflect.Type, field string) (steps []step) {
	for name := range strings.SplitSeq(field, ".") {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		name, list := strings.CutSuffix(name, "[]")
		f, known := t.FieldByName(name)
		if !known {
			panic(fmt.Sprintf("bounds: %s has no field %s", t, name))
		}
		if t = f.Type; list {
			t = t.Elem()
		}
		steps = append(steps, step{f.Index, list})
	}
	return steps
}

// look checks what the steps lead to from v.
func (r *Row) look(of string, v reflect.Value, steps []step) error {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if len(steps) == 0 {
		return r.compare(of, v)
	}
	f := v
	for _, i := range steps[0].index {
		f = f.Field(i)
	}
	if !steps[0].list {
		return r.look(of, f, steps[1:])
	}
	for i := range f.Len() {
		if err := r.look(of, f.Index(i), steps[1:]); err != nil {
			return err
		}
	}
	return nil
}

// compare compares the value of one field with the row.
func (r *Row) compare(of string, f reflect.Value) error {
	switch {
	case r.kind == fraction:
		if v := f.Float(); !(v >= r.least && v <= r.most) && !(v == 0 && r.excepts(0)) { // NaN is neither
			return r.refuse(of, v)
		}
		return nil
	case f.CanUint() && f.Uint() > math.MaxInt64:
		return r.refuse(of, f.Uint())
	}
	var v int64
	if f.CanUint() {
		v = int64(f.Uint())
	} else {
		v = f.Int()
	}
	if v >= r.from && v <= r.to || r.excepts(v) {
		return nil
	}
	return r.refuse(of, v)
}
