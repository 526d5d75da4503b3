// Package fill sets the fields of a value that are zero: those of settings to their defaults, and
// those of a test's values to anything at all, so that the test covers a new field without being
// told of it.
package fill

import (
	"fmt"
	"reflect"
	"time"
)

// Or returns v with each exported field that is zero as other has it. A slice that is empty, and
// not nil, is not zero. The fields of structs count by themselves.
func Or[T any](v, other T) T {
	or(reflect.ValueOf(&v).Elem(), reflect.ValueOf(other))
	return v
}

func or(v, other reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			or(v.Field(i), other.Field(i))
		}
	case v.IsZero() && v.CanSet():
		v.Set(other)
	}
}

// Zero sets every exported field below the pointer p that is zero. It leaves out instants, which
// stores set by their own clock.
func Zero(p any) { zero(reflect.ValueOf(p).Elem(), "value") }

func zero(v reflect.Value, name string) {
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
		for i := range v.NumField() {
			zero(v.Field(i), v.Type().Field(i).Name)
		}
		return
	}
	if !v.IsZero() {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
	case reflect.String:
		v.SetString("some " + name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		zero(v.Elem(), name)
	case reflect.Array:
		for i := range v.Len() {
			zero(v.Index(i), name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		zero(v.Index(0), name)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		zero(key, name)
		zero(value, name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
		panic(fmt.Sprintf("fill: %s is a %s, which this package cannot fill", name, v.Type()))
	}
}
