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

// spark is a series as a path in a box of 240 by 36.
type spark struct {
	Line, Fill string
	Now, Peak  float64
}

func sparkOf(values []float64) spark {
	s := spark{}
	if len(values) == 0 {
		return s
	}
	s.Peak, s.Now = max(slices.Max(values), 0), values[len(values)-1]
	const width, base, top = 240.0, 34.0, 4.4
	step := width / float64(max(len(values)-1, 1))
	points := make([]string, len(values))
	for i, v := range values {
		y := base - (base-top)*max(v, 0)/cmp.Or(s.Peak, 1)
		points[i] = trimmed(float64(i)*step, 1) + " " + trimmed(y, 1)
	}
	line := strings.Join(points, " ")
	s.Line, s.Fill = "M"+line, "M0 34L"+line+"L240 34z"
	return s
}
