package console

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stet-dev/stet/operate"
)

// maxShown is how many bytes of a text a page shows. The API's document has all of it.
const maxShown = 300

// tidied returns what a call of the API returned with every text fit to be shown, so that no page has
// to remember to: what clients sent may be 64 kB long, and have control characters in it or turn the
// text around it. Stored responses and cursors stay as they are, because they are sent on. All calls
// go through it, or through fit. The document is a copy: the API may show others the same one.
func tidied[D any](doc D, err error) (D, error) {
	return tidy(reflect.ValueOf(&doc).Elem()).Interface().(D), fit(err)
}

// asIs are what is not shown as text, and cursor is the name of fields that are not.
var asIs = map[reflect.Type]bool{reflect.TypeFor[operate.Response](): true, reflect.TypeFor[time.Time](): true}

const cursor = "NextCursor"

func tidy(v reflect.Value) reflect.Value {
	if asIs[v.Type()] {
		return v
	}
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(shown(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(tidy(v.Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(tidy(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != cursor {
				out.Field(i).Set(tidy(v.Field(i)))
			}
		}
	case reflect.Slice:
		if !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8 {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(tidy(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for at := v.MapRange(); at.Next(); {
				out.SetMapIndex(tidy(at.Key()), tidy(at.Value()))
			}
		}
	}
	return out
}

// shown is a text as a page shows it: at most maxShown bytes, and without characters that cannot be
// seen or that change the direction of what follows.
func shown(s string) string {
	whole := len(s)
	s = start(s, maxShown)
	if strings.IndexFunc(s, hidden) >= 0 {
		var b strings.Builder
		for _, r := range s {
			if hidden(r) {
				fmt.Fprintf(&b, `\u%04x`, r)
			} else {
				b.WriteRune(r)
			}
		}
		s = b.String()
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if whole > maxShown {
		s += fmt.Sprintf("… (%s bytes)", number(whole))
	}
	return s
}

// start is the beginning of a text, of at most so many bytes and of whole characters.
func start(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// hidden reports whether r is a control character, or one that is invisible or turns text around.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0:
		return true
	case r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x2069, r == 0x061c, r == 0xfeff:
		return true
	}
	return false
}

// problem is what the API answers instead of a document, or the console of its own.
type problem = operate.Problem

// fit is an error of the API as a problem, with every text of it fit to be shown.
func fit(err error) error {
	if err == nil {
		return nil
	}
	bad := operate.ProblemOf(err)
	return tidy(reflect.ValueOf(bad)).Interface().(*problem)
}
