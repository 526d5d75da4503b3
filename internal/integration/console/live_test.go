package console

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stet-dev/stet/internal/tier"
)

// looks lets a test have a page look whether it is time to read itself again, which the page does
// twice a second.
const looks = `{ const every = window.setInterval; window.looks = []; window.setInterval = (f, ms) => { looks.push(f); return every(f, ms); }; }`

// live lets a page read itself whenever it looks, and counts the readings that begin, and those
// that are over.
const live = `{ window.begun = window.over = 0;
	const often = () => { document.querySelector('#main').dataset.live = '-1'; };
	document.addEventListener('htmx:beforeRequest', (e) => { if (e.target.id === 'main') begun++; });
	document.addEventListener('htmx:afterRequest', (e) => { if (e.target.id === 'main') { over++; often(); } });
	often(); }`

// still has the page look again when the reading that has begun is over, and says that none begins.
func (b *browser) still(why string) {
	b.Helper()
	b.until(`begun === over`)
	if n := is[int](b, `(() => { const before = begun; looks.forEach((look) => look()); return begun - before; })()`); n > 0 {
		b.Errorf("it is read again while %s", why)
	}
}

// goesOn waits until a reading that begins now is over.
func (b *browser) goesOn() {
	b.Helper()
	b.do(chromedp.Evaluate(`window.before = begun`, nil))
	b.until(`looks.forEach((look) => look()), over > before`)
}

// A page reads itself again, and leaves alone what is open, picked, selected or typed. A page that
// no person sees reads nothing.
func TestLivePages(t *testing.T) {
	tier.Campaign(t, "five journeys through the console are in the gate")
	t.Parallel()
	w := newWorld(t, setup{settle: 600})
	w.incident(2)
	b := w.open(operator)
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(looks).Do(ctx)
		return err
	}))
	b.visit("/unknown")
	b.until(`document.querySelector('#pause') && !document.querySelector('#pause').hidden`)
	b.do(chromedp.Evaluate(live, nil))
	b.until(`over > 0`) // by itself
	const pick = `document.querySelector('tbody .pick input')`
	b.do(chromedp.Click(`tbody .pick input`, chromedp.ByQuery))
	b.still("a key is picked")
	known := func(n int) string {
		return fmt.Sprintf(`Array.from(document.querySelectorAll('.inc .big')).reduce((n, e) => n + Number(e.textContent), 0) === %d`, n)
	}
	w.lose("another")
	b.do(chromedp.Evaluate(`document.querySelector('details.inc').open = true; document.activeElement.blur()`, nil))
	// A fold that opens without its keys has the page read again; a reading is shared for a second.
	b.until(`document.querySelector('#main').insertAdjacentHTML('beforeend', '<details data-incident="i-0" open></details>'), ` + known(3))
	if !is[bool](b, pick+`.checked`) || !is[bool](b, `document.querySelector('details.inc').open`) {
		t.Error("a reading undid what was picked or open")
	}
	b.do(chromedp.Click(`tbody .pick input`, chromedp.ByQuery))
	b.goesOn()
	// Text is selected while a reading is under way.
	b.until(`begun === over && (looks.forEach((look) => look()), begun > over) && (window.head = document.querySelector('main h1'), head.dataset.mine = '1', getSelection().selectAllChildren(head), true)`)
	b.still("text is selected")
	if !is[bool](b, `head.dataset.mine === '1'`) {
		t.Error("a reading that came after text was selected has changed the page")
	}
	b.do(chromedp.Evaluate(`getSelection().removeAllRanges()`, nil))
	b.goesOn()
	hide := func(hidden bool) { // headless browsers hide no window
		b.do(chromedp.Evaluate(fmt.Sprintf(`Object.defineProperty(document, 'hidden', { configurable: true, value: %t }); document.dispatchEvent(new Event('visibilitychange'))`, hidden), nil))
	}
	hide(true)
	b.still("nobody sees it")
	hide(false)
	b.goesOn()
	b.do(chromedp.Click(`#pause`, chromedp.ByQuery))
	b.still("it is paused")
	b.do(chromedp.Click(`#pause`, chromedp.ByQuery))
	w.lose("third")
	b.until(known(4))
	b.visit("/keys/" + w.id("order-0000"))
	b.do(chromedp.Evaluate(live, nil))
	b.goesOn()
	b.do(chromedp.Evaluate(`document.querySelector('details.menu').open = true`, nil))
	b.still("a menu is open")
	b.do(chromedp.Evaluate(`document.querySelector('details.menu').open = false`, nil))
	b.goesOn()
}

// lose is a charge whose answer is lost.
func (w *world) lose(key string) {
	w.Helper()
	w.broken.Store(true)
	w.client(key)
	w.broken.Store(false)
}

// A slash goes to the field that finds, and is typed into it there. Escape closes a menu.
func TestKeys(t *testing.T) {
	tier.Campaign(t, "five journeys through the console are in the gate")
	t.Parallel()
	w := newWorld(t, setup{settle: 600})
	w.incident(1)
	b := w.open(operator)
	b.visit("/keys/" + w.id("order-0000"))
	b.do(chromedp.KeyEvent("/"))
	b.until(`document.activeElement.id === 'q'`)
	if !is[bool](b, `document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true, cancelable: true }))`) {
		t.Error("a slash cannot be typed into the field")
	}
	b.click("Hand to")
	b.until(`!!document.querySelector('details.menu[open]')`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.until(`!document.querySelector('details.menu[open]') && document.activeElement.matches('details.menu > summary')`)
}

// Without a script the same is done, by forms and pages.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{settle: 0.001})
	w.incident(3)
	b := w.open("")
	b.do(emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(w.console+"/unknown"))
	b.signIn(operator)
	b.do(chromedp.WaitVisible(`details.inc`, chromedp.ByQuery))
	b.click("Ask about 3…")
	b.do(chromedp.WaitVisible(`input[name=count]`, chromedp.ByQuery), chromedp.SendKeys(`input[name=reason]`, "INC-4521", chromedp.ByQuery), chromedp.SendKeys(`input[name=count]`, "3", chromedp.ByQuery))
	b.click("Ask about 3 keys") // and no trace frees them
	b.do(chromedp.WaitVisible(`#job`, chromedp.ByQuery))
	w.until("the key is free", func() bool { return w.client("order-0001").status == http.StatusCreated })
}
