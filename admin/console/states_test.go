package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet/admin/console"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/outbox"
)

// says reports what a page does not say of what it has to, and what it says of what it must not,
// which begins with an exclamation mark.
func says(t *testing.T, where, page string, want ...string) {
	t.Helper()
	for _, w := range want {
		not, absent := strings.CutPrefix(w, "!")
		if strings.Contains(page, not) == absent {
			t.Errorf("%s: %q, absent is %v", where, not, absent)
		}
	}
}

// The page of an incident says that it has ended, with a status that a browser takes over, and is
// not read again. So does what is done with all of it.
func TestIncidentThatEnds(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	csrf := formsOf(v.page("/unknown"))[0].fields.Get("csrf")
	f.record(lateID).State = "completed"
	says(t, "the incident", v.page("/unknown/i-v1-refunds"), "<title>This incident has ended", `href="/audit"`, "!data-live", "!Nothing is unknown")
	if res, page := v.send("POST", "/unknown/i-v1-refunds/snooze", url.Values{"csrf": {csrf}, "id": {lateID}}); res.StatusCode != 200 || !strings.Contains(page, "This incident has ended") {
		t.Errorf("a form: %d", res.StatusCode)
	}
	res, page := v.get("/unknown/i-beyond") // O02
	if says(t, "one that was not looked at", page, "It may be among the others, or have ended.", "!This incident has ended"); res.StatusCode != 404 {
		t.Errorf("one that was not looked at: %d", res.StatusCode)
	}
}

// Only those that wait are counted as unknown. Of an incident, a filter counts those that it is
// about.
func TestOnlyThoseThatWait(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	snooze := &operate.Snooze{Until: f.now.Add(time.Hour)}
	f.record(cutID).Snooze, f.records[0].Late = snooze, f.record(lateID).Late
	says(t, "some", v.page("/unknown"), "<title>14 unknown", `Snoozed <span class="meta">1<`, `With a late answer <span class="meta">2<`)
	for _, r := range f.records {
		if !r.Escalated {
			r.Snooze = snooze
		}
	}
	says(t, "none", v.page("/unknown"), "<title>0 unknown", "<b>Nothing waits</b>", "15 are snoozed", "1 is a dead letter", "!Nothing is unknown")
}

// A list that is read again and again has the first keys of an incident, and a link to the others.
func TestIncidentOfMany(t *testing.T) {
	f := newFake()
	for i := range 60 {
		f.unknown(fmt.Sprintf("k_%016x", 0xabc000+i), "POST", "/v1/topups", "upstream-failed", f.now.Add(-time.Hour))
	}
	v := as(t, f, "operator")
	list := v.page("/unknown?open=i-v1-topups")
	says(t, "the list", list, "The 50 below", "50 of 60, the most telling first", `<a href="/unknown/i-v1-topups">Show 60</a>`)
	if n := strings.Count(list, `aria-label="Pick k_`); n != 50 {
		t.Errorf("the list has %d rows", n)
	}
	says(t, "the incident", v.page("/unknown/i-v1-topups"), "All 60", "!Show 60")
}

// Pages of the store on which no record is like the filter are gone through to the first that is.
func TestTheFirstKeyThatMatches(t *testing.T) { // O03
	f := newFake()
	f.empty = 3
	says(t, "found", as(t, f, "viewer").page("/keys?cause=panic"), cutID, "!No key")
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.empty = 1 << 30
		v := visit(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(100 * time.Millisecond)
			f.ServeHTTP(w, r)
		}), console.Config{})
		v.signIn("viewer-token")
		began := time.Now()
		says(t, "not found yet", v.page("/keys?cause=panic"), "<b>No key yet</b>", "and there are more", "Look further", "!No key matches")
		v.header.Set("Stet-Tick", "1")
		took := time.Since(began)
		began = time.Now()
		if says(t, "read again", v.page("/keys?cause=panic"), "<b>No key yet</b>"); took < time.Second || time.Since(began) >= took/2 {
			t.Errorf("it looks for %s, and %s when it reads itself", took, time.Since(began))
		}
	})
}

// Each recovery point of a flow is an event, newest first.
func TestPointsAreEvents(t *testing.T) {
	f := newFake()
	lost := f.record(cutID)
	lost.Points = []flow.Point{{Name: "authorize", At: lost.CreatedAt}, {Name: "charge", At: lost.CreatedAt.Add(time.Second)}}
	page := as(t, f, "viewer").page("/keys/" + cutID)
	charge, authorize, came := strings.Index(page, "The flow came to charge."), strings.Index(page, "The flow came to authorize."), strings.Index(page, "The key came first")
	if charge < 0 || charge > authorize || authorize > came {
		t.Errorf("charge at %d, authorize at %d, the key at %d", charge, authorize, came)
	}
}

