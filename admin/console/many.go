package console

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet/operate"
)

// confirmView is the page before something is done with many keys: what will happen, to how many
// clients, and which keys are left out.
type confirmView struct {
	group
	Do     operate.Action
	Words  bulkWords
	Take   []operate.Record
	Left   []leftOut
	Asking int  // of the keys that are taken
	Unsure bool // there may be further ones that ask
	Last   time.Time
	Proofs []proof // of a release: what it stands on
	fault
}

// Further is how many keys the incident has beside those that a page can show.
func (d *confirmView) Further() int { return d.Count - len(d.Keys) }

// Command does the same with all keys of the incident.
func (d *confirmView) Command() string {
	verb := "bulk " + string(d.Do)
	if d.Do == operate.ActRelease {
		verb = "release"
	}
	return "stet keys " + verb + " --incident " + d.ID
}

// proof is why keys may be freed, and of how many that is the reason.
type proof struct {
	Why   string
	Count int
}

// leftOut is a key that is not changed with the others, and why.
type leftOut struct {
	R   operate.Record
	Why string
}

// bulkWords are what the page says of an action.
type bulkWords struct{ Title, Says, Button string }

// bulkActions are the actions that a job does with the keys of an incident.
var bulkActions = map[string]bulkWords{
	"release": {"It did not happen: free %s",
		"You say that these requests did not have their effect, and cannot have it any more.", "Free"},
	"resolve": {"It happened: give retries the answers of %s",
		"You say that these requests had their effect, as their late answers say, or their last probes.",
		"It happened: give retries the answers of"},
	"probe": {"Ask about %s", "The API is asked what became of each. What it says is on the key's page, " +
		"and ends it where it is a proof.", "Ask about"},
	"snooze": {"Snooze %s", "They leave the list and the alert until their time is over. Probes go on; " +
		"what they settle is settled.", "Snooze"},
	"hand": {"Hand %s over", "Their pages say who has them, and so does the audit trail.", "Hand over"},
}

var nonePicked = &problem{Status: http.StatusBadRequest, Title: "No key was picked",
	Detail: "Pick some, or use what is said of all of them. Nothing was changed."}

// answerMany answers GET /unknown/{incident}/{do} with a page of the keys of an incident, of all or of those
// that the address picks, and POST with the address of that page, so that going back to it asks for
// nothing to be sent again. Sent with the count typed, that page starts a job.
func answerMany(p *page) error {
	words, known := bulkActions[p.r.PathValue("do")]
	if !known {
		return noPage
	}
	g, err := readGroup(p, p.ctx())
	if err != nil {
		return drawEnded(p, err)
	}
	d := &confirmView{group: g, Do: operate.Action(p.r.PathValue("do")), Words: words}
	seen := p.r.PostForm["key"] // as seenAs names them
	ids := p.r.PostForm["id"]
	switch {
	case p.Reading():
		q := p.r.URL.Query()
		divideKeys(p, d, unpicked(q.Get("pick")), !q.Has("pick"))
		return drawConfirm(p, http.StatusOK, d, nil)
	case len(seen) > 0:
		for _, s := range seen {
			id, _, _ := strings.Cut(s, "@")
			ids = append(ids, id)
		}
		divideKeys(p, d, ids, false)
		return startJob(p, d, seen)
	}
	pick := picked(ids)
	if len(ids) == 0 || !slices.Equal(unpicked(pick), ids) {
		return nonePicked
	}
	return p.to(p.r.URL.EscapedPath() + "?pick=" + pick)
}

// idPrefix begins every id of a record. The rest is idLen hex digits.
const (
	idPrefix = "k_"
	idLen    = 16
)

// picked are ids for an address, in which 500 of them have to fit.
func picked(ids []string) string {
	raw, _ := hex.DecodeString(strings.ReplaceAll(strings.Join(ids, ""), idPrefix, "")) // what is none ends it
	return base64.RawURLEncoding.EncodeToString(raw)
}

