package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tier"
)

// adopt fills in the form "It happened", and sends it.
func (b *browser) adopt(status, body, why string) {
	b.Helper()
	b.sees("Why you are sure")
	b.fill("status", status)
	b.fill("body", body)
	b.fill("reason", why)
	b.click("It happened: give retries this answer")
}

// From an alert's link to a client's replay it takes at most six clicks, of a person who has not
// signed in. To sign in is counted apart: it takes a token and Enter, and leads to the page that
// the link was of.
func TestFromAlertToReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{settle: 600})
	w.incident(1)
	alert := w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(rw, `<!doctype html><link rel="icon" href="data:,"><main><a href="%s/unknown">StetUnknown is firing</a></main>`, w.console)
	}))
	b := w.open("")
	elsewhere := strings.Replace(alert.URL, "127.0.0.1", "localhost", 1) // another site
	b.also = []string{elsewhere, "data:,"}
	b.do(chromedp.Navigate(elsewhere + "/"))
	b.click("StetUnknown is firing") // 1
	b.until(`location.pathname === '/login'`)
	b.signIn(operator)
	b.until(`location.pathname === '/unknown'`)
	b.sees("sent, and the connection broke")
	b.click("It happened…") // 2: of the incident, which leads to its key
	b.sees("What a client hears now")
	b.click("It happened…")                                // 3
	b.adopt("201", `{"id":"ch_found"}`, "it is in INC-42") // 4
	b.sees("Settled: it happened.")
	if b.clicks > 6 {
		t.Errorf("%d clicks", b.clicks)
	}
	t.Logf("%d clicks, and a token to sign in with", b.clicks)
	if !is[bool](b, `document.activeElement.id === 'note'`) {
		t.Error("the focus is not at what was done")
	}
	if a := w.client("order-0000"); a != (answer{http.StatusCreated, `{"id":"ch_found"}`}) {
		t.Errorf("the client hears %v", a)
	}
	if w.ran.Load() != 1 {
		t.Errorf("it ran %d times", w.ran.Load())
	}
	b.do(chromedp.Navigate(elsewhere + "/"))
	b.click("StetUnknown is firing") // who has signed in sees the page, although the browser keeps the cookie back at first
	b.sees("Nothing is unknown")
}

// Fourteen keys are freed after their count was typed. The gateway that does it is killed when it
// has freed all but one: another tells how far the job came, and the same order frees the rest.
// Nothing runs twice, nothing is left.
func TestFreeManyOverACrash(t *testing.T) {
	tier.Campaign(t, "five journeys through the console are in the gate")
	t.Parallel()
	w := newWorld(t, setup{settle: 0.001, lease: 1, gates: 2})
	w.incident(14)
	db, e := w.engine()
	lost, _, err := e.Operator().List(t.Context(), stet.Query{States: []stet.State{stet.Unknown}})
	for i := range lost { // a probe has looked for each
		if err == nil {
			_, err = e.Operator().Probed(t.Context(), &lost[i], stet.LastProbe{Found: "missing"}, nil)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	b := w.open(operator)
	b.visit("/unknown")
	b.click("It did not…")
	b.sees("free 14 keys")
	b.check("many are freed")
	b.fill("reason", "the provider's list has none")
	b.fill("count", "15")
	b.click("Free 14 keys")
	if at := is[string](b, `location.pathname + document.querySelector('input[name=count]').validity.patternMismatch`); !strings.HasSuffix(at, "true") {
		t.Errorf("another count is taken: %s", at)
	}
	// The job cannot change this key, and tries again for two seconds.
	if _, err := db.Exec(`CREATE TRIGGER hold BEFORE UPDATE ON stet_records WHEN OLD.key = 'order-0007' BEGIN SELECT RAISE(ABORT, 'held'); END`); err != nil {
		t.Fatal(err)
	}
	b.fill("count", "14")
	b.click("Free 14 keys")
	w.until("13 keys are free", func() bool {
		var n int
		return db.QueryRow(`SELECT count(*) FROM stet_records WHERE state = 'retryable'`).Scan(&n) == nil && n == 13
	})
	w.gates[0].kill()
	b.leave()
	if _, err := db.Exec(`DROP TRIGGER hold`); err != nil {
		t.Fatal(err)
	}
	w.gates, w.console = w.gates[1:], "http://"+w.gates[1].admin
	b = w.open(operator)
	b.visit("/jobs")
	b.do(chromedp.Click(`main tbody a`, chromedp.ByQuery))
	b.sees("The gateway that worked on it has ended.")
	b.check("a job")
	b.visit("/unknown")
	b.click("It did not…")
	b.fill("reason", "the provider's list has none")
	b.fill("count", "1")
	b.click("Free 1 key")
	b.sees("1 changed, 0 left alone, 0 failed")
	before := w.ran.Load()
	for _, key := range []string{"order-0007", "order-0003", "order-0007"} {
		if a := w.client(key); a.status != http.StatusCreated {
			t.Errorf("the client of %s hears %v", key, a)
		}
	}
	if ran := w.ran.Load() - before; ran != 2 {
		t.Errorf("two keys ran %d times", ran)
	}
}

// Of two people the second sees who was quicker and what it is now, and finds what was typed.
func TestTwoPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{settle: 600})
	w.incident(1)
	at := "/keys/" + w.id("order-0000")
	first, second := w.open(operator), w.open(another)
	for _, b := range []*browser{first, second} {
		b.visit(at + "/happened")
	}
	first.adopt("201", "first", "typed first")
	first.sees("Settled: it happened.")
	second.adopt("200", "second", "typed second")
	second.sees("Not changed: it was changed meanwhile.")
	second.sees("otto settled it: it happened")
	second.check("what the second sees")
	if got := is[string](second, `document.querySelector('input[name=reason]').value + document.querySelector('textarea').value`); got != "typed secondsecond" {
		t.Errorf("what was typed is %q", got)
	}
	if a := w.client("order-0000"); a.body != "first" {
		t.Errorf("the client hears %v", a)
	}
}

