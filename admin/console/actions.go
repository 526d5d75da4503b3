package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet/operate"
)

// form is a page on which a user ends a record, or drops its answer.
type form struct {
	name string // of its template
	R    operate.Record
	Can  operate.Release // whether it can be freed
	In   url.Values      // what is in its fields
	fault
	// Of the late answer, after the user has looked at it.
	Seen     bool
	Headers  []string
	BodyNote string
}

// formTitles are the titles of the forms, by the names of their templates.
var formTitles = map[string]string{"happened": "It happened", "released": "It did not happen",
	"forget": "Forget the answer"}

// onForm has the form of the record that the path names: as it was sent, or with the record's
// basis. Where it was sent the record is not read: the basis says what the user decided on.
func onForm(name string, do func(*page, *form) error) pageFunc {
	return func(p *page) (err error) {
		f := &form{name: name, In: p.r.PostForm}
		if p.Reading() {
			if f.R, err = readRecord(p); err != nil {
				return err
			}
			f.In = url.Values{"if_basis": {f.R.Basis}}
		}
		return do(p, f)
	}
}

func drawForm(p *page, status int, f *form, n *note) (err error) {
	if f.R.ID == "" {
		if f.R, err = readRecord(p); err != nil {
			return err
		}
	}
	f.Can = mayRelease(&f.R)
	return p.render(status, f.name, view{Name: "key", Title: formTitles[f.name] + " · " + f.R.ID, Note: n, D: f})
}

// answerSubmit goes on after a form: with the record's page, which says what was done, or with the form as
// it was typed and what is wrong.
func answerSubmit(p *page, f *form, done string, err error) error {
	return p.answered(err, keyURL(nameRecord(p).Key)+"?done="+done, &f.fault, func(status int, n *note) error {
		if isChanged(err) {
			if f.R, err = readRecord(p); err != nil {
				return err
			}
			f.In.Set("if_basis", f.R.Basis)
			n.Text = describeChange(p, &f.R) + " What you typed is kept below."
			n.Link, n.More = keyURL(f.R.ID), "look at it again"
		}
		return drawForm(p, status, f, n)
	})
}

// describeChange says who changed a record last, and how it is now.
func describeChange(p *page, r *operate.Record) string {
	now := fmt.Sprintf("It is %s now, at version %d.", markOf(r).Word, r.Version)
	entries, err := readEntries(p, r.ID)
	if err != nil || len(entries) == 0 {
		return now
	}
	e := ofEntry(&entries[0])
	said := fmt.Sprintf("At %s %s %s", p.Clock(e.At), e.Bold, e.Text)
	if e.Meta != "" {
		said += " " + e.Meta + "."
	}
	return said + " " + now
}

// drawHappened draws GET /keys/{id}/happened.
func drawHappened(p *page, f *form) error {
	f.In.Set("use", "own")
	f.In.Set("status", "200")
	f.In.Set("type", "application/json")
	if a := f.R.Probe; a != nil && a.Found == "happened" {
		f.In.Set("evidence", a.Evidence)
		if a.Status != 0 {
			f.In.Set("status", strconv.Itoa(a.Status))
		}
	}
	if f.R.Late != nil {
		f.In.Set("use", "stored")
		f.In.Set("status", strconv.Itoa(f.R.Late.Status))
	}
	return drawForm(p, http.StatusOK, f, nil)
}

// resolveKey answers POST /keys/{id}/resolve: the key gets an answer.
func resolveKey(p *page, f *form) error {
	in := f.In.Get
	if in("look") != "" {
		return lookFirst(p, f)
	}
	res := operate.Resolution{Change: f.change()}
	if in("use") == "stored" {
		res.As = "late-answer"
		return sendResolution(p, f, res)
	}
	status, err := strconv.Atoi(strings.TrimSpace(in("status")))
	if err != nil || status < 200 || status > 599 {
		return answerSubmit(p, f, "", &problem{Status: http.StatusBadRequest, Parameter: "status",
			Detail: "It is the status that retries get, 200 to 599."})
	}
	if in("type") != "" && strings.TrimSpace(in("body")) == "" {
		return answerSubmit(p, f, "", &problem{Status: http.StatusBadRequest, Parameter: "body",
			Detail: "It is empty, and has a Content-Type. Type the body that retries get; or leave the Content-Type out, and they get the status alone."})
	}
	body := strings.ReplaceAll(in("body"), "\r\n", "\n")
	res.Outcome, res.Status, res.Text = "completed", &status, &body
	if in("type") != "" {
		res.Headers = map[string][]string{"Content-Type": {in("type")}}
	}
	return sendResolution(p, f, res)
}

func sendResolution(p *page, f *form, res operate.Resolution) error {
	_, err := p.api.Resolve(p.ctx(), nameRecord(p), res)
	return answerSubmit(p, f, "resolve", fit(err))
}

// lookFirst shows the stored answer in the form before it is given to retries.
func lookFirst(p *page, f *form) error {
	r, err := readRevealed(p, f.In.Get("reason"))
	if err != nil {
		return answerSubmit(p, f, "", err)
	}
	if r.Response != nil {
		shows := revealedOf(&r)
		f.In.Set("status", strconv.Itoa(r.Response.Status))
		f.In.Set("body", shows.Body)
		f.BodyNote, f.Headers, f.Seen = shows.Note, shows.Headers, true
	}
	return drawForm(p, http.StatusOK, f, nil)
}

// drawReleased draws GET /keys/{id}/released. An admin may say before it has settled that the provider
// cancelled it.
func drawReleased(p *page, f *form) error {
	if p.Is("cancelled", "1") && p.May("admin") {
		f.In.Set("cancelled", "1")
	}
	return drawForm(p, http.StatusOK, f, nil)
}