// unpicked is the inverse of picked.
func unpicked(pick string) (ids []string) {
	raw, _ := base64.RawURLEncoding.DecodeString(pick)
	for id := range slices.Chunk(raw, idLen/2) {
		ids = append(ids, idPrefix+hex.EncodeToString(id))
	}
	return ids
}

// divideKeys decides which keys of the incident are taken: of all of them, or of those that were picked.
func divideKeys(p *page, d *confirmView, picked []string, all bool) {
	for i := range d.Keys {
		r := &d.Keys[i]
		if !all && !slices.Contains(picked, r.ID) {
			continue
		}
		if why := sayWhyNot(p, d.Do, r); why != "" {
			d.Left = append(d.Left, leftOut{*r, why})
			continue
		}
		d.Take = append(d.Take, *r)
		if d.Do == operate.ActRelease {
			d.prove(r.Outlook.Release.Why)
		}
		if a := r.Asking; a != nil {
			d.Unsure = d.Unsure || a.More
			if a.Count > 0 {
				d.Asking++
			}
			if a.LastAt.After(d.Last) {
				d.Last = a.LastAt
			}
		}
	}
}

// prove counts a reason why a key may be freed.
func (d *confirmView) prove(why string) {
	i := slices.IndexFunc(d.Proofs, func(p proof) bool { return p.Why == why })
	if i < 0 {
		i, d.Proofs = len(d.Proofs), append(d.Proofs, proof{Why: why})
	}
	d.Proofs[i].Count++
}

// sayWhyNot says why a key is left out; empty: it is not.
func sayWhyNot(p *page, do operate.Action, r *operate.Record) string {
	if r.State != "unknown" {
		return "It is " + markOf(r).Word + "."
	}
	switch do {
	case operate.ActRelease:
		if can := mayRelease(r); !can.Many {
			return can.Why
		}
	case operate.ActResolve:
		if r.Late == nil && (r.Probe == nil || r.Probe.Found != "happened" || r.Probe.Status == 0) {
			return "Nothing says what its answer is. Give it one on its page."
		}
	}
	return ""
}

func drawConfirm(p *page, status int, d *confirmView, n *note) error {
	title := fmt.Sprintf(d.Words.Title, plural(len(d.Take), "key", "keys"))
	return p.render(status, "confirm", view{Name: "unknown", Title: title, Note: n, D: d})
}

// startJob starts a job with the keys that the form names, in the versions that its page has
// shown. Where one of them has changed since, the page is shown again, without the count.
func startJob(p *page, d *confirmView, seen []string) error {
	o := operate.Order{Expect: len(d.Take), Reason: p.Typed("reason"), To: p.Typed("to"), Note: p.Typed("note")}
	o.Action = d.Do
	now := map[string]bool{}
	for _, r := range d.Take {
		o.IDs, now[seenAs(r)] = append(o.IDs, seenAs(r)), true
	}
	changed := 0
	for _, s := range seen {
		if !now[s] {
			changed++
		}
	}
	if changed > 0 {
		return drawConfirm(p, http.StatusConflict, d, &note{Kind: "unknown", Icon: "differs",
			Bold: "Not changed: " + plural(changed, "key has", "keys have") + " changed since you looked.",
			Text: "The list below is as it is now. Look at it again, and type its count."})
	}
	var err error
	if d.Do == operate.ActSnooze {
		o.Until, err = time.Parse(time.RFC3339, p.Typed("until"))
	}
	var started operate.Started
	switch {
	case strings.TrimSpace(p.Typed("count")) != strconv.Itoa(o.Expect):
		err = &problem{Status: http.StatusBadRequest, Parameter: "count",
			Detail: fmt.Sprintf("It is not %d.", o.Expect)}
	case err != nil:
		err = &problem{Status: http.StatusBadRequest, Parameter: "until", Detail: "Choose one of the times."}
	default:
		started, err = p.api.Start(p.ctx(), o)
	}
	return p.answered(fit(err), address("/jobs/%s", started.Job), &d.fault, func(status int, n *note) error {
		return drawConfirm(p, status, d, n)
	})
}

// seenAs is a key as it was seen, as a form and the API name it.
func seenAs(r operate.Record) string { return r.ID + "@" + r.Basis }
