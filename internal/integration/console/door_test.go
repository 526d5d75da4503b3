package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stet-dev/stet/internal/tier"
)

// Who has no token sees the page to sign in with, and what it says does not help to guess one.
func TestWrongToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	b := w.open("")
	b.visit("/keys?state=unknown")
	for _, wrong := range []string{"token-of-nobody-at-all", "' OR 1=1", strings.Repeat("x", 4<<10)} {
		b.do(chromedp.Evaluate(`window.before = true`, nil), chromedp.Evaluate(`document.querySelector('input[name=token]').value = ''`, nil))
		b.fill("token", wrong)
		b.click("Sign in")
		b.until(`!window.before && document.readyState === 'complete' && document.body.innerText.includes('No such token, or it has expired.')`)
		b.check("a wrong token")
	}
	if shown := is[string](b, `document.documentElement.outerHTML + document.cookie`); strings.Contains(shown, "nobody-at-all") {
		t.Error("the page has the token that was typed")
	}
	b.signIn(viewer)
	b.until(`location.pathname + location.search === '/keys?state=unknown'`)
	if secrets := is[string](b, `document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.documentElement.outerHTML`); strings.Contains(secrets, "token-of") || strings.Contains(secrets, "stet-console") {
		t.Errorf("a script can read the session or the token: %.200s", secrets)
	}
	b.do(chromedp.Click(`.rail-foot form button`, chromedp.ByQuery))
	b.until(`location.pathname === '/login'`)
	b.do(chromedp.Navigate(w.console + "/keys"))
	b.until(`location.pathname === '/login'`)
}

// A viewer sees no button that changes something, and the forms are refused: also those that a page
// of another user has.
func TestViewer(t *testing.T) {
	tier.Campaign(t, "five journeys through the console are in the gate")
	t.Parallel()
	w := newWorld(t, setup{settle: 600})
	w.incident(2)
	if a := w.client("fine"); a.status != http.StatusCreated {
		t.Fatal(a)
	}
	lost := "/keys/" + w.id("order-0000")
	b := w.open(viewer)
	for _, at := range []string{"/unknown", lost, "/keys/" + w.id("fine"), "/dead", "/audit", "/jobs"} {
		b.visit(at)
		if forms := is[string](b, `Array.from(document.querySelectorAll('main form')).filter(f => f.method === 'post').map(f => f.action).join(' ')`); forms != "" {
			t.Errorf("%s: a viewer has the forms %s", at, forms)
		}
	}
	for _, at := range []string{lost + "/happened", lost + "/released", "/keys/" + w.id("fine") + "/forget"} {
		b.visit(at)
		b.sees("This takes the role")
	}
	csrf := is[string](b, `document.querySelector('input[name=csrf]').value`)
	for _, at := range []string{"/resolve", "/release", "/probe", "/snooze", "/hand", "/note", "/reveal", "/forget"} {
		form := url.Values{"csrf": {csrf}, "reason": {"r"}, "status": {"201"}, "use": {"own"}, "until": {time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, "to": {"x"}, "note": {"x"}, "id": {w.id("order-0000")}}
		res := b.asks(http.MethodPost, lost+at, form.Encode(), http.Header{"Origin": {w.console}})
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s of a viewer: %d", at, res.StatusCode)
		}
	}
	var r struct{ State string }
	if w.read("/api/v1"+lost, &r); r.State != "unknown" {
		t.Errorf("it is %s", r.State)
	}
}

// A page of another site can neither send a form of the console, nor show the console in a frame,
// nor read it: the browser of a person who has signed in refuses, and so does the console.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{settle: 600})
	w.incident(1)
	at := "/keys/" + w.id("order-0000")
	b := w.open(operator)
	b.visit(at)
	csrf := is[string](b, `document.querySelector('main input[name=csrf]').value`)
	unchanged := func(what string) {
		t.Helper()
		var doc struct{ Entries []struct{ Action string } }
		w.read("/api/v1/audit?id="+strings.TrimPrefix(at, "/keys/"), &doc)
		for _, e := range doc.Entries {
			if e.Action == "note" {
				t.Fatalf("%s: the note was written", what)
			}
		}
	}
	for what, r := range map[string]struct {
		csrf   string
		header http.Header
	}{
		"a foreign Origin":       {csrf, http.Header{"Origin": {"https://evil.example"}}},
		"a foreign site":         {csrf, http.Header{"Sec-Fetch-Site": {"cross-site"}}},
		"no token":               {"", http.Header{"Origin": {w.console}}},
		"another session's":      {strings.Repeat("A", len(csrf)), http.Header{"Origin": {w.console}}},
		"a name for the address": {csrf, http.Header{"Origin": {"http://rebound.example"}, "Host": {"rebound.example"}}},
	} {
		if res := b.asks(http.MethodPost, at+"/note", url.Values{"csrf": {r.csrf}, "note": {"evil"}}.Encode(), r.header); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", what, res.StatusCode)
		}
		unchanged(what)
	}

	evil := w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(rw, `<!doctype html><link rel="icon" href="data:,"><main>
			<iframe id="frame" name="frame" src="%[1]s%[2]s" width="900" height="600"></iframe>
			<form method="post" action="%[1]s%[2]s/note" target="frame"><input name="csrf" value="%[3]s"><input name="note" value="evil"><button>Win</button></form>
			</main>`, w.console, at, csrf)
	}))
	for _, site := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} { // another port of the same site; another site
		b.also = []string{site, "data:,"}
		b.do(chromedp.Navigate(site + "/"))
		b.until(`document.readyState === 'complete'`)
		b.click("Win")
		var refused string
		w.until("the browser refuses the frame", func() bool {
			refused += b.said()
			return strings.Contains(refused, "frame-ancestors") || strings.Contains(refused, "X-Frame-Options")
		})
		w.until("the form is answered", func() bool {
			return is[bool](b, `performance.getEntriesByName('`+w.console+at+`/note').length > 0 || document.querySelector('#frame').contentWindow.length === 0`)
		})
		unchanged(site)
		// What the browser hands to a script of another site: nothing.
		b.do(chromedp.Evaluate(`window.got = null; fetch('`+w.console+`/api/v1/keys', { credentials: 'include' }).then(r => r.text(), e => 'refused').then(t => { got = t; }); 0`, nil))
		b.until(`got !== null`)
		if got := is[string](b, `got`); got != "refused" {
			t.Errorf("%s reads %.80s", site, got)
		}
		b.said()
	}
}