// A snooze takes a key off the list, and a hand-over says who has it.
func TestSnoozeAndHandOver(t *testing.T) {
	tier.Campaign(t, "five journeys through the console are in the gate")
	t.Parallel()
	w := newWorld(t, setup{settle: 600})
	w.incident(1)
	b := w.open(operator)
	b.visit("/keys/" + w.id("order-0000"))
	b.click("Hand to")
	b.fill("to", "ben")
	b.fill("note", "ticket 88123")
	b.check("a menu that is open")
	b.click("Hand over")
	b.sees("It is with ben")
	b.sees("ticket 88123")
	b.click("Snooze")
	b.fill("reason", "INC-4521")
	b.do(chromedp.Submit(`.acts input[name=reason]`, chromedp.ByQuery))
	b.sees("It is snoozed until")
	b.visit("/unknown")
	b.sees("Nothing waits")
	b.visit("/unknown?which=snoozed")
	b.sees("1 snoozed")
	ben := w.open(another)
	ben.visit("/unknown?which=mine")
	ben.sees("with ben")
	ben.sees(w.id("order-0000"))
}

// A question is asked while the page waits, and its answer is on the page.
func TestAskAgain(t *testing.T) {
	tier.Campaign(t, "five journeys through the console are in the gate")
	t.Parallel()
	w := newWorld(t, setup{settle: 600})
	w.incident(1)
	b := w.open(operator)
	b.visit("/keys/" + w.id("order-0000"))
	b.click("Ask again now")
	b.sees("No trace (404)")
	w.found.Store("order-0000", answer{http.StatusOK, "found"})
	b.click("Ask again now")
	b.sees("It happened, and its answer is stored.")
	if a := w.client("order-0000"); a != (answer{http.StatusCreated, "found"}) {
		t.Errorf("the client hears %v", a)
	}
}

// What cannot be told is a dead letter. Its page is where it is asked about again.
func TestDeadLetterOfAKey(t *testing.T) {
	tier.Campaign(t, "five journeys through the console are in the gate")
	t.Parallel()
	w := newWorld(t, setup{settle: 600})
	w.incident(1)
	w.giveUp("order-0000")
	b := w.open(operator)
	b.visit("/dead")
	b.sees("POST /v1/charges")
	b.until(`!!document.querySelector('tbody a.go')`)
	w.found.Store("order-0000", answer{http.StatusOK, "found"})
	b.do(chromedp.Click(`tbody a.go`, chromedp.ByQuery))
	b.sees("What you can do")
	b.click("Ask again now")
	b.sees("It happened, and its answer is stored.")
	b.visit("/dead")
	b.sees("No key is a dead letter")
	if a := w.client("order-0000"); a.body != "found" {
		t.Errorf("the client hears %v", a)
	}
}

// giveUp makes a dead letter of an unknown key, as the last of its probes does.
func (w *world) giveUp(key string) {
	w.Helper()
	_, e := w.engine()
	r, err := e.Get(w.Context(), stet.ID{Scope: "acme", Key: stet.Key(key)})
	if err != nil {
		w.Fatal(err)
	}
	note := stet.Note{Who: "reconciler", Why: "8 probes did not find out what became of it"}
	if _, mine, err := e.Operator().Probing(w.Context(), &r.Head, stet.Never, &note); err != nil || !mine {
		w.Fatal(mine, err)
	}
}

// A late answer is what retries get once a person has adopted it, unseen and as it is.
func TestLateAnswerIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{settle: 600})
	w.late("order-0000", "late")
	b := w.open(operator)
	b.visit("/unknown")
	b.sees("An answer came late.")
	b.click("Look at the answer")
	b.sees("The late answer, as it is:")
	b.check("a late answer")
	if is[bool](b, `document.body.innerText.includes('late body')`) {
		t.Error("the answer is shown to who has not asked for it")
	}
	b.fill("reason", "its own answer")
	b.click("It happened: give retries this answer")
	b.sees("Settled: it happened.")
	b.fill("reason", "to be sure")
	b.click("Show them once")
	b.sees("late body")
}

// late makes a record that became unknown before its own answer came.
func (w *world) late(key, text string) {
	w.Helper()
	_, e := w.engine()
	d, err := e.Begin(w.Context(), stet.Request{ID: stet.ID{Scope: "acme", Key: stet.Key(key)}, Route: "POST /v1/charges",
		Subject: stet.Subject{Method: "POST", Path: "/v1/charges"}})
	if err != nil {
		w.Fatal(err)
	}
	w.until("its lease is over", func() bool {
		r, err := e.Get(w.Context(), d.Claim.ID())
		return err == nil && r.State == stet.Unknown
	})
	if err := d.Claim.Settle(w.Context(), stet.Outcome{Response: stet.Response{Status: 201, Body: []byte(text + " body")}}); err == nil {
		w.Fatal("it was not late")
	}
}
