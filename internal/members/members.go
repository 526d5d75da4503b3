// Package members reads JSON objects that must not be misunderstood: one whose members would be
// ignored, taken twice or bent into another kind is refused, and the error names the member.
package members

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet/internal/canon"
	"github.com/stet-dev/stet/internal/spell"
)

// problem is what is wrong with a document.
type problem uint8

const (
	NoObject problem = iota // it is no JSON object, or something follows it
	Unknown                 // a member that there is not
	Twice                   // a member that came before
	Unfit                   // a member with a value that its place cannot hold
	Inside                  // a name twice inside of a member, or text that is no Unicode
)

// Error says what is wrong with a document, and with which member.
type Error struct {
	Kind    problem
	Member  string // its name, 40 characters of it at most; "" where it is the document itself, or somewhere inside of it
	Problem string // what is wrong and what to send instead, to be read after the member's name
	Hint    string // of an Unknown one, where a name is near it: "; did you mean X?"
}

func (e *Error) Error() string {
	switch {
	case e.Member == "":
		return e.Problem
	case e.Kind == Unknown:
		return strconv.Quote(e.Member) + ": " + e.Problem
	}
	return e.Member + ": " + e.Problem
}

// Read decodes doc, one JSON object, member by member into the places that into names: pointers, as
// [json.Unmarshal] takes them. Names are case-sensitive, and each may come once. What does not come
// leaves its place as it is. The error is an [*Error]; where a place decodes itself
// ([json.Unmarshaler]), its error's text is the problem.
func Read(doc []byte, into map[string]any) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return notOne
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return notOne
		}
		name, _ := t.(string)
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return notOne
		}
		place, known := into[name]
		switch {
		case !known:
			return unknown(name, into)
		case seen[name]:
			return &Error{Twice, name, "it is there twice; send it once", ""}
		}
		seen[name] = true
		if err := decode(value, place); err != nil {
			return &Error{Unfit, name, err.Error(), ""}
		}
	}
	if _, err := d.Token(); err != nil {
		return notOne
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return notOne
	}
	if !new(canon.Doc).Parse(doc) { // what is inside of members, too
		return &Error{Inside, "", "a name is there twice inside of a member, or text is no Unicode", ""}
	}
	return nil
}

var notOne = &Error{NoObject, "", "it is no JSON object, or something follows it", ""}

func unknown(name string, into map[string]any) *Error {
	names := slices.Sorted(maps.Keys(into))
	hint := spell.Hint(name, names)
	return &Error{Unknown, fmt.Sprintf("%.40s", name), "there is no such member" + cmp.Or(hint, "; there are "+list(names)), hint}
}

func list(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// decode refuses null as well: it would leave the place as it is, as if the member had not come.
func decode(value json.RawMessage, place any) error {
	if _, instant := place.(*time.Time); !instant && string(value) != "null" {
		var text string
		switch own := place.(type) {
		case json.Unmarshaler:
			return own.UnmarshalJSON(value)
		case encoding.TextUnmarshaler:
			if json.Unmarshal(value, &text) == nil {
				return own.UnmarshalText([]byte(text))
			}
		}
	}
	if string(value) == "null" || json.Unmarshal(value, place) != nil {
		return errors.New("it has to be " + kind(place))
	}
	return nil
}

func kind(place any) string {
	t := reflect.TypeOf(place)
	_, own := place.(json.Unmarshaler)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[json.Number](), kind == reflect.Float64:
		return "a number"
	case t == reflect.TypeFor[time.Time]():
		return "an instant such as 2026-11-22T03:00:00Z (RFC 3339)"
	case own:
		return "of another kind: see the documentation"
	case t == reflect.TypeFor[[]byte]():
		return "a string in base64"
	case t == reflect.TypeFor[[]string]():
		return "a list of strings"
	case t == reflect.TypeFor[map[string][]string]():
		return `an object of lists of strings, such as {"Name": ["value"]}`
	case kind == reflect.String:
		return "a string"
	case kind == reflect.Bool:
		return "true or false"
	case kind == reflect.Int, kind == reflect.Int64:
		return "a whole number"
	}
	return "of another kind: see the documentation"
}
