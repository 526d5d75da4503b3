// Package problems has a page for every problem code of the layer and of its admin API. A page says
// what the code means, what the sender of the request does about it, and what the operator of the
// gateway does. The pages are the Markdown files in this directory.
package problems

import (
	"embed"
	"html/template"
	"net/http"
	"path"
	"strings"
)

//go:embed *.md
var files embed.FS

// Page returns the page of a code as Markdown; ok is false if there is none.
func Page(code string) (page string, ok bool) {
	text, err := files.ReadFile(code + ".md")
	return string(text), err == nil
}

// Codes returns the codes that have a page, sorted.
func Codes() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("problems: the files are built in: " + err.Error())
	}
	codes := make([]string, len(entries))
	for i, e := range entries {
		codes[i] = strings.TrimSuffix(e.Name(), ".md")
	}
	return codes
}

// Handler serves the pages as HTML. The last segment of a request's path is the code; a path that
// ends in a slash is the list of all codes. The handler is safe for concurrent use.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc := document{Title: "Problems"}
		if strings.HasSuffix(r.URL.Path, "/") {
			doc.Codes = Codes()
		} else {
			code := path.Base(r.URL.Path)
			text, ok := Page(code)
			if !ok {
				http.NotFound(w, r)
				return
			}
			doc.Title, doc.Blocks = code, blocks(text)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "max-age=3600")
		_ = layout.Execute(w, doc) // the client is gone
	})
}

type document struct {
	Title  string
	Codes  []string
	Blocks []block
}

// block is a paragraph, a heading or a list. The pages have nothing else.
type block struct {
	Heading string
	Items   []template.HTML
	Text    template.HTML
}

// blocks parses a page. Its first line, the code, is the title.
func blocks(page string) (all []block) {
	_, page, _ = strings.Cut(page, "\n\n")
	for part := range strings.SplitSeq(strings.TrimSpace(page), "\n\n") {
		heading, is := strings.CutPrefix(part, "## ")
		switch {
		case is:
			all = append(all, block{Heading: heading})
		case strings.HasPrefix(part, "- "):
			var items []template.HTML
			for item := range strings.SplitSeq("\n"+part, "\n- ") {
				if item != "" {
					items = append(items, inline(item))
				}
			}
			all = append(all, block{Items: items})
		default:
			all = append(all, block{Text: inline(part)})
		}
	}
	return all
}

// inline turns text between backquotes into code, text between double asterisks into bold, and
// [text](address) into a link. The input comes from files that are built in.
func inline(s string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(template.HTMLEscapeString(s), "`") {
		if i%2 == 1 {
			b.WriteString("<code>" + part + "</code>")
			continue
		}
		for j, piece := range strings.Split(part, "**") {
			if j%2 == 1 {
				piece = "<b>" + piece + "</b>"
			}
			b.WriteString(linked(piece))
		}
	}
	return template.HTML(b.String()) // escaped above
}

func linked(s string) string {
	before, rest, ok := strings.Cut(s, "[")
	text, rest, ok2 := strings.Cut(rest, "](")
	address, after, ok3 := strings.Cut(rest, ")")
	if !ok || !ok2 || !ok3 {
		return s
	}
	return before + `<a href="` + address + `">` + text + "</a>" + after
}

var layout = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem }
h1, code { font-family: ui-monospace, monospace }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem } code { font-size: .9em }
</style>
<h1>{{.Title}}</h1>
{{- range .Blocks}}
{{if .Heading}}<h2>{{.Heading}}</h2>{{else if .Items}}<ul>{{range .Items}}<li>{{.}}</li>{{end}}</ul>{{else}}<p>{{.Text}}</p>{{end}}
{{- end}}
{{- if .Codes}}
<ul>{{range .Codes}}<li><a href="{{.}}"><code>{{.}}</code></a></li>{{end}}</ul>
{{- end}}
</html>
`))
