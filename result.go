package stet

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"unicode/utf8"
)

var (
	marshaler       = reflect.TypeFor[json.Marshaler]()
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// checked are the types that checkResult has looked at, with its errors: as many as the program has
// calls of Do.
var checked sync.Map

// checkResult returns an error if a result of type t would lose a part on its way through JSON, or
// could not be read back.
func checkResult(t reflect.Type) error {
	if known, ok := checked.Load(t); ok {
		err, _ := known.(error)
		return err
	}
	var err error
	if why := (&typeWalk{}).complain(t, "", true); why != "" {
		err = fmt.Errorf("stet: Do: a result of type %s cannot be stored and replayed: %s", t, why)
	}
	checked.Store(t, err)
	return err
}

// typeWalk walks over the types of which a type is made.
type typeWalk struct{ seen map[place]bool }

// place is a type in a place: methods of its pointer count only in one that has an address.
type place struct {
	t         reflect.Type
	addressed bool
}

// complain says why values of type t, at this path within the result, do not make their way, or "".
func (w *typeWalk) complain(t reflect.Type, path string, addressed bool) string {
	if w.seen[place{t, addressed}] {
		return ""
	}
	if w.seen == nil {
		w.seen = map[place]bool{}
	}
	w.seen[place{t, addressed}] = true
	if t.Kind() == reflect.Interface {
		if t.NumMethod() > 0 {
			return fmt.Sprintf("%s is an interface, which no JSON can be read as", named(path, t))
		}
		return ""
	}
	if t.Kind() == reflect.Pointer {
		return w.complain(t.Elem(), path, true)
	}
	if own, why := codes(t, path, addressed); own {
		return why
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Sprintf("%s is a %s", named(path, t), t)
	case reflect.Slice:
		return w.complain(t.Elem(), path+"[]", true)
	case reflect.Array:
		return w.complain(t.Elem(), path+"[]", addressed)
	case reflect.Map:
		if why := complainOfKey(t.Key(), path); why != "" {
			return why
		}
		return w.complain(t.Elem(), path+"[]", false)
	case reflect.Struct:
		return w.complainOfFields(t, path, addressed)
	default: // numbers, strings and truth values
		return ""
	}
}

// named names a place for people: by its path, or the result itself by its type.
func named(path string, t reflect.Type) string {
	if path == "" {
		return t.String()
	}
	return path
}

// codes reports whether t has methods that make its JSON, and what is wrong with them.
func codes(t reflect.Type, path string, addressed bool) (own bool, why string) {
	has := func(i reflect.Type) bool { return t.Implements(i) || addressed && reflect.PointerTo(t).Implements(i) }
	reads := reflect.PointerTo(t).Implements
	for _, pair := range [...]struct {
		writes, reads bool
		name          string
	}{{has(marshaler), reads(unmarshaler), "JSON"}, {has(textMarshaler), reads(textUnmarshaler), "Text"}} {
		switch {
		case pair.writes && pair.reads:
			return true, ""
		case pair.writes:
			return true, fmt.Sprintf("%s has Marshal%s, and no Unmarshal%[2]s that reads what it writes", named(path, t), pair.name)
		case pair.reads:
			return true, fmt.Sprintf("%s has Unmarshal%s, and no Marshal%[2]s where it is", named(path, t), pair.name)
		}
	}
	return false, ""
}

// complainOfKey says why the names of a JSON object cannot be keys of this type.
func complainOfKey(key reflect.Type, path string) string {
	switch key.Kind() {
	case reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if key.Implements(textMarshaler) == reflect.PointerTo(key).Implements(textUnmarshaler) {
			return ""
		}
	default:
		if key.Implements(textMarshaler) && reflect.PointerTo(key).Implements(textUnmarshaler) {
			return ""
		}
	}
	return fmt.Sprintf("%s has keys of type %s", named(path, key), key)
}

func (w *typeWalk) complainOfFields(t reflect.Type, path string, addressed bool) string {
	for i := range t.NumField() {
		f := t.Field(i)
		at := named(path, t) + "." + f.Name
		inner := f.Type
		switch {
		case f.Tag.Get("json") == "-", f.Name == "_", f.Type.Size() == 0 && !f.IsExported():
			continue // no part of the result
		case f.IsExported():
		case f.Anonymous && inner.Kind() == reflect.Struct: // its exported fields are the result's
		case f.Anonymous && inner.Kind() == reflect.Pointer:
			return fmt.Sprintf("%s is embedded by a pointer to a type that is not exported, which cannot be set", at)
		default:
			return fmt.Sprintf("%s is not exported and would be lost; tag it json:\"-\" if it is no part of the result", at)
		}
		if why := w.complain(inner, at, addressed); why != "" {
			return why
		}
	}
	return ""
}

// isText reports whether all strings in v are UTF-8: JSON would replace what is not. Types that
// make their JSON themselves are left to do so. v was encoded before, so that it has no cycles.
func isText(v reflect.Value) bool {
	if !v.IsValid() {
		return true
	}
	if own, _ := codes(v.Type(), "", true); own {
		return true
	}
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return isText(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return true
		}
		for i := range v.Len() {
			if !isText(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if !isText(entries.Key()) || !isText(entries.Value()) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" && !isText(v.Field(i)) {
				return false
			}
		}
	default: // has no text
	}
	return true
}
