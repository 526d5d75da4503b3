package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
)

// evils are what people send who want a page to do something else than to show it.
var evils = []string{
	`"><script>alert(1)</script><img src=x onerror=alert(2)>`, `' onmouseover=alert(3) x="`, "\u202egpj.exe\u2066", `javascript:alert(4)`,
	"</textarea></title><script>alert(5)</script>", `{{.CSRF}}${alert(6)}`, strings.Repeat("long", 16<<10),
}

// What clients, operators and services sent is shown as text, whatever it is: in paths, keys,
// scopes, routes, causes, header values, bodies, names and notes.
func TestHostileData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{settle: 600})
	_, e := w.engine()
	for i, evil := range evils {
		short := evil[:min(len(evil), 900)]
		d, err := e.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: stet.Scope(short), Key: stet.Key(fmt.Sprint("k", i, short[:min(len(short), 200)]))}, Route: short,
			TraceID: short, Subject: stet.Subject{Method: "POST", Path: "/" + evil}})
		if err != nil {
			t.Fatal(err)
		}
		d.Claim.Unknown(short[:min(len(short), 60)])
		if i%2 == 1 {
			d.Claim.Completed()
		}
		if err := d.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201, Body: []byte(evil),
			Header: []stet.Field{{Name: "Content-Type", Value: "text/html"}, {Name: "X-Evil", Value: strings.Map(printable, short)}}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, evil := range evils[:5] { // and over HTTP
		w.send("/"+url.PathEscape(evil), strings.Map(printable, evil), "over-http-"+fmt.Sprint(len(evil)))
	}
	b := w.open(admin)
	var doc struct {
		Keys []struct{ ID, State, Path string }
	}
	w.read("/api/v1/keys?limit=100", &doc)
	pages := []string{"/", "/unknown", "/keys", "/dead", "/routes", "/audit", "/keys?scope=" + url.QueryEscape(evils[0]), "/keys?path=" + url.QueryEscape(evils[0])}
	n := 0
	for _, k := range doc.Keys {
		if k.Path == "" { // Stet's own
			continue
		}
		n++
		pages = append(pages, "/keys/"+k.ID)
		if k.State != "unknown" {
			b.visit("/keys/" + k.ID)
			b.fill("reason", evils[n%2])
			b.click("Show them once")
			b.sees("shown once")
			b.harmless("revealed")
			continue
		}
		b.visit("/keys/" + k.ID)
		b.fill("note", evils[n%3])
		b.click("Write it down")
		b.sees("Written down.")
		b.click("Hand to")
		b.fill("to", "ben"+evils[1])
		b.click("Hand over")
		b.sees("It is with ben")
		b.harmless("handed over")
	}
	if n < len(evils)+3 {
		t.Fatalf("only %d records", n)
	}
	b.look(narrow, "light") // what is too long shows here first
	for _, at := range pages {
		b.visit(at)
		b.harmless(at)
	}
	res := b.asks(http.MethodGet, "/login?next="+url.QueryEscape("//evil.example/"), "", nil)
	if res.StatusCode != http.StatusOK {
		t.Errorf("the page to sign in with: %d", res.StatusCode)
	}
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

// harmless says what of the page came from a request, and is more than text; and what a reader
// would take for something else.
func (b *browser) harmless(at string) {
	b.Helper()
	if n := is[int](b, `document.querySelectorAll('main script, main img, main iframe, [onmouseover], [onerror], a[href^="javascript:"]').length`); n > 0 {
		b.Errorf("%s: %d elements came from a request", at, n)
	}
	if is[bool](b, `/[\u202a-\u202e\u2066-\u2069]/.test(document.querySelector('main').innerText)`) {
		b.Errorf("%s: text turns the text around it", at)
	}
}
