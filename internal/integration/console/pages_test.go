package console

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/outbox"
)

// scene is a world with something of everything, and the addresses of its pages by their names.
func scene(t *testing.T) (w *world, pages [][2]string) {
	w = newWorld(t, setup{settle: 600})
	w.incident(3)
	for range 2 { // a new one and its replay
		if a := w.client("fine"); a.status != http.StatusCreated {
			t.Fatal(a)
		}
	}
	if a := w.post("/v1/charges", "acme", "order-0001", `{"amount":2999}`); a.status != http.StatusUnprocessableEntity {
		t.Fatal("no mismatch: ", a)
	}
	if a := w.send("/v1/refunds", "globex", "refund-1"); a.status != http.StatusCreated {
		t.Fatal(a)
	}
	w.late("order-late", "late")
	result := outbox.Decline("the account is closed")
	w.messages(&result, 1)
	var job struct{ Job string }
	w.call(http.MethodPost, "/api/v1/bulk", map[string]any{"action": "extend", "filter": map[string]any{"state": "completed", "scope": "globex"}, "expect": 1, "seconds": 3600, "reason": "INC-4521"}, &job)
	var in struct{ Incidents []struct{ Incident string } }
	w.read("/api/v1/incidents", &in)
	w.until("the figures are published", func() bool {
		var doc struct {
			Routes []struct{ Results map[string]int }
		}
		w.read("/api/v1/routes", &doc)
		n := 0
		for _, r := range doc.Routes {
			for _, told := range r.Results {
				n += told
			}
		}
		return n == 10
	})
	key, fine := "/keys/"+w.id("order-0001"), "/keys/"+w.id("fine")
	late := "/keys/" + w.id("order-late")
	return w, [][2]string{{"overview", "/"}, {"unknown", "/unknown"}, {"incident", "/unknown/" + in.Incidents[0].Incident},
		{"confirm", "/unknown/" + in.Incidents[0].Incident + "/release"}, {"key", key}, {"happened", key + "/happened"}, {"released", key + "/released"},
		{"cancelled", key + "/released?cancelled=1"}, {"late", late}, {"adopt", late + "/happened"}, {"completed", fine}, {"forget", fine + "/forget"},
		{"keys", "/keys"}, {"no-keys", "/keys?scope=nobody"}, {"dead", "/dead"}, {"message", "/outbox/1"}, {"routes", "/routes"},
		{"route", "/routes?route=" + url.QueryEscape("POST /v1/charges")}, {"audit", "/audit"}, {"config", "/config"},
		{"jobs", "/jobs"}, {"job", "/jobs/" + job.Job}, {"find", "/find"}, {"problem", "/nowhere"}, {"login", "/login"}}
}

// call makes a call of the admin API as the administrator.
func (w *world) call(method, at string, doc, into any) {
	w.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		w.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.Context(), method, w.console+at, bytes.NewReader(text))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+admin)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil || res.StatusCode >= 300 {
		w.Fatalf("%s: %d %v", at, res.StatusCode, err)
	}
}

// Each page is for everybody: for those who do not see it, or see it dark, on a telephone or on
// paper, and for those who have no mouse. It looks as it did: see gallery. Each page is looked at
// wide and light, and narrow and dark, and the main ones in every way; STET_SOAK=1 looks at all of
// them in every way.
func TestPages(t *testing.T) {
	tier.Campaign(t, "how pages look depends on fonts and on when they are drawn")
	t.Parallel()
	w, pages := scene(t)
	b := w.open(admin)
	shots := openGallery(t, b)
	only := regexp.MustCompile(os.Getenv("STET_PAGES")) // names of pages; none: all
	for _, p := range pages {
		if name, at := p[0], p[1]; only.MatchString(name) {
			b.look(wide, "light")
			b.visit(at)
			if controls := is[int](b, `document.querySelectorAll('a, button, input, select, textarea, summary').length`); controls < 10 && name != "login" {
				t.Errorf("%s: only %d controls", name, controls)
			}
			main := name == "overview" || name == "unknown" || name == "key"
			all := main || shots.shots != "" || os.Getenv("STET_SOAK") != ""
			if all {
				b.tab(name)
			}
			for _, across := range []int64{320, 768, 1000, 1024, 1440} { // O21
				b.look(size{across, 900}, "light")
				for _, f := range is[[]string](b, `laidOut()`) {
					b.Errorf("%s at %d px: %s", name, across, f)
				}
			}
			b.look(wide, "light")
			b.do(chromedp.Evaluate(`freeze()`, nil))
			shots.take(name, "light")
			b.look(narrow, "dark")
			b.check(name + ", narrow and dark")
			if all {
				b.everyWay(name, shots, main)
			}
		}
	}
	shots.show(pages)
}

// everyWay looks at a page as those see it who have set something, or print it.
func (b *browser) everyWay(name string, shots *gallery, main bool) {
	b.Helper()
	b.look(wide, "dark")
	b.check(name + ", dark")
	if main || shots.shots != "" { // the others have the same colours
		shots.take(name, "dark")
	}
	if moves := is[string](b, moving); moves != "" {
		b.Errorf("%s moves, for somebody who wants it not to: %s", name, moves)
	}
	b.look(narrow, "light")
	b.check(name + ", narrow")
	shots.take(name, "narrow")
	b.look(least, "dark")
	b.check(name + ", the least")
	b.do(emulation.SetEmulatedMedia().WithMedia("print"))
	if on := is[string](b, printed); on != "" {
		b.Errorf("%s, on paper: %s", name, on)
	}
	for _, f := range b.audit("color-contrast") {
		b.Errorf("%s, on paper: %s", name, f)
	}
	b.do(emulation.SetEmulatedMedia().WithMedia("screen"))
}

