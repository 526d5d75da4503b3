package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stet-dev/stet/operate"
)

// keyView is the page of one record.
type keyView struct {
	R        operate.Record
	Kept     bool   // its answer is stored, and not only the status of it
	Since    string // how long it is unknown
	Release  operate.Release
	Past     []event
	NoAudit  string // why the audit trail is not there
	Curl     string
	Revealed *revealed
}

// revealed is what is hidden by default, as an operator with a reason sees it.
type revealed struct {
	Key     string
	Status  int
	Headers []string
	Body    string
	Note    string // what is said of the body
}

// drawKey draws GET /keys/{id}.
func drawKey(p *page) error { return drawKeyAs(p, http.StatusOK, noteDone(p), nil) }

// redirectKey answers GET /keys/{scope}/{id}: an id needs no scope.
func redirectKey(p *page) error {
	r, err := tidied(p.api.Record(p.ctx(), operate.Name{Scope: p.r.PathValue("scope"), Key: p.r.PathValue("id")}))
	if err != nil {
		return err
	}
	return p.to(keyURL(r.ID))
}

// nameRecord is the record that the path names.
func nameRecord(p *page) operate.Name { return operate.Name{Key: p.r.PathValue("id")} }

// readRecord reads the record that the path names.
func readRecord(p *page) (r operate.Record, err error) {
	r, err = tidied(p.api.Record(p.ctx(), nameRecord(p)))
	if bad, is := errors.AsType[*problem](err); is && bad.Code == noKey.Code {
		err = noKey
	}
	return r, err
}

var noKey = &problem{Status: http.StatusNotFound, Code: "not-found", Title: "There is no such key",
	Detail: "It was removed when its time was over, or its id was made with another pepper, or it is out of your reach."}

// drawRemoved draws what the audit trail has of a key that is no more, if it has something.
func drawRemoved(p *page) error {
	id := p.r.PathValue("id")
	entries, err := readEntries(p, id)
	if err != nil || len(entries) == 0 {
		return noKey
	}
	var past []event
	for i := range entries {
		past = append(past, ofEntry(&entries[i]))
	}
	return p.render(http.StatusOK, "removed", view{Name: "keys", Title: "Removed · " + shown(id), D: past})
}

// drawKeyAs draws the page of the record that the path names.
func drawKeyAs(p *page, status int, n *note, shows *revealed) error {
	r, err := readRecord(p)
	if errors.Is(err, noKey) && p.Reading() {
		return drawRemoved(p)
	}
	if err != nil {
		return err
	}
	if n != nil && n.Kind == "done" && !doneNow(p.r.URL.Query().Get("done"), &r) {
		n = nil
	}
	d := keyView{R: r, Kept: r.Outlook.Client.Code != "result-not-retained", Release: mayRelease(&r), Curl: writeCurl(p, &r),
		Revealed: shows}
	word := markOf(&r).Word
	if r.State == "unknown" {
		d.Since = p.Age(r.UnknownSince)
		word += " for " + d.Since
	}
	entries, err := readEntries(p, r.ID)
	if bad, is := errors.AsType[*problem](err); is {
		d.NoAudit = bad.Detail
	} else if err != nil {
		return err
	}
	d.Past = timeline(&r, entries)
	v := view{Name: "key", Title: strings.TrimSpace(word + " · " + r.ID), Note: n, D: d}
	if shows == nil && (r.State == "unknown" || r.State == "running") {
		v.Live = 5
	}
	return p.render(status, "key", v)
}

// mayRelease is the ruling of the API on whether "it did not" is offered.
func mayRelease(r *operate.Record) operate.Release {
	if a := r.Outlook.Release; a != nil {
		return *a
	}
	return operate.Release{Why: "It is " + markOf(r).Word + "."}
}

// readEntries are what the audit trail has of a record, newest first.
func readEntries(p *page, id string) ([]operate.Entry, error) {
	list, err := tidied(p.api.Audit(p.ctx(), operate.AuditQuery{ID: id, Page: operate.Page{Limit: 100}}))
	return list.Entries, err
}

