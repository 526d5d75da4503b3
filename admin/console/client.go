package console

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/operate"
)

// maxShown is how many bytes of a text a page shows. The API's document has all of it.
const maxShown = 300

// tidy makes every text of a document fit to be shown, so that no page has to remember to: what
// clients sent may be 64 kB long, and have control characters in it or turn the text around it.
// Stored responses and cursors stay as they are, because they are sent on.
func tidy(doc any) { tidyValue(reflect.ValueOf(doc)) }

var asIs = map[reflect.Type]bool{reflect.TypeFor[operate.Response](): true, reflect.TypeFor[cursor](): true}

func tidyValue(v reflect.Value) {
	if !v.IsValid() || asIs[v.Type()] {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(shown(v.String()))
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			tidyValue(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				tidyValue(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				tidyValue(v.Index(i))
			}
		}
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return
		}
		for _, k := range v.MapKeys() {
			val := v.MapIndex(k)
			v.SetMapIndex(k, reflect.Value{})
			to := reflect.New(val.Type()).Elem()
			to.Set(val)
			tidyValue(to)
			v.SetMapIndex(reflect.ValueOf(shown(k.String())).Convert(v.Type().Key()), to)
		}
	}
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
type problem = adminclient.Problem

// get reads a document of the API, for the user who asks for the page.
func (p *page) get(at string, into any) error {
	err := p.api.Get(p.r.Context(), at, into)
	if err == nil {
		tidy(into)
	}
	return fit(err)
}

// post sends a change to the API, by the user who asks for the page.
func (p *page) post(at string, doc any) error { return fit(p.api.Post(p.r.Context(), at, doc, nil)) }

// fit makes every text of a problem fit to be shown, as [page.get] does with those of a document.
// All calls go through it.
func fit(err error) error {
	if bad, is := errors.AsType[*problem](err); is {
		tidy(bad)
	}
	return err
}

// cursor is where a list goes on. It is a name, and is not made fit to be shown.
type cursor string

// lists are those of the API. A document has one of them, by its name.
type lists struct {
	Keys      []operate.Record       `json:"keys"`
	Incidents []operate.Incident     `json:"incidents"`
	Entries   []operate.Entry        `json:"entries"`
	Messages  []operate.Message      `json:"messages"`
	Jobs      []operate.Job          `json:"jobs"`
	Routes    []operate.RouteFigures `json:"routes"`
	Settings  []admin.Setting        `json:"settings"`
	Next      cursor                 `json:"next_cursor"`
}