// releaseKey answers POST /keys/{id}/release: the key becomes free.
func releaseKey(p *page, f *form) error {
	_, err := p.api.Release(p.ctx(), nameRecord(p), operate.Resolution{Change: f.change(), Voided: f.In.Get("cancelled") == "1"})
	return answerSubmit(p, f, "release", fit(err))
}

// drawForget draws GET /keys/{id}/forget.
func drawForget(p *page, f *form) error { return drawForm(p, http.StatusOK, f, nil) }

// forgetKey answers POST /keys/{id}/forget: the stored answer is dropped. The id is typed, because a
// retry runs again after that.
func forgetKey(p *page, f *form) error {
	if strings.TrimSpace(f.In.Get("id")) != nameRecord(p).Key {
		return answerSubmit(p, f, "", &problem{Status: http.StatusBadRequest, Parameter: "id",
			Detail: "It is not the id of this key."})
	}
	err := fit(p.api.Delete(p.ctx(), nameRecord(p), f.change()))
	if err == nil {
		return p.render(http.StatusOK, "gone", view{Name: "key", Title: "Forgotten · " + nameRecord(p).Key, D: nameRecord(p).Key})
	}
	return answerSubmit(p, f, "", err)
}

// answerChange goes on after a change of the record that the path names: with its page.
func answerChange(p *page, err error, done string) error {
	return p.answered(fit(err), keyURL(p.r.PathValue("id"))+"?done="+done, nil, func(status int, n *note) error {
		if isChanged(err) {
			if r, err := readRecord(p); err == nil {
				n.Text = describeChange(p, &r) + " Do it again if it is still right."
			}
		}
		return drawKeyAs(p, status, n, nil)
	})
}

// probeKey answers POST /keys/{id}/probe.
func probeKey(p *page) error {
	_, err := p.api.Probe(p.ctx(), nameRecord(p), operate.Question{})
	return answerChange(p, err, "probe")
}

// doneNow reports whether what the address says was done is what the record is. An address alone
// does not make a page say that something happened.
func doneNow(done string, r *operate.Record) bool {
	switch done {
	case "resolve":
		return r.State == "completed" || r.State == "failed"
	case "release":
		return r.State == "retryable"
	case "snooze":
		return r.Snooze != nil
	case "hand":
		return r.With != nil
	}
	return true
}

// doneNotes are what a key's page says after a change.
var doneNotes = map[string][2]string{
	"resolve": {"Settled: it happened.", "Retries get this answer from now on, marked Stet-Reconciled: true."},
	"release": {"Settled: it did not happen.", "The key is free. The client's next retry runs, once."},
	"probe":   {"Asked again.", "What the API said is below."},
	"snooze":  {"Snoozed.", "It leaves the list and the alert until its time is over. Probes go on."},
	"wake":    {"Back in the list.", "The snooze is over."},
	"hand":    {"Handed over.", "Its page says who has it."},
	"note":    {"Written down.", "It is in the audit trail, and changes nothing."},
}

func noteDone(p *page) *note {
	said, known := doneNotes[p.r.URL.Query().Get("done")]
	if !known {
		return nil
	}
	return &note{Kind: "done", Icon: "done", Bold: said[0], Text: said[1],
		Link: "/audit?id=" + url.QueryEscape(p.r.PathValue("id")), More: "audit trail"}
}

// snoozeKey answers POST /keys/{id}/snooze: until an instant that was shown, or not any more.
func snoozeKey(p *page) error {
	doc := operate.Snoozing{Reason: p.Typed("reason"), Condition: readCondition(p)}
	if p.Typed("wake") != "" {
		doc.For = new(float64)
		_, err := p.api.Snooze(p.ctx(), nameRecord(p), doc)
		return answerChange(p, err, "wake")
	}
	var err error
	if doc.Until, err = time.Parse(time.RFC3339, p.Typed("until")); err != nil {
		return &problem{Status: http.StatusBadRequest, Title: "A snooze takes a time",
			Detail: "Choose one of the times. Nothing was changed."}
	}
	_, err = p.api.Snooze(p.ctx(), nameRecord(p), doc)
	return answerChange(p, err, "snooze")
}

// handKey answers POST /keys/{id}/hand.
func handKey(p *page) error {
	_, err := p.api.Hand(p.ctx(), nameRecord(p), operate.Handing{To: p.Typed("to"), Note: p.Typed("note"), Condition: readCondition(p)})
	return answerChange(p, err, "hand")
}

// readCondition is what the page showed that the decision was made on. A form without it is refused.
func readCondition(p *page) operate.Condition {
	return operate.Condition{Basis: operate.Basis(cmp.Or(p.Typed("if_basis"), notShown))}
}

// notShown is no condition that holds, and none that can be read.
const notShown = "not shown"

// change is what the form says of the change.
func (f *form) change() operate.Change {
	return operate.Change{Condition: operate.Condition{Basis: operate.Basis(cmp.Or(f.In.Get("if_basis"), notShown))},
		Reason: f.In.Get("reason"), Evidence: f.In.Get("evidence")}
}

// isChanged reports whether a change was refused because the record is not as it was shown.
func isChanged(err error) bool {
	bad, is := errors.AsType[*problem](err)
	return is && bad.Code == "state-changed"
}

// noteKey answers POST /keys/{id}/note.
func noteKey(p *page) error {
	_, err := p.api.Note(p.ctx(), nameRecord(p), operate.Remark{Reason: p.Typed("note")})
	return answerChange(p, err, "note")
}
