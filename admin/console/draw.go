package console

import (
	"cmp"
	_ "embed" // symbols
	"html/template"
	"slices"
	"strings"
)

//go:embed templates/symbols.html
var symbols string

// use is one of the symbols. Its name comes from this package, and one that is not there is a
// mistake of it.
func use(name string) template.HTML {
	if !strings.Contains(symbols, `<symbol id="`+name+`"`) {
		panic("console: there is no symbol " + name)
	}
	return template.HTML(`<use href="#` + name + `"/>`) //nolint:gosec // name is that of a symbol
}

// icon is a shape in the colour of a state. Readers of the page do not hear it.
func icon(name, color string) template.HTML {
	if strings.Trim(color, "abcdefghijklmnopqrstuvwxyz- ") != "" {
		panic("console: there is no colour " + color)
	}
	return template.HTML(`<svg class="ic c-`+color+`" aria-hidden="true">`) + use(name) + `</svg>`
}

// methodPath is a method and a path as they were sent.
func methodPath(method, path, route string) template.HTML {
	what, first := cmp.Or(path, route, "no path recorded"), ""
	if method != "" {
		what = strings.TrimPrefix(what, method+" ") // a route's name may begin with it
		first = `<b>` + template.HTMLEscapeString(method) + `</b> `
	}
	return template.HTML(`<bdi class="path">` + first + template.HTMLEscapeString(what) + `</bdi>`)
}

// dict hands several values to a template.
func dict(pairs ...any) map[string]any {
	d := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		d[pair[0].(string)] = pair[1]
	}
	return d
}
