package console

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

//go:embed checks.js
var checks string

//go:embed testdata/axe-4.14.1.min.js
var axe string

// browser is a window with a profile of its own. What its console and its network say fails the
// test: errors, what the policy of the pages refused, dialogs, and requests that leave the console.
type browser struct {
	testing.TB
	ctx    context.Context
	home   string   // the console's address
	also   []string // addresses of other sites that the test itself opens
	mu     sync.Mutex
	faults []string
	clicks int
}

// open opens a window. With a token, its user has signed in.
func (w *world) open(token string) *browser {
	w.Helper()
	b := newBrowser(w, w.console)
	if token != "" {
		b.visit("/login")
		b.signIn(token)
	}
	return b
}

func newBrowser(t testing.TB, home string) *browser {
	t.Helper()
	ctx, end := chromedp.NewContext(theBrowser(t), chromedp.WithTargetID(window(t)))
	t.Cleanup(end)
	b := &browser{TB: t, ctx: ctx, home: home}
	chromedp.ListenTarget(ctx, b.listen)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, f := range b.faults {
			t.Errorf("the browser says: %s", f)
		}
	})
	if err := chromedp.Run(ctx); err != nil { // the window lives as long as this context
		t.Fatal(err)
	}
	// Each window has the focus, whichever is in front: tests share the browser.
	b.do(cdplog.Enable(), network.Enable(), page.Enable(), runtime.Enable(), emulation.SetFocusEmulationEnabled(true))
	b.look(wide, "light")
	return b
}

// window opens a window with a profile of its own, and returns its tab.
func window(t testing.TB) (tab target.ID) {
	t.Helper()
	in := theBrowser(t)
	in = cdp.WithExecutor(in, chromedp.FromContext(in).Browser)
	profile, err := target.CreateBrowserContext().Do(in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.DisposeBrowserContext(profile).Do(in) })
	if tab, err = target.CreateTarget("about:blank").WithBrowserContextID(profile).WithNewWindow(true).Do(in); err != nil {
		t.Fatal(err)
	}
	return tab
}

func (b *browser) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

// listen takes note of what is not as it should be. A page that is refused or not found is what a
// test asks for, and looks at itself.
func (b *browser) listen(ev any) {
	switch ev := ev.(type) {
	case *cdplog.EventEntryAdded:
		if ev.Entry.Level == cdplog.LevelError && !strings.Contains(ev.Entry.Text, "status of 4") {
			b.fault("%s %s", ev.Entry.Text, ev.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		b.fault("an exception: %s", ev.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.APITypeError && !cutShort(string(ev.Args[0].Value)) {
			b.fault("console.error: %s", ev.Args[0].Value)
		}
	case *page.EventJavascriptDialogOpening:
		b.fault("a dialog: %s", ev.Message)
	case *network.EventRequestWillBeSent:
		for _, own := range append([]string{b.home, "about:blank"}, b.also...) {
			if strings.HasPrefix(ev.Request.URL+"/", own+"/") {
				return
			}
		}
		b.fault("a request leaves the console: %s", ev.Request.URL)
	}
}

// cutShort reports whether htmx says that the way to another page ended a request. One that fails
// says htmx:sendError as well.
func cutShort(said string) bool {
	return strings.HasPrefix(said, `"htmx:sendAbort`) || strings.HasPrefix(said, `"htmx:afterRequest`)
}

// leave closes the window. What it says of a gateway that is gone does not count.
func (b *browser) leave() {
	b.Helper()
	b.do(chromedp.Navigate("about:blank"))
	b.said()
}

// said returns what was noted, and forgets it: for a test of what is refused.
func (b *browser) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := strings.Join(b.faults, "\n")
	b.faults = nil
	return all
}

func (b *browser) do(actions ...chromedp.Action) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.Fatalf("%v\n%s", err, b.shown())
	}
}

// shown is the page in words, for what a failed test says.
func (b *browser) shown() (text string) {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	_ = chromedp.Run(ctx, chromedp.Evaluate(`location.href + "\n" + (document.querySelector("main") || document.body).innerText.slice(0, 2000)`, &text))
	return text
}

