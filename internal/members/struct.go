package members

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Decode is [Read] into the fields of a struct that into points to, by their JSON names. The fields
// of an embedded struct are those of the struct.
func Decode(doc []byte, into any) error { return Read(doc, places(into)) }

// places are the fields of a struct by their JSON names.
func places(into any) map[string]any {
	all, v := map[string]any{}, reflect.ValueOf(into).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "-" {
			all[name] = v.FieldByIndex(f.Index).Addr().Interface()
		}
	}
	return all
}

// Query decodes the parameters of a query into the fields of a struct that into points to, by their
// JSON names: texts, whole numbers from 1, decimal numbers, instants, and 1 for yes. One that
// is not known is refused, and so is one that is there twice. The error is an [*Error], and never
// has a value in it: it may be a key.
func Query(values url.Values, into any) error {
	places := places(into)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		place, known := places[name]
		switch {
		case len(values[name]) != 1:
			return &Error{Twice, name, "it is there more than once; send it once", ""}
		case known:
		case len(places) == 0:
			return &Error{Unknown, name, "there are no parameters here", ""}
		default:
			return &Error{Unknown, name, "there is no such parameter: " + strings.Join(slices.Sorted(maps.Keys(places)), ", "), ""}
		}
		if err := parse(values[name][0], place); err != nil {
			return &Error{Unfit, name, err.Error(), ""}
		}
	}
	return nil
}

// Values are the fields of a struct that are not zero, as [Query] reads them: byte for byte, which JSON
// does not keep. A key is in them in plain text.
func Values(doc any) url.Values {
	all, v := url.Values{}, reflect.ValueOf(doc)
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		member := v.FieldByIndex(f.Index)
		switch at, instant := member.Interface().(time.Time); {
		case name == "" || member.IsZero():
		case instant:
			all.Set(name, at.Format(time.RFC3339Nano))
		case member.Kind() == reflect.String: // some hide themselves from fmt
			all.Set(name, member.String())
		default:
			all.Set(name, fmt.Sprint(member))
		}
	}
	return all
}

// parse sets a place to what a text says.
func parse(text string, place any) (err error) {
	switch place := place.(type) {
	case *int:
		if *place, err = strconv.Atoi(text); err != nil || *place < 1 {
			return errors.New("it is a whole number from 1")
		}
	case *float64:
		if *place, err = strconv.ParseFloat(text, 64); err != nil {
			return errors.New("it is a number")
		}
	case *bool:
		if *place = text == "1" || text == "true"; !*place {
			return errors.New("it is 1, or left out")
		}
	case *time.Time:
		if *place, err = time.Parse(time.RFC3339, text); err != nil {
			return errors.New("it is an instant such as 2026-11-22T03:00:00Z (RFC 3339)")
		}
	case encoding.TextUnmarshaler:
		return place.UnmarshalText([]byte(text))
	default:
		v := reflect.ValueOf(place).Elem()
		if v.Kind() != reflect.String {
			panic(fmt.Sprintf("members: no parameter is a %T", place))
		}
		v.SetString(text)
	}
	return nil
}