// writeCurl is the probe of a record as a line for a shell, or empty. It has no key in it. Everything
// else that comes from a request is percent-encoded, and quoted as the rest is.
func writeCurl(p *page, r *operate.Record) string {
	if p.console.ProbeURL == "" {
		return ""
	}
	const keyHere, downstreamHere = "\x00", "\x01"
	at := strings.NewReplacer("{key}", keyHere, "{downstream_key}", downstreamHere, "{scope}", encoded(r.Scope),
		"{path}", encoded(r.Path)).
		Replace(p.console.ProbeURL)
	at = "'" + strings.ReplaceAll(at, "'", `'\''`) + "'"
	at = strings.NewReplacer(keyHere, `'"$KEY"'`, downstreamHere, `'"$DOWNSTREAM_KEY"'`).Replace(at)
	line := "curl -sSi "
	if m := p.console.ProbeMethod; m != http.MethodGet {
		line += "-X " + encoded(m) + " "
	}
	return line + strings.ReplaceAll(at, `''`, "")
}

// encoded leaves only those characters of s as they are that mean nothing in any part of a URL.
func encoded(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// maxBodyShown is how much of a response is shown, in bytes.
const maxBodyShown = 64 << 10

// revealKey answers POST /keys/{id}/reveal: the page with what is hidden by default. The reason is in
// the audit trail before anything is shown.
func revealKey(p *page) error {
	r, err := readRevealed(p, p.r.PostForm.Get("reason"))
	if bad, is := errors.AsType[*problem](err); is {
		return drawKeyAs(p, bad.Status, failed(bad), nil)
	} else if err != nil {
		return err
	}
	return drawKeyAs(p, http.StatusOK, nil, revealedOf(&r))
}

// readRevealed fetches the record with what is hidden by default.
func readRevealed(p *page, reason string) (r operate.Record, err error) {
	if strings.TrimSpace(reason) == "" {
		return r, &problem{Status: http.StatusBadRequest, Code: "reason-required", Title: "Looking takes a reason",
			Detail: "Say why you look. It is kept in the audit trail.", Parameter: "reason"}
	}
	return tidied(p.api.Reveal(p.ctx(), nameRecord(p), reason))
}

func revealedOf(r *operate.Record) *revealed {
	out := &revealed{Key: r.Key}
	if r.Response == nil {
		return out
	}
	out.Status = r.Response.Status
	for name, values := range r.Response.Headers {
		for _, v := range values {
			out.Headers = append(out.Headers, shown(name)+": "+shown(v))
		}
	}
	slices.Sort(out.Headers)
	out.Body, out.Note = bodyText(r.Response.Body)
	return out
}

// bodyText is a body as text, and what has to be said of it.
func bodyText(body []byte) (text, said string) {
	size := sizeOf(int64(len(body)))
	if text = start(string(body), maxBodyShown); len(text) < len(body) {
		said = "These are the first 64 kB of " + size + "."
	}
	if !utf8.ValidString(text) {
		return "", "It is no text: " + size + ". Fetch them with stet keys show --reveal --json."
	}
	return visible(text), said
}

// visible replaces what cannot be seen, and leaves the length as it is.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) && r != '\r' {
			return '\uFFFD'
		}
		return r
	}, s)
}

// failed is the note of a change that the API refused.
func failed(bad *problem) *note {
	n := &note{Kind: "dead", Icon: "failed", Bold: "Not changed: " + lower(bad.Title) + ".", Text: bad.Detail}
	switch bad.Code {
	case "state-changed":
		n.Kind, n.Icon, n.Bold = "unknown", "differs", "Not changed: it was changed meanwhile."
	case "not-settled":
		n.Kind, n.Icon, n.Bold = "unknown", "clock", "Not changed: it has not settled."
		n.Text = "The request may still be on its way to the API, until " + bad.Until.UTC().Format("15:04:05") + "."
	case "probe-failed":
		n.Bold, n.Kind = "The API gave no answer.", "unknown"
	case "no-probe":
		n.Bold, n.Kind = "There is nothing to ask.", "unknown"
	}
	if bad.Code != "" && bad.Status != http.StatusBadRequest {
		n.Link, n.More = "/problems/"+bad.Code, "what "+bad.Code+" means"
	}
	return n
}

func lower(s string) string {
	n := min(1, len(s))
	return strings.ToLower(s[:n]) + s[n:]
}