// moving names what is animated.
const moving = `document.getAnimations().map(a => a.effect.target.outerHTML.slice(0, 80)).concat(Array.from(document.querySelectorAll('*'))
	.filter(e => parseFloat(getComputedStyle(e).transitionDuration) > 0 || getComputedStyle(e).animationName !== 'none').map(e => e.outerHTML.slice(0, 80))).slice(0, 3).join('; ')`

// printed names what paper has no use for, and what is too wide for it or too pale.
const printed = `(() => {
	const seen = (e) => e.checkVisibility();
	const bad = Array.from(document.querySelectorAll('nav.nav, .bar, .skip, main button')).filter(seen).map(e => 'it has ' + e.outerHTML.slice(0, 60));
	if (document.querySelector('.print-only') && !seen(document.querySelector('.print-only'))) bad.push('it does not say when it was printed');
	return bad.slice(0, 3).join('; ');
})()`

// tab goes through the page by the tab key alone: each stop shows that it has the focus, and none
// is left out or holds on to it.
func (b *browser) tab(name string) {
	b.Helper()
	const watch = `document.activeElement.blur(); scrollTo(0, 0); window.stops = new Set(); window.unseenStops = [];
		document.addEventListener('focusin', (e) => { stops.add(e.target); setTimeout(() => { const f = unseen(); if (f) unseenStops.push(f); }); })`
	b.do(chromedp.Evaluate(watch, nil))
	stops := min(is[int](b, `tabbable()`), 60)
	b.do(chromedp.KeyEvent(strings.Repeat(kb.Tab, stops)))
	for _, f := range is[[]string](b, `unseenStops`) {
		b.Errorf("%s: %s", name, f)
	}
	if got := is[int](b, `stops.size`); got < stops-1 {
		b.Errorf("%s: the tab key stops at %d of %d controls", name, got, stops)
	}
}

// A check that sees nothing would pass on every page: each of these pages has one fault, which is
// seen.
func TestChecks(t *testing.T) {
	tier.Campaign(t, "how pages look depends on fonts and on when they are drawn")
	t.Parallel()
	const good = `<!doctype html><html lang="en"><head><title>t</title><meta name="viewport" content="width=device-width"><style>a{color:inherit} body{background:#fff;color:#111} *{margin:4px} .dark{color:#000} @media (prefers-color-scheme: dark){body{background:#111;color:#eee}.dark{background:#111}}</style></head><body><header><nav aria-label="n"><a href="/">home</a></nav></header><main><h1>h</h1>%s</main></body></html>`
	var page atomic.Value
	w := &world{TB: t}
	s := w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(rw, page.Load().(string))
	}))
	b := newBrowser(t, s.URL)
	b.look(narrow, "dark")
	for _, c := range []struct{ html, want string }{
		{`<p>fine <a href="/x">link</a></p><table><tr><th scope="col">a</th></tr><tr><td>b</td></tr></table>`, ""},
		{`<button></button>`, "button-name"},
		{`<button aria-hidden="true">x</button>`, "aria-hidden-focus"},
		{`<button tabindex="3">x</button>`, "tabindex"},
		{`<h4>deep</h4>`, "heading-order"},
		{`<nav>x</nav><nav>y</nav>`, "landmark-unique"},
		{`</main><p>outside</p><main hidden>`, "region"},
		{`<table><tr><th scope="col">a</th></tr><tr><td>b</td><td>c</td></tr></table>`, "cells"},
		{`<button aria-labelledby="none"></button>`, "button-name"},
		{`<a href="#none">x</a>`, "to no place"},
		{`<img src="/x.png">`, "image-alt"},
		{`<p style="color:#555">pale</p>`, "color-contrast"},
		{`<p style="opacity:.3">pale</p>`, "color-contrast"},
		{`<p class="dark">in the dark alone</p>`, "color-contrast"},
		{`<p style="font-size:24px;color:#777">large</p>`, ""},
		{`<div style="background:rgba(255,255,255,.9)"><p>white on white</p></div>`, "color-contrast"},
		{`<div><button style="width:9px;height:9px;padding:0;margin:0">x</button><button style="width:9px;height:9px;padding:0;margin:0">y</button></div>`, "target-size"},
		{`<div style="display:flex;flex-direction:row-reverse"><button>first</button><button>second</button></div>`, "the focus goes back"},
		{`<div style="display:flex;flex-direction:column-reverse"><button>first</button><button>second</button></div>`, "the focus goes back"},
		{`<p style="width:600px">x</p>`, "px wider than 375"},
	} {
		page.Store(strings.Replace(good, "%s", c.html, 1))
		b.do(chromedp.Navigate(s.URL + "/favicon.ico?" + url.QueryEscape(c.html)))
		got := strings.Join(b.audit(), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q is not said: %s", c.html, c.want, got)
		}
	}
	page.Store(strings.Replace(good, "%s", `<style>:focus{outline:0}</style><button id="b">x</button>`, 1))
	b.do(chromedp.Navigate(s.URL + "/"))
	if f := is[string](b, checks+`; document.querySelector('#b').focus(), unseen()`); !strings.Contains(f, "does not show") {
		t.Errorf("a focus that does not show is not said: %q", f)
	}
	b.do(chromedp.Evaluate(`console.error('oops'); fetch('http://localhost:1/').catch(() => {})`, nil))
	w.until("the watch has seen both", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		all := strings.Join(b.faults, "\n")
		return strings.Contains(all, "console.error") && strings.Contains(all, "leaves the console")
	})
	b.said()
}
