package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet/operate"
)

// deadView is what nothing is tried for any more.
type deadView struct {
	Groups   []group
	Messages []operate.Message
	Waiting  []operate.Message // that are tried again, or wait
	NoOutbox string
	Keys     int
	Snoozed  int    // keys: those of them that are dead letters are on another page
	Dead     string // messages, of all pages
	Next     string // of the dead messages
}

var messageMarks = map[string]mark{
	"pending":   {"over", "over", "waits"},
	"running":   {"running", "running", "is sent"},
	"done":      {"done", "done", "done"},
	"unknown":   {"unknown", "unknown", "unknown"},
	"dead":      {"dead", "dead", "dead letter"},
	"discarded": {"over", "over", "given up"},
}

func messageMark(m operate.Message) mark {
	if m.State == "pending" && m.Attempt > 0 {
		return mark{"retry", "retry", "tries again"}
	}
	return marked(messageMarks, string(m.State))
}

// drawDead draws GET /dead.
func drawDead(p *page) error {
	ctx, cancel := p.glance()
	defer cancel()
	doc, err := tidied(p.api.Incidents(ctx, operate.IncidentQuery{}))
	if err != nil {
		return err
	}
	var d deadView
	for i := range doc.Incidents {
		in := &doc.Incidents[i]
		d.Snoozed += in.Snoozed
		if in.Dead == 0 {
			continue
		}
		d.Keys += in.Dead
		g := groupOf(p, in)
		g.Mark, g.Open = marks["dead"], true
		d.Groups = append(d.Groups, g)
	}
	if err := loadOpen(p, ctx, d.Groups, whole); err != nil {
		return err
	}
	for i := range d.Groups {
		keepDead(p, &d.Groups[i])
	}
	if err := readMessages(p, &d); err != nil {
		return err
	}
	v := view{Live: 5, Status: p.status()}
	unread := v.Unread() || v.Status.OutboxUnread
	d.Dead = v.count(unread, v.deadMessages())
	v.Title, v.D = v.count(unread, d.Keys+v.deadMessages())+" dead letters", d
	return p.render(http.StatusOK, "dead", v)
}

// keepDead leaves the dead letters of an incident, and what is said of them.
func keepDead(p *page, g *group) {
	g.Count, g.Snoozed = g.Dead, 0
	if !g.Loaded {
		return
	}
	keys := slices.DeleteFunc(g.Keys, func(r operate.Record) bool { return !r.Escalated || r.Snooze != nil })
	var left operate.Incident
	for i := range keys {
		left.Add(&keys[i])
	}
	g.Late, g.Asking, g.Probes, g.With = left.Late, left.Asking, left.Probes, left.With
	g.NextProbe, g.FreesAt = time.Time{}, time.Time{} // nothing is tried any more
	g.May, g.Alone, g.WhyNot = false, false, ""
	takeKeys(p, g, keys)
}

// readMessages fills in those of the outbox.
func readMessages(p *page, d *deadView) error {
	q := operate.MessageQuery{Dead: true}
	if err := readFilter(p, &q.Page); err != nil {
		return err
	}
	all := []operate.MessageQuery{q, {State: "running"}, {State: "pending"}}
	if q.Cursor != "" {
		all = all[:1]
	}
	for i, q := range all {
		q.Limit = maxLetters
		doc, err := tidied(p.api.Messages(p.ctx(), q))
		if bad, is := errors.AsType[*problem](err); is && bad.Status == http.StatusNotFound {
			d.NoOutbox = bad.Detail
			return nil
		}
		if err != nil {
			return err
		}
		if i == 0 {
			d.Messages, d.Next = doc.Messages, doc.NextCursor
		} else {
			d.Waiting = append(d.Waiting, doc.Messages...)
		}
	}
	return nil
}

// maxLetters is how many messages of each kind a page has.
const maxLetters = 50

// messageView is a message of the outbox.
type messageView struct {
	M        operate.Message
	Errors   []operate.MessageError
	Revealed bool
	Payload  string
	Note     string
	Ends     bool // it can be retried or given up
}

// drawMessage draws GET /outbox/{message}.
func drawMessage(p *page) error { return drawMessageAs(p, http.StatusOK, nil, false) }

// drawMessageAs draws the page of a message, and shows what is hidden by default if reveal is true.
func drawMessageAs(p *page, status int, n *note, reveal bool) error {
	m, err := tidied(readMessage(p, reveal))
	if err != nil {
		return err
	}
	d := messageView{M: m, Errors: m.Errors, Revealed: reveal, Ends: m.State == "dead" ||
		m.State == "unknown"}
	slices.Reverse(d.Errors)
	d.Payload, d.Note = bodyText(m.Payload)
	switch done := p.r.URL.Query().Get("done"); {
	case n == nil && done == "retry" && !d.Ends:
		n = &note{Kind: "done", Icon: "done", Bold: "It is delivered again.",
			Text: "It goes out with the downstream key that it had."}
	case n == nil && done == "confirm" && m.State == "done":
		n = &note{Kind: "done", Icon: "done", Bold: "Settled: it was delivered.", Text: "It is not sent again."}
	case n == nil && done == "discard" && m.State == "discarded":
		n = &note{Kind: "done", Icon: "done", Bold: "Given up.", Text: "It is not delivered any more."}
	}
	return p.render(status, "message", view{Name: "dead", Title: "Message " + p.r.PathValue("message"), Note: n, D: d})
}

func readMessage(p *page, reveal bool) (operate.Message, error) {
	id := p.r.PathValue("message")
	if reveal {
		return p.api.RevealMessage(p.ctx(), id, p.Typed("reason"))
	}
	return p.api.Message(p.ctx(), id)
}

// settleMessage answers POST /outbox/{message}/retry, …/confirm and …/discard.
func settleMessage(p *page) error {
	how := map[string]func(context.Context, string, operate.Settling) (operate.Message, error){"retry": p.api.Retry,
		"confirm": p.api.Confirm, "discard": p.api.Discard}[p.verb()]
	_, err := how(p.ctx(), p.r.PathValue("message"), operate.Settling{Reason: p.Typed("reason"),
		Version: operate.Version(cmp.Or(p.Typed("version"), notShown))})
	next := address("/outbox/%s", p.r.PathValue("message")) + "?done=" + p.verb()
	return p.answered(fit(err), next, nil, func(status int, n *note) error { return drawMessageAs(p, status, n, false) })
}

// revealMessage answers POST /outbox/{message}/reveal.
func revealMessage(p *page) error {
	if strings.TrimSpace(p.Typed("reason")) == "" {
		return drawMessageAs(p, http.StatusBadRequest, &note{Kind: "dead", Icon: "failed", Bold: "Looking takes a reason.",
			Text: "Say why you look. It is kept in the audit trail."}, false)
	}
	return drawMessageAs(p, http.StatusOK, nil, true)
}
