package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet/admin/console"
	"github.com/stet-dev/stet/operate"
)

// A user signs in with a token of the API, and stays signed in by a cookie that no script reads.
func TestSignIn(t *testing.T) {
	f := newFake()
	v := visit(t, f, console.Config{})
	res, _ := v.get("/keys?state=unknown")
	at, err := url.Parse(res.Header.Get("Location"))
	if err != nil || res.StatusCode != http.StatusSeeOther || at.Path != "/login" || at.Query().Get("next") != "/keys?state=unknown" {
		t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	_, page := v.get(at.String())
	for _, p := range faults(page) {
		t.Error(p)
	}
	if got := formsOf(page)[0].fields.Get("next"); got != "/keys?state=unknown" {
		t.Errorf("next is %q", got)
	}
	if res, page := v.send("POST", "/login", url.Values{"token": {"wrong"}, "next": {"/keys"}}); res.StatusCode != 401 || !strings.Contains(page, "No such token") || len(v.cookies) > 0 {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	res, _ = v.send("POST", "/login", url.Values{"token": {" operator-token\n"}, "next": {"/keys"}})
	set := res.Header.Get("Set-Cookie")
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/keys" || !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Strict") ||
		strings.Contains(set, "operator") || strings.Contains(set, "Secure") {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	page = v.page("/keys")
	if !strings.Contains(page, "operator, operator") || strings.Contains(page, "operator-token") {
		t.Error("the page does not say who is here, or says the token")
	}
	kept := v.cookies
	if res, _ := v.submit(page, "/logout", nil); res.StatusCode != http.StatusSeeOther || len(v.cookies) > 0 {
		t.Errorf("signing out: %d %v", res.StatusCode, res.Header)
	}
	v.cookies = kept
	v.cookies["stet-console"] = strings.TrimSuffix(strings.TrimPrefix(set, "stet-console="), "; Path=/; HttpOnly; SameSite=Strict")
	if res, _ := v.get("/keys"); res.StatusCode != http.StatusSeeOther {
		t.Errorf("the session goes on after its end: %d", res.StatusCode)
	}
	if res, _ := v.submit(page, "/logout", nil); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/login" { // Y20
		t.Errorf("signing out of a session that has ended: %d", res.StatusCode)
	}
}

// Retries are not given an empty body that claims to be JSON because a field was left as it was.
func TestAnEmptyAnswerIsMeant(t *testing.T) { // Y4
	f := newFake()
	v := as(t, f, "operator")
	at := "/keys/" + cutID
	send := func(typed url.Values) (int, string) {
		res, page := v.submit(v.page(at+"/happened"), at+"/resolve", typed)
		return res.StatusCode, page
	}
	if status, page := send(url.Values{"reason": {"INC-1"}}); status != 400 || !strings.Contains(page, "It is empty, and has a Content-Type.") || len(f.changed()) > 0 {
		t.Errorf("%d %q", status, f.changed())
	}
	if status, _ := send(url.Values{"reason": {"INC-1"}, "type": {""}}); status != 303 || len(f.changed()) != 1 || strings.Contains(f.changed()[0], "Content-Type") {
		t.Errorf("a status alone: %d %q", status, f.changed())
	}
}

// Consoles at two ports of one host do not sign each other's users out: browsers have one jar for
// both.
func TestCookiesOfTwoPorts(t *testing.T) { // O14
	jar := map[string]string{}
	ask := func(h http.Handler, method, at, body string) *http.Response {
		r := httptest.NewRequest(method, at, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for name, value := range jar {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		for _, c := range w.Result().Cookies() {
			jar[c.Name] = c.Value
		}
		return w.Result()
	}
	one, other := console.New(doorOf(newFake()), console.Config{}), console.New(doorOf(newFake()), console.Config{})
	for at, h := range map[string]http.Handler{"http://localhost:8081": one, "http://localhost:8082": other} {
		if res := ask(h, "POST", at+"/login", "token=operator-token"); res.StatusCode != http.StatusSeeOther {
			t.Fatal(res.Status)
		}
	}
	for at, h := range map[string]http.Handler{"http://localhost:8081": one, "http://localhost:8082": other} {
		if res := ask(h, "GET", at+"/keys", ""); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", at, res.Status)
		}
	}
}

func TestSecureCookie(t *testing.T) {
	v := visit(t, newFake(), console.Config{})
	r := httptest.NewRequest("POST", "https://localhost/login", strings.NewReader("token=operator-token"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, r)
	if got := w.Header().Get("Set-Cookie"); !strings.Contains(got, "; Secure") || !strings.HasPrefix(got, "__Host-stet-console=") {
		t.Errorf("over TLS: %q", got)
	}
}

// The API slows down those who guess, and the page to sign in says so.
func TestGuessesAreSlowed(t *testing.T) {
	v := visit(t, newFake(), console.Config{})
	for range 3 {
		v.signIn("wrong")
	}
	res, page := v.send("POST", "/login", url.Values{"token": {"wrong"}})
	if res.StatusCode != 429 || res.Header.Get("Retry-After") != "4" || !strings.Contains(page, "in 4 s") {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}

// Signing in goes on with a page of the console, and with nothing else.
func TestNextIsAPageOfTheConsole(t *testing.T) {
	for _, next := range []string{"https://evil.example/", "//evil.example", "///evil.example", "/\\evil.example", "javascript:alert(1)", "evil", "/api/v1/keys", "/%0d%0aSet-Cookie:x", "", "http:evil"} {
		v := visit(t, newFake(), console.Config{})
		res, _ := v.send("POST", "/login", url.Values{"token": {"viewer-token"}, "next": {next}})
		if got := res.Header.Get("Location"); got != "/" && got != "/%0d%0aSet-Cookie:x" {
			t.Errorf("%q goes on with %q", next, got)
		}
	}
}

// A link on another site, such as an alert's, does not end at the page to sign in: browsers keep
// the cookie back then, and send it when the page asks again by itself.
func TestLinkFromAnotherSite(t *testing.T) {
	v := as(t, newFake(), "operator")
	kept := v.cookies
	v.cookies = map[string]string{}
	v.header.Set("Sec-Fetch-Site", "cross-site")
	res, page := v.get("/unknown/i-v1-charges")
	if res.StatusCode != 200 || !strings.Contains(page, `http-equiv="refresh"`) || strings.Contains(page, cutID) {
		t.Errorf("%d %s", res.StatusCode, page)
	}
	v.cookies, v.header = kept, http.Header{"Sec-Fetch-Site": {"same-origin"}}
	v.page("/unknown/i-v1-charges")
}

// Sessions end when they are idle and when they are old, and are not kept alive by a page that is
// left open.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visit(t, newFake(), console.Config{})
		v.signIn("operator-token")
		status := func() int { t.Helper(); res, _ := v.get("/unknown"); return res.StatusCode }
		time.Sleep(12*time.Hour - time.Minute)
		if status() != 200 {
			t.Error("it ended early")
		}
		time.Sleep(12*time.Hour - time.Minute)
		v.header.Set("Stet-Tick", "1")
		if status() != 200 {
			t.Error("it ended early")
		}
		time.Sleep(time.Minute)
		v.header.Del("Stet-Tick")
		if status() != 303 {
			t.Error("a page that is left open keeps its session")
		}
		v.signIn("operator-token")
		for range 7*24/6 - 1 {
			time.Sleep(6 * time.Hour)
			if status() != 200 {
				t.Fatal("it ended early")
			}
		}
		time.Sleep(6 * time.Hour)
		if status() != 303 {
			t.Error("a session lasts for ever")
		}
	})
}

// A form that is sent after the end of its session is kept, sealed, while its user signs in, and sent
// when the user has seen it. What another site has sent is not kept.
func TestAFormOutlivesItsSession(t *testing.T) { // O13
	f := newFake()
	v := as(t, f, "operator")
	typed := url.Values{"csrf": {"of the session"}, "to": {"ben <b>"}, "note": {"ticket 88123"}, "if_basis": {basis(4)}}
	v.cookies = map[string]string{}
	at := "/keys/" + cutID + "/hand"
	res, page := v.send("POST", at, typed)
	if says(t, "signing in", page, "What you sent is kept", "!88123"); res.StatusCode != http.StatusUnauthorized || len(f.changed()) > 0 {
		t.Fatalf("%d, %q", res.StatusCode, f.changed())
	}
	_, page = v.typeToken(page, url.Values{"token": {"wrong"}})
	says(t, "a wrong token", page, "What you sent is kept", "No such token")
	_, page = v.typeToken(page, url.Values{"token": {"operator-token"}})
	says(t, "signed in", page, "<h1>Not sent yet</h1>", "ticket 88123", "<dd><bdi>ben &lt;b&gt;</bdi></dd>", "!<bdi>"+basis(4))
	for _, p := range faults(page) {
		t.Error(p)
	}
	if len(f.changed()) > 0 {
		t.Errorf("it was sent before its user has seen it: %q", f.changed())
	}
	res, _ = v.submit(page, at, nil)
	if got := f.changed(); res.StatusCode != 303 || len(got) != 1 || !strings.Contains(got[0], `"note":"ticket 88123"`) {
		t.Errorf("%d, %q", res.StatusCode, got)
	}
	v.cookies = map[string]string{}
	v.header.Set("Sec-Fetch-Site", "cross-site")
	if res, page := v.send("POST", at, typed); res.StatusCode != 303 || strings.Contains(page, "kept") {
		t.Errorf("of another site: %d %s", res.StatusCode, page)
	}
	v.header.Del("Sec-Fetch-Site")
	long := url.Values{"note": {strings.Repeat("<", 60_000)}}
	if res, _ := v.send("POST", at, long); res.StatusCode != 303 {
		t.Errorf("one that is too long: %d", res.StatusCode)
	}
}

// typeToken sends the form to sign in, as the page has it.
func (v *visitor) typeToken(page string, typed url.Values) (*http.Response, string) {
	v.t.Helper()
	form := url.Values{}
	for _, f := range formsOf(page) {
		maps.Copy(form, f.fields)
	}
	maps.Copy(form, typed)
	return v.send("POST", "/login", form)
}

// Where the API asks for no token, neither does the console. Its forms are guarded all the same.
func TestNoSignInWhereNoneIsNeeded(t *testing.T) {
	f := newFake()
	f.open = true
	v := visit(t, f, console.Config{})
	page := v.page("/keys/" + cutID)
	if strings.Contains(page, "Sign out") {
		t.Error("there is nothing to sign out of")
	}
	if res, _ := v.submit(page, "/keys/"+cutID+"/hand", url.Values{"to": {"ben"}}); res.StatusCode != 303 {
		t.Errorf("%d", res.StatusCode)
	}
	if res, _ := v.send("POST", "/keys/"+cutID+"/hand", url.Values{"to": {"ben"}}); res.StatusCode != 403 {
		t.Errorf("without the form's token: %d", res.StatusCode)
	}
}

// A form counts only if it is from a page of this console, in this session.
func TestForeignForms(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	page := v.page("/keys/" + cutID)
	action := "/keys/" + cutID + "/snooze"
	typed := url.Values{"until": {"2030-01-02T03:04:05Z"}, "reason": {"INC-1"}}
	for name, header := range map[string]http.Header{
		"another origin": {"Origin": {"https://evil.example"}}, "another port": {"Origin": {"http://localhost:9999"}}, "an origin that is kept back": {"Origin": {"null"}},
		"another site": {"Sec-Fetch-Site": {"cross-site"}}, "a site beside": {"Sec-Fetch-Site": {"same-site"}},
	} {
		v.header = header
		if res, _ := v.submit(page, action, typed); res.StatusCode != 403 {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
		if res, _ := v.send("POST", "/login", url.Values{"token": {"admin-token"}}); res.StatusCode != 403 || res.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s signs in: %d", name, res.StatusCode)
		}
	}
	v.header = http.Header{}
	typed.Set("csrf", "of another session")
	if res, _ := v.submit(page, action, typed); res.StatusCode != 403 {
		t.Errorf("the token of another session: %d", res.StatusCode)
	}
	if len(f.changed()) > 0 {
		t.Errorf("%q", f.changed())
	}
	typed.Del("csrf")
	if res, _ := v.submit(page, action, typed); res.StatusCode != 303 || len(f.changed()) != 1 {
		t.Errorf("the form itself: %d", res.StatusCode)
	}
}

// A viewer sees no buttons, but what it takes.
func TestViewersReadOnly(t *testing.T) {
	f := newFake()
	v := as(t, f, "viewer")
	for _, at := range []string{"/unknown", "/keys/" + cutID, "/keys/" + doneID, "/dead", "/outbox/18204"} {
		page := v.page(at)
		for _, fm := range formsOf(page) {
			if fm.method == "post" && fm.action != "/find" && fm.action != "/logout" {
				t.Errorf("%s has a form for %s", at, fm.action)
			}
		}
		if strings.Contains(page, "It happened…") || strings.Contains(page, "It did not…") || !strings.Contains(page, "role operator") && !strings.Contains(page, "role admin") {
			t.Errorf("%s offers an action, or does not say what it takes", at)
		}
	}
	for _, at := range []string{"/keys/" + cutID + "/happened", "/keys/" + cutID + "/released", "/unknown/i-v1-charges/release", "/keys/" + doneID + "/forget"} {
		if res, page := v.get(at); res.StatusCode != 403 || !strings.Contains(page, "This takes the role") {
			t.Errorf("%s: %d", at, res.StatusCode)
		}
	}
}

// The role that a form takes is looked at before the form is read.
func TestFormsTakeARole(t *testing.T) {
	f := newFake()
	rank := map[string]int{"viewer": 1, "operator": 2, "admin": 3}
	n := 0
	for who := range rank {
		v := as(t, f, who)
		for at, takes := range console.Changes() {
			at = strings.NewReplacer("{id}", cutID, "{incident}", "i-v1-charges", "{do}", "release", "{message}", "18204", "{job}", "bulk_2").Replace(at)
			want := "This takes the role " + takes
			if rank[who] >= rank[takes] {
				want = "not from a page of yours"
			} else {
				n++
			}
			if res, page := v.send("POST", at, url.Values{}); res.StatusCode != 403 || !strings.Contains(page, want) {
				t.Errorf("%s of %s: %d, not %q", at, who, res.StatusCode, want)
			}
		}
	}
	if n < 15 || len(f.changed()) > 0 {
		t.Errorf("%d were refused; %q", n, f.changed())
	}
}

// A key's page has all sentences of its explanation, in what one can do the rulings of the API, and
// below what has happened.
func TestKeySaysWhatIsKnown(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	for at, want := range map[string][]string{
		cutID: {`<p class="say"><bdi>It is what is known.</bdi></p>`, "<li><bdi>More is known: lease-lapsed</bdi></li>", "One thing is open.", "Another is.", "It is answered so.", "It has asked.",
			"<b>If you do nothing</b> <bdi>First it is asked again.</bdi> <bdi>Then it stays.</bdi>", `<a href="#mismatch">What differs</a>`,
			`aria-disabled="true"`, "The attempt ended only just now.", "none of the gateway’s own probes: 2 are left", `id="mismatch"`, "≠ ", "https://traces.example/a1c3", "not every difference is recorded", "asked the API again", "missing, status 404"},
		lateID: {"an answer that says that it happened.", "kept an answer that came too late", "!What differs"},
		deadID: {"dead letter", "the last probe could not tell", "the gateway asks no more by itself"},
		doneID: {"Takes the role admin."},
	} {
		says(t, at, v.page("/keys/"+at), want...)
	}
	f.settle()
	says(t, "it has settled", v.page("/keys/"+cutID), `href="/keys/`+cutID+`/released"`)
	for _, at := range []string{"happened", "released"} {
		says(t, at, v.page("/keys/"+cutID+"/"+at), "It is what is known.", "More is known: lease-lapsed")
	}
}

// The probe is a line for a shell. What clients sent cannot leave its quotes.
func TestCurl(t *testing.T) {
	f := newFake()
	r := f.record(cutID)
	r.Scope, r.Path = `a'; rm -rf "$HOME" #`, "/v1/`id`$(id)"
	page := as(t, f, "operator").page("/keys/" + cutID)
	want := `curl -sSi 'http://payments.internal:3000%2Fv1%2F%60id%60%24%28id%29?key='"$KEY"'&tenant=a%27%3B%20rm%20-rf%20%22%24HOME%22%20%23'`
	_, line, _ := strings.Cut(page, `<code id="curl">`)
	line, _, _ = strings.Cut(line, "</code>")
	if got := unescape.Replace(line); got != want {
		t.Errorf("%s", got)
	}
}

// One incident is one row, and those of its keys come first that tell most.
func TestUnknown(t *testing.T) {
	v := as(t, newFake(), "operator")
	page := v.page("/unknown")
	if n := strings.Count(page, "<details class=\"card inc\""); n != 2 {
		t.Errorf("%d incidents", n) // the dead letter has a page of its own
	}
	for _, want := range []string{"the gateway died while they ran", "10 no trace", "3 with an answer that says neither", "1 no answer", "All 14", "“It did not” is possible from", "An answer came late."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, `value="`+lateID) {
		t.Error("a folded incident has its keys")
	}
	if neither, none, trace := strings.Index(page, "neither yes nor no (202)"), strings.Index(page, ">no answer<"), strings.Index(page, "no trace (404)"); !(0 < neither && neither < none && none < trace) {
		t.Errorf("the order is %d, %d, %d", neither, none, trace)
	}
	for _, id := range []string{"i-v1-refunds", "i-v1-refun-as-before"} { // what is open stays open when its id becomes another one
		if page := v.page("/unknown?open=" + id); !strings.Contains(page, `value="`+lateID) || strings.Contains(page, `value="`+cutID) {
			t.Errorf("%s: another incident is open than was asked for", id)
		}
	}
}

// "It happened" gives retries what was typed, and the record's basis travels with it.
func TestItHappened(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	page := v.page("/keys/" + cutID + "/happened")
	res, _ := v.submit(page, "/keys/"+cutID+"/resolve", url.Values{"status": {"201"}, "body": {`{"id":"ch_1"}`}, "evidence": {"ch_1"}, "reason": {"INC-4521"}})
	want := `POST /api/v1/keys/` + cutID + `/resolve {"body":"{\"id\":\"ch_1\"}","evidence":"ch_1","headers":{"Content-Type":["application/json"]},"if_basis":"` + basis(4) + `","outcome":"completed","reason":"INC-4521","status":201}`
	if got := f.changed(); res.StatusCode != 303 || len(got) != 1 || got[0] != want {
		t.Fatalf("%d %q", res.StatusCode, got)
	}
	if page := v.page(res.Header.Get("Location")); !strings.Contains(page, "Settled: it happened.") {
		t.Error("the page does not say so")
	}
	if page := v.page("/keys/" + lateID + "?done=resolve"); strings.Contains(page, "Settled: it") {
		t.Error("an address says that something happened that did not")
	}
}

// The late answer is given as it is, and a look at it is in the audit trail.
func TestItHappenedAsTheLateAnswerSays(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	at := "/keys/" + lateID + "/resolve"
	page := v.page("/keys/" + lateID + "/happened")
	if strings.Contains(page, "re_3Qk81") {
		t.Error("the answer is shown to those who did not ask")
	}
	_, page = v.submit(page, at, url.Values{"look": {"1"}, "reason": {"INC-1"}})
	if !strings.Contains(page, "re_3Qk81") || !slices.Contains(f.changed(), "REVEAL "+lateID+" INC-1") {
		t.Errorf("%q", f.changed())
	}
	if res, _ := v.submit(page, at, url.Values{"use": {"stored"}, "reason": {"INC-1"}}); res.StatusCode != 303 {
		t.Fatalf("%d", res.StatusCode)
	}
	last := f.changed()[len(f.changed())-1]
	if !strings.HasSuffix(last, `{"as":"late-answer","if_basis":"`+basis(4)+`","reason":"INC-1"}`) {
		t.Error(last)
	}
}

// The second of two people sees who changed what, and finds what was typed.
func TestTwoAtOnce(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	happened, released := v.page("/keys/"+cutID+"/happened"), ""
	f.settle()
	released = v.page("/keys/" + cutID + "/released")
	f.record(cutID).Version = 5
	f.entries = append(f.entries, operate.Entry{ID: cutID, Who: "ben", Action: "hand", Reason: "she knows the bank", At: f.now})
	res, page := v.submit(happened, "/keys/"+cutID+"/resolve", url.Values{"status": {"202"}, "body": {"typed body"}, "reason": {"typed reason"}, "evidence": {"typed evidence"}})
	if res.StatusCode != 409 {
		t.Fatalf("%d", res.StatusCode)
	}
	for _, want := range []string{"changed meanwhile", "At " + f.now.Format("15:04:05") + " ben handed it over", "she knows the bank", "version 5", "typed body", "typed reason", "typed evidence", `value="202"`, `name="if_basis" value="` + basis(5) + `"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	res, page = v.submit(released, "/keys/"+cutID+"/release", url.Values{"reason": {"typed reason"}})
	if res.StatusCode != 409 || !strings.Contains(page, "ben handed it over") || !strings.Contains(page, "typed reason") {
		t.Errorf("%d", res.StatusCode)
	}
	old := strings.NewReplacer(`name="if_basis" value="`+basis(5)+`"`, `name="if_basis" value="`+basis(4)+`"`).Replace(v.page("/keys/" + cutID))
	for verb, typed := range map[string]url.Values{"snooze": {"until": {"2030-01-02T03:04:05Z"}, "reason": {"r"}}, "hand": {"to": {"kim"}}} {
		res, now := v.submit(old, "/keys/"+cutID+"/"+verb, typed)
		if res.StatusCode != 409 || !strings.Contains(now, "ben handed it over") {
			t.Errorf("%s: %d", verb, res.StatusCode)
		}
	}
	ada := as(t, f, "admin")
	forget := ada.page("/keys/" + doneID + "/forget")
	f.record(doneID).Version++
	if res, page := ada.submit(forget, "/keys/"+doneID+"/forget", url.Values{"id": {doneID}, "reason": {"r"}}); res.StatusCode != 409 ||
		!strings.Contains(page, "at version 7") || !strings.Contains(page, `name="if_basis" value="`+basis(7)+`"`) {
		t.Errorf("forget: %d", res.StatusCode)
	}
	if len(f.changed()) > 0 {
		t.Errorf("%q", f.changed())
	}
	if res, _ := v.submit(page, "/keys/"+cutID+"/release", url.Values{"reason": {"typed reason"}}); res.StatusCode != 303 {
		t.Errorf("the form as it is now: %d", res.StatusCode)
	}
}

// A mistake keeps what was typed and says where it is.
func TestMistakesInForms(t *testing.T) {
	f := newFake()
	v := as(t, f, "admin")
	page := v.page("/keys/" + cutID + "/happened")
	for _, typed := range []url.Values{{"status": {"99"}, "reason": {"r"}, "body": {"kept"}}, {"status": {"200"}, "reason": {" "}, "body": {"kept"}}} {
		if res, page := v.submit(page, "/keys/"+cutID+"/resolve", typed); res.StatusCode != 400 || !strings.Contains(page, "kept") || !strings.Contains(page, `aria-invalid="true"`) {
			t.Errorf("%v: %d", typed, res.StatusCode)
		}
	}
	page = v.page("/keys/" + doneID + "/forget")
	if res, page := v.submit(page, "/keys/"+doneID+"/forget", url.Values{"id": {"k_other"}, "reason": {"kept"}}); res.StatusCode != 400 || !strings.Contains(page, "kept") {
		t.Errorf("another id: %d", res.StatusCode)
	}
	if len(f.changed()) > 0 {
		t.Errorf("%q", f.changed())
	}
	if res, _ := v.submit(page, "/keys/"+doneID+"/forget", url.Values{"id": {doneID}, "reason": {"INC-1"}}); res.StatusCode != 200 || len(f.changed()) != 1 {
		t.Errorf("its id: %d %q", res.StatusCode, f.changed())
	}
	if res, page := v.get("/keys?older_than_s=x"); res.StatusCode != 400 || !strings.Contains(page, "it is a number.") || !strings.Contains(page, `aria-invalid="true"`) {
		t.Errorf("a filter: %d", res.StatusCode)
	}
}

// Only an admin says before it has settled that it did not happen, with evidence.
func TestCancelledByTheProvider(t *testing.T) {
	f := newFake()
	if page := as(t, f, "operator").page("/keys/" + cutID); strings.Contains(page, "cancelled=1") {
		t.Error("an operator is offered it")
	}
	v := as(t, f, "admin")
	page := v.page("/keys/" + cutID + "/released?cancelled=1")
	if res, _ := v.submit(page, "/keys/"+cutID+"/release", url.Values{"reason": {"r"}, "evidence": {" "}}); res.StatusCode != 400 || len(f.changed()) > 0 {
		t.Errorf("without evidence: %d", res.StatusCode)
	}
	if res, _ := v.submit(page, "/keys/"+cutID+"/release", url.Values{"reason": {"r"}, "evidence": {"can_1"}}); res.StatusCode != 303 || !strings.Contains(f.changed()[0], `"voided":true`) {
		t.Errorf("%d %q", res.StatusCode, f.changed())
	}
}

// Many are freed after their count was typed, and those alone that the page has shown.
func TestFreeMany(t *testing.T) {
	f := newFake()
	f.settle()
	v := as(t, f, "operator")
	const at = "/unknown/i-v1-charges/release"
	page := v.page(at)
	for _, want := range []string{"free 10 keys", "Left out: 4", "could not tell", "Type how many keys: 10", "Clients are asking for 9 of them"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if res, page := v.submit(page, at, url.Values{"count": {"14"}, "reason": {"kept"}}); res.StatusCode != 400 || !strings.Contains(page, "It is not 10") || !strings.Contains(page, "kept") {
		t.Errorf("another count: %d", res.StatusCode)
	}
	f.record(cutID).Version++
	if res, page := v.submit(page, at, url.Values{"count": {"10"}, "reason": {"kept"}}); res.StatusCode != 409 || !strings.Contains(page, "1 key has changed since you looked") {
		t.Errorf("a key that has changed: %d", res.StatusCode)
	}
	if len(f.changed()) > 0 {
		t.Errorf("%q", f.changed())
	}
	res, _ := v.submit(v.page(at), at, url.Values{"count": {"10"}, "reason": {"INC-4521"}})
	if got := f.changed(); res.StatusCode != 303 || res.Header.Get("Location") != "/jobs/bulk_1" || len(got) != 1 || !strings.Contains(got[0], `"expect":10`) || strings.Count(got[0], `"k_`) != 10 || !strings.Contains(got[0], `"`+cutID+`@`+basis(5)+`"`) {
		t.Errorf("%d %q", res.StatusCode, got)
	}
	if page := v.page("/jobs/bulk_1"); !strings.Contains(page, "9 changed, 1 left alone") || !strings.Contains(page, "It was changed meanwhile.") || strings.Contains(page, "data-live") || strings.Contains(page, "Stop it") {
		t.Error("the job's page does not say how it ended")
	}
	res, lines := v.get("/jobs/bulk_1/report")
	if res.Header.Get("Content-Type") != "application/x-ndjson" || res.Header.Get("Content-Disposition") != `attachment; filename=bulk_1.ndjson` || !strings.Contains(lines, cutID) {
		t.Errorf("the report: %d %v %s", res.StatusCode, res.Header, lines)
	}
}

// A job is stopped, with a reason.
func TestStopAJob(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	const at = "/jobs/bulk_2"
	page := v.page(at)
	if !strings.Contains(page, `data-live="1"`) || !strings.Contains(page, "Handing 10 keys over") || !strings.Contains(page, "4 of 10 done") || !strings.Contains(page, "to go") {
		t.Error("the page does not say how far it has come")
	}
	if res, page := v.submit(page, at+"/stop", url.Values{"reason": {" "}}); res.StatusCode != 400 || !strings.Contains(page, "say why") || len(f.changed()) > 0 {
		t.Errorf("without a reason: %d", res.StatusCode)
	}
	if res, _ := v.submit(v.page(at), at+"/stop", url.Values{"reason": {"INC-1"}}); res.StatusCode != 303 || res.Header.Get("Location") != at {
		t.Errorf("%d", res.StatusCode)
	}
	if page := v.page(at); !strings.Contains(page, "It is over: stopped") || strings.Contains(page, "Stop it") {
		t.Error("the page does not say that it is stopped")
	}
	if got := f.changed(); len(got) != 1 || got[0] != `POST /api/v1/bulk/bulk_2/stop {"reason":"INC-1"}` {
		t.Errorf("%q", got)
	}
	if page := as(t, f, "viewer").page(at); strings.Contains(page, "Stop it") {
		t.Error("a viewer is offered it")
	}
}

// Of an incident of more keys than a page shows, the page says how many there are besides, and which
// command is about all of them.
func TestMoreKeysThanAreShown(t *testing.T) { // O24
	f := newFake()
	for i := range 600 {
		f.unknown(fmt.Sprintf("k_%016x", 0xabc000+i), "POST", "/v1/charges", "lease-lapsed", f.now.Add(-7*time.Minute))
	}
	v := as(t, f, "operator")
	for do, command := range map[string]string{"release": "stet keys release", "hand": "stet keys bulk hand"} {
		if page := v.page("/unknown/i-v1-charges/" + do); !strings.Contains(page, "114 further keys") || !strings.Contains(page, "<code>"+command+" --incident i-v1-charges</code>") {
			t.Errorf("%s does not say it", do)
		}
	}
}

// Those that were picked are freed, and no others, also where the picked ones have ended meanwhile.
func TestFreePicked(t *testing.T) {
	f := newFake()
	f.settle()
	v := as(t, f, "operator")
	const at = "/unknown/i-v1-charges/release"
	csrf := formsOf(v.page("/unknown"))[0].fields.Get("csrf")
	res, _ := v.send("POST", at, url.Values{"csrf": {csrf}, "id": {cutID}})
	there := res.Header.Get("Location") // to which Back leads from the job, without anything to send again (O12)
	if page := v.page(there); res.StatusCode != 303 || !strings.Contains(page, "free 1 key<") {
		t.Errorf("another set is taken than was picked: %d", res.StatusCode)
	}
	f.record(cutID).State = "completed"
	for _, at := range []string{there, at + "?pick=", at + "?pick=x", at + "?pick=%00"} {
		if page := v.page(at); !strings.Contains(page, "free 0 keys") || strings.Contains(page, `name="key"`) {
			t.Errorf("%s takes others than were picked", at)
		}
	}
	for _, ids := range [][]string{{"k_x"}, {cutID, "x"}, {strings.ToUpper(cutID)}} {
		if res, _ := v.send("POST", at, url.Values{"csrf": {csrf}, "id": ids}); res.StatusCode != 400 {
			t.Errorf("%q: %d", ids, res.StatusCode)
		}
	}
	if res, _ := v.send("POST", at, url.Values{"csrf": {csrf}, "count": {"9"}, "reason": {"r"}}); res.StatusCode != 400 || len(f.changed()) > 0 {
		t.Errorf("a form that names none: %d", res.StatusCode)
	}
}

// A page of dead letters offers what it does for those that it shows.
func TestDeadLettersAlone(t *testing.T) {
	f := newFake()
	f.record(cutID).Escalated = true
	page := as(t, f, "operator").page("/dead")
	for _, fm := range formsOf(page) {
		if n := len(fm.fields["id"]); n > 1 || n == 1 && fm.fields.Get("id") != cutID && fm.fields.Get("id") != deadID {
			t.Errorf("%s names %q", fm.action, fm.fields["id"])
		}
	}
	if !strings.Contains(page, "1 of 2 dead messages") || !strings.Contains(page, "<title>4 dead letters") || !strings.Contains(page, `rel="next"`) {
		t.Error("the page does not say how many messages there are, or leads to no further ones")
	}
	if !strings.Contains(page, "Ask again") || strings.Contains(page, "Ask about 14") {
		t.Error("the page acts on keys that it does not show")
	}
}

// Of many, those get an answer of whom it is known.
func TestManyHappened(t *testing.T) {
	f := newFake()
	for _, r := range f.records[:2] {
		r.Late = f.record(lateID).Late
	}
	f.records[2].Probe = &operate.ProbeAnswer{Found: "happened", Status: 201}
	v := as(t, f, "operator")
	const at = "/unknown/i-v1-charges/resolve"
	if page := v.page("/unknown"); !strings.Contains(page, `formaction="`+at+`"`) {
		t.Error("it is not offered")
	}
	page := v.page(at)
	for _, want := range []string{"give retries the answers of 3 keys", "Left out: 11", "Nothing says what its answer is."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if res, _ := v.submit(page, at, url.Values{"count": {"14"}, "reason": {"INC-1"}}); res.StatusCode != 400 || len(f.changed()) > 0 {
		t.Errorf("another count: %d", res.StatusCode)
	}
	if res, page := v.submit(page, at, url.Values{"count": {"3"}, "reason": {" "}}); res.StatusCode != 400 || !strings.Contains(page, "say why") || len(f.changed()) > 0 {
		t.Errorf("without a reason: %d", res.StatusCode)
	}
	res, _ := v.submit(page, at, url.Values{"count": {"3"}, "reason": {"INC-1"}})
	if got := f.changed(); res.StatusCode != 303 || len(got) != 1 || !strings.Contains(got[0], `"action":"resolve"`) || strings.Count(got[0], "@"+basis(4)) != 3 {
		t.Errorf("%d %s", res.StatusCode, got)
	}
}

// The same is done with all of an incident, or with those that were picked, by a job.
func TestMany(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	page := v.page("/unknown")
	csrf := formsOf(page)[0].fields.Get("csrf")
	const at = "/unknown/i-v1-charges/"
	var all []string
	for _, fm := range formsOf(page) {
		if ids := fm.fields["id"]; fm.action == at+"probe" && len(ids) > 0 {
			all = ids
		}
	}
	picked := []string{cutID, f.records[0].ID}
	for do, c := range map[string]struct {
		ids         []string
		typed       url.Values
		count, want string
	}{
		"probe":  {all, url.Values{"reason": {"INC-1"}}, "14", `"expect":14`},
		"snooze": {picked, url.Values{"reason": {"INC-1"}, "until": {"2030-01-02T03:04:05Z"}}, "2", `"until":"2030-01-02T03:04:05Z"`},
		"hand":   {picked, url.Values{"to": {"ben"}, "note": {"ticket"}}, "2", `"note":"ticket","to":"ben"`},
	} {
		before := len(f.changed())
		res, _ := v.send("POST", at+do, url.Values{"csrf": {csrf}, "id": c.ids})
		page := v.page(res.Header.Get("Location"))
		if !strings.Contains(page, "Type how many keys: "+c.count) || len(f.changed()) > before {
			t.Fatalf("%s: the page does not show what it is about, or has done it", do)
		}
		if res, _ := v.submit(page, at+do, c.typed); res.StatusCode != 400 || len(f.changed()) > before {
			t.Errorf("%s without the count: %d", do, res.StatusCode)
		}
		c.typed.Set("count", c.count)
		res, _ = v.submit(page, at+do, c.typed)
		if got := f.changed()[before:]; res.StatusCode != 303 || res.Header.Get("Location") != "/jobs/bulk_1" || len(got) != 1 || !strings.Contains(got[0], c.want) ||
			!strings.Contains(got[0], `"action":"`+do+`"`) || !strings.Contains(got[0], `"`+cutID+`@`+basis(4)+`"`) || strings.Count(got[0], `"k_`) != len(c.ids) {
			t.Errorf("%s: %d %q", do, res.StatusCode, got)
		}
	}
	before := len(f.changed())
	page = v.page(at + "snooze")
	if res, page := v.submit(page, at+"snooze", url.Values{"reason": {"kept"}, "until": {"later"}, "count": {"14"}}); res.StatusCode != 400 || !strings.Contains(page, "Choose one of the times") || !strings.Contains(page, "kept") {
		t.Errorf("no time: %d", res.StatusCode)
	}
	for do, want := range map[string]int{"delete": 404, "probe": 400} {
		if res, _ := v.send("POST", at+do, url.Values{"csrf": {csrf}}); res.StatusCode != want {
			t.Errorf("%s of none: %d", do, res.StatusCode)
		}
	}
	if res, _ := v.send("POST", at+"probe", url.Values{"csrf": {csrf}, "key": {cutID, lateID + "@" + basis(4)}, "count": {"1"}, "reason": {"r"}}); res.StatusCode != 409 || len(f.changed()) > before {
		t.Errorf("a key of another incident, and one without its basis: %d", res.StatusCode)
	}
}

// What is hidden is shown after a reason was given, once, and is in no address.
func TestReveal(t *testing.T) {
	f := newFake()
	v := as(t, f, "operator")
	page := v.page("/keys/" + doneID)
	const at = "/keys/" + doneID + "/reveal#reveal"
	if strings.Contains(page, "order-4712") {
		t.Error("the key is shown")
	}
	if res, page := v.submit(page, at, url.Values{"reason": {" "}}); res.StatusCode != 400 || strings.Contains(page, "order-4712") {
		t.Errorf("without a reason: %d", res.StatusCode)
	}
	res, page := v.submit(page, at, url.Values{"reason": {"INC-1"}})
	if res.StatusCode != 200 || !strings.Contains(page, "order-4712") || !strings.Contains(page, "re_3Qk81") || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d", res.StatusCode)
	}
	if strings.Contains(page, "data-live") {
		t.Error("the page reads itself again, and hides it")
	}
	for _, tg := range tagsOf(page) {
		for _, name := range []string{"href", "action", "hx-get"} {
			if strings.Contains(tg.attrs[name], "order-4712") {
				t.Errorf("the key is in %s", tg.attrs[name])
			}
		}
	}
}

// What is looked for may be a key, and is in no address. One record that is found opens at once.
func TestFind(t *testing.T) {
	v := as(t, newFake(), "operator")
	page := v.page("/")
	if res, _ := v.submit(page, "/find", url.Values{"q": {" " + cutID + " "}}); res.StatusCode != 303 || res.Header.Get("Location") != "/keys/"+cutID {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	res, list := v.submit(page, "/find", url.Values{"q": {"4bf92f3577b34da6a3ce929d0e0e4736"}})
	if res.StatusCode != 200 || strings.Count(list, "by its trace") != 16 {
		t.Errorf("%d", res.StatusCode)
	}
	if _, none := v.submit(page, "/find", url.Values{"q": {"order-4712"}}); !strings.Contains(none, "Nothing is found") || strings.Contains(none, "order-4712") {
		t.Error("a key that is not found is in the page")
	}
}

// The overview tells what became of others: how many, what became known, by whom and why.
func TestEndedOnTheOverview(t *testing.T) {
	page := as(t, newFake(), "viewer").page("/")
	_, ended, _ := strings.Cut(page, "How others ended")
	for _, want := range []string{">12<", "it did not happen: free to run", "sue", "none at the bank", "it happened", "reconciler", `href="/keys/` + doneID + `"`} {
		if !strings.Contains(ended, want) {
			t.Errorf("%q is not there: %.900s", want, ended)
		}
	}
	if strings.Count(ended, "<a class=\"go\"") != 1 {
		t.Error("a group of several keys has no page")
	}
}