// visit opens a page of the console, and checks it.
func (b *browser) visit(at string) {
	b.Helper()
	b.do(chromedp.Navigate(b.home+at), chromedp.WaitReady(`main`, chromedp.ByQuery))
	b.check(at)
}

// check says what is wrong with the page for those who cannot see it as it was meant.
func (b *browser) check(at string) {
	b.Helper()
	for _, f := range b.audit() {
		b.Errorf("%s: %s", at, f)
	}
}

// audit is what is wrong with the page, by the rules of axe that are named, or by all of them and by
// how the page is laid out.
func (b *browser) audit(rules ...string) (faults []string) {
	b.Helper()
	if !is[bool](b, `'axe' in window`) {
		b.do(chromedp.Evaluate(axe, nil), chromedp.Evaluate(checks, nil))
	}
	only, err := json.Marshal(rules)
	if err != nil {
		b.Fatal(err)
	}
	b.do(chromedp.Evaluate(`audit(`+string(only)+`)`, &faults, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return faults
}

// signIn fills in the page to sign in with.
func (b *browser) signIn(token string) {
	b.Helper()
	b.do(chromedp.SendKeys(`input[name=token]`, token+kb.Enter, chromedp.ByQuery), chromedp.WaitVisible(`.nav`, chromedp.ByQuery))
}

// click clicks a link or a button of the page by its text, and counts it.
func (b *browser) click(text string) {
	b.Helper()
	b.clicks++
	b.do(chromedp.Click(fmt.Sprintf(`//main//*[self::a or self::button or self::summary][normalize-space(.)=%q][not(ancestor::*[@class="bulk"])]`, text),
		chromedp.BySearch, chromedp.NodeVisible))
}

// fill types into a field of the page by its name.
func (b *browser) fill(name, text string) {
	b.Helper()
	at := fmt.Sprintf(`main [name=%s]:not([type=hidden])`, name)
	b.until(fmt.Sprintf(`Array.from(document.querySelectorAll(%q)).some(e => e.checkVisibility())`, at))
	b.do(chromedp.Evaluate(fmt.Sprintf(`Array.from(document.querySelectorAll(%q)).find(e => e.checkVisibility()).focus(); document.activeElement.select && document.activeElement.select()`, at), nil),
		input.InsertText(text))
}

// sees waits until a text is on the page.
func (b *browser) sees(text string) {
	b.Helper()
	b.until(fmt.Sprintf(`document.readyState === 'complete' && document.body.innerText.includes(%q)`, text))
}

// is evaluates an expression in the page.
func is[T any](b *browser, js string) (v T) {
	b.Helper()
	b.do(chromedp.Evaluate(js, &v))
	return v
}

// until waits until an expression is true in the page, also over the way to the next page.
func (b *browser) until(js string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var ok bool
		if err := chromedp.Run(ctx, chromedp.Evaluate(js, &ok)); err == nil && ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.Fatalf("it is never true that %s\n%s", js, b.shown())
		}
	}
}

// size is that of a window.
type size struct{ width, height int64 }

var (
	wide   = size{1280, 900}
	narrow = size{375, 812}
	least  = size{320, 568}
)

// look sets the size of the window, and what its user prefers: colours, and that nothing moves.
func (b *browser) look(s size, scheme string) {
	b.Helper()
	b.do(emulation.SetDeviceMetricsOverride(s.width, s.height, 1, s.width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

// asks makes a request as the window's user, with headers that a browser would not send.
func (b *browser) asks(method, at, form string, header http.Header) *http.Response {
	b.Helper()
	var cookies []*network.Cookie
	b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		cookies, err = network.GetCookies().WithURLs([]string{b.home + "/"}).Do(ctx)
		return err
	}))
	r, err := http.NewRequestWithContext(b.Context(), method, b.home+at, strings.NewReader(form))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, v := range header {
		r.Header[name] = v
	}
	for _, c := range cookies {
		r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = res.Body.Close() })
	return res
}