// Freeing many says what the proof of each is worth, and takes snoozed ones along, too.
func TestFreeManySaysItsProof(t *testing.T) {
	f := newFake()
	f.settle()
	f.record(cutID).Snooze = &operate.Snooze{Until: f.now.Add(time.Hour)}
	f.records[0].Probe = nil
	says(t, "the page", as(t, f, "operator").page("/unknown/i-v1-charges/release"), "10 keys: <bdi>It has settled, and the last probe found no trace of it.", `name="key" value="`+cutID)
}

// A message whose delivery is unknown is sent again by no main button. It can be said that it was
// delivered.
func TestMessageThatIsUnknown(t *testing.T) {
	f := newFake()
	f.letter = outbox.Unknown
	v := as(t, f, "operator")
	page := v.page("/outbox/18204")
	says(t, "unknown", page, "Look there first.", "It did not happen: deliver it again", "!btn-main", "!can tell")
	res, _ := v.submit(page, "/outbox/18204/retry", url.Values{"reason": {"r"}})
	if res.StatusCode != 303 {
		t.Errorf("again: %d", res.StatusCode)
	}
	forms := formsOf(page)
	csrf := forms[0].fields.Get("csrf")
	res, _ = v.send("POST", "/outbox/18204/confirm", url.Values{"csrf": {csrf}, "reason": {"it is there"}, "version": {forms[slices.IndexFunc(forms, func(f form) bool { return f.fields.Has("version") })].fields.Get("version")}})
	says(t, "confirmed", v.page(res.Header.Get("Location")), "Settled: it was delivered.")
	if got := f.changed(); len(got) != 2 || got[1] != `POST /api/v1/outbox/18204/confirm {"if_version":"4611686018427387905","reason":"it is there"}` {
		t.Errorf("%q", got)
	}
}

// Of a key that was removed the audit trail is left.
func TestRemovedKey(t *testing.T) {
	f := newFake()
	v := as(t, f, "viewer")
	f.record(cutID).ID = "k_0"
	says(t, "removed", v.page("/keys/"+cutID), "<h1>Removed</h1>", "missing, status 404", "!data-live")
	res, page := v.get("/keys/k_1111111111111111")
	if says(t, "no such key", page, "There is no such key", "removed when its time was over"); res.StatusCode != 404 {
		t.Errorf("%d", res.StatusCode)
	}
}

// A key's page does not offer an answer that is not kept, or what the user may not do.
func TestKeySaysNoMoreThanIs(t *testing.T) {
	f := newFake()
	done := f.record(doneID)
	v := as(t, f, "operator")
	says(t, "kept", v.page("/keys/"+doneID), "Show the answer…")
	done.Outlook.Client = operate.ClientAnswer{Status: 409, Code: "result-not-retained"}
	says(t, "not kept", v.page("/keys/"+doneID), "Show the key…")
	says(t, "a viewer", as(t, f, "viewer").page("/keys/"+doneID), "Nothing, and nothing is needed.", "!to ask again takes")
}

// Under a key is what ran, or was told something, because of its key.
func TestCover(t *testing.T) {
	says(t, "routes", as(t, newFake(), "viewer").page("/routes"), "<dd>921 of 995</dd>", `data-l="key reused"><b>4</b>`)
}

// Of an incident with a dead letter, the page of dead letters says what is true of that one.
func TestDeadLetterOfAnIncident(t *testing.T) {
	f := newFake()
	f.settle()
	f.record(cutID).Escalated, f.record(cutID).Probe = true, &operate.ProbeAnswer{Found: "silent"}
	f.record(lateID).Snooze = &operate.Snooze{Until: f.now.Add(time.Hour)}
	_, page, _ := strings.Cut(as(t, f, "operator").page("/dead"), `id="g-i-v1-charges"`)
	says(t, "dead", page, "1 no answer · clients asked 19 times", "and the last probe could not tell", `href="/keys/`+cutID+`/released"`, "1 key is snoozed")
}

// Who signs in again after a form comes back to the page that it was on.
func TestNextAfterAForm(t *testing.T) {
	v := visit(t, newFake(), console.Config{})
	for from, want := range map[string]string{"http://localhost/keys/k_1?q=secret": "/keys/k_1", "http://evil.example/keys/k_1": "/", "": "/", "http://localhost/api/v1/keys": "/"} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/keys/k_1/note", strings.NewReader("note=n"))
		r.Header.Set("Referer", from)
		w := httptest.NewRecorder()
		v.h.ServeHTTP(w, r)
		if got := formsOf(w.Body.String())[0].fields.Get("next"); got != want {
			t.Errorf("from %q: %s", from, got)
		}
	}
}

// A job that was given up has not done all of it. Its page leads to what it changed.
func TestJobThatWasGivenUp(t *testing.T) {
	f := newFake()
	f.job = operate.JobInterrupted
	v := as(t, f, "viewer")
	says(t, "the job", v.page("/jobs/bulk_2"), "4 of 10 done", "6 not come to", `<progress value="4"`, "<dt>to</dt><dd><bdi>ben", "/audit?notice=bulk_2&amp;since=")
	f.entries = append(f.entries, operate.Entry{At: f.now, Who: "otto", Action: "release", ID: cutID, Notice: "bulk_2"}, operate.Entry{At: f.now, Action: "bulk", Job: "bulk_3"})
	says(t, "the trail", v.page("/audit"), `href="/jobs/bulk_2"`, `href="/jobs/bulk_3"`)
	res, page := v.get("/jobs/bulk_9")
	if says(t, "a job that was removed", page, "There is no such job", "filter it by the job"); res.StatusCode != 404 {
		t.Errorf("%d", res.StatusCode)
	}
}

// What was typed into a menu is there after a conflict.
func TestMenusKeepWhatWasTyped(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	page := v.page("/keys/" + cutID)
	f.record(cutID).Version++
	_, page = v.submit(page, "/keys/"+cutID+"/hand", url.Values{"to": {"ben"}, "note": {"ticket 88123"}})
	says(t, "handing", page, `value="ben"`, ">ticket 88123</textarea>", `name="act" open`)
}

// An incident's page says what happens by itself, by day and where that is tomorrow.
func TestIncidentLeftAlone(t *testing.T) {
	for _, c := range []struct {
		now          time.Time
		asked, freed string
	}{
		{noon, "12:03:40", "12:04:40"},
		{time.Date(2026, 11, 21, 23, 57, 0, 0, time.UTC), "Sun 00:00", "Sun 00:01"},
	} {
		f := newFakeAt(c.now)
		v := as(t, f, "viewer")
		const at = "/unknown/i-v1-refunds"
		o := f.record(lateID).Outlook
		says(t, "asked", v.page(at), "<b>If you do nothing</b>, the API is asked again at "+c.asked, "no trace frees no key")
		o.FreesAt = o.NextProbe.Add(time.Minute)
		says(t, "freed", v.page(at), "From "+c.freed+" no trace frees a key")
		o.NextProbe, o.FreesAt = f.now, f.now
		says(t, "due", v.page(at), "asked again now", "!From ")
		o.NextProbe = time.Time{}
		says(t, "over", v.page(at), "only a person ends this")
	}
}

// What could not be read is not said to be none.
func TestOverviewOfWhatIsNotRead(t *testing.T) {
	f := newFake()
	f.unread = true
	says(t, "the overview", as(t, f, "viewer").page("/"), "are not read yet", "!Nothing needs you", "!<b>None</b>", `<span id="n-unknown" class="n n-unknown">?</span>`, "<dd>? unknown, ? snoozed</dd>", "<dt>Dead letters</dt><dd>?</dd>")
	f.unread, f.outboxUnread = false, true
	says(t, "the overview without the outbox", as(t, f, "viewer").page("/"), "The outbox could not be read", "!Nothing needs you", "<dt>Dead letters</dt><dd>?</dd>")
}

// A store that answers, and that is another one than it was, is not said to be away.
func TestOverviewOfAnotherStore(t *testing.T) {
	f := newFake()
	v := as(t, f, "viewer")
	says(t, "the known one", v.page("/"), "!The store is not well", "!>not well<")
	f.unwell = "the store is not the one that was known: it was emptied"
	says(t, "another one", v.page("/"), "<b>The store is not well:</b> <bdi>"+f.unwell, "</svg>not well</span>", "!does not answer")
}

// A double effect is the first that the overview says.
func TestDoubleEffectIsSaidFirst(t *testing.T) { // K03c
	f := newFake()
	v := as(t, f, "viewer")
	says(t, "none", v.page("/"), "!its effect twice", "!not stored yet", "!api.example:443")
	f.double = []operate.Entry{{At: f.now, Who: "stet", Action: "double-effect", ID: doneID, Evidence: "attempt 1 was answered 201, with 5 bytes, says gw-1:902"}}
	page := v.page("/")
	says(t, "the overview", page, "a key had its effect twice.", "Attempt 1 was answered 201", `href="/keys/`+doneID+`"`, "outcomes are not stored yet.", "do not kill it",
		"api.example:443", "no connection since 09:00")
	if double, incident := strings.Index(page, "its effect twice"), strings.Index(page, `id="g-`); incident < 0 || double > incident {
		t.Error("the overview says incidents first")
	}
}

// What is not snoozed is a dead letter. A filter that finds nothing is
// not an empty trail.
func TestDeadLettersAndFilters(t *testing.T) {
	f := newFake()
	f.record(cutID).Path, f.record(lateID).Path = "/v1/payouts", "/v1/payouts"
	f.record(cutID).Escalated, f.record(lateID).Snooze = true, &operate.Snooze{Until: f.now.Add(time.Hour)}
	v := as(t, f, "viewer")
	says(t, "the overview", v.page("/"), ">dead letter.<")
	says(t, "a filter", v.page("/audit?id=k_0"), "No entry matches", "!Nothing yet")
}
