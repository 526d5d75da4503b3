package admin

import (
	"cmp"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/reconcile"
)

// extend answers POST …/extend: a result is kept for so many seconds from now.
func (h *handler) extend(c *call) (any, error) {
	var n note
	var wanted float64
	err := h.read(c, n.with(map[string]any{"seconds": &wanted}))
	retain := time.Duration(math.Min(wanted, maxSeconds) * float64(time.Second))
	if err == nil && retain < time.Second {
		err = badParameter("seconds", "it is for how long from now the result is kept, at least 1")
	}
	return h.change(c, &n, err, func(rec *stet.Record) (stet.Head, error) {
		return h.engine.Operator().Extend(c.Context(), rec.ID, rec.Version, retain, n.by(c.who))
	})
}

// maxSeconds is a hundred years: longer than any result is of use, and within every store's
// calendar.
const maxSeconds = 100 * 365 * 24 * 3600

// annotate answers POST …/note: an entry in the audit trail that changes nothing.
func (h *handler) annotate(c *call) (any, error) {
	var n note
	var text string // what the reason is called where it stands alone
	err := h.read(c, n.with(map[string]any{"text": &text}))
	if err == nil && text != "" && n.reason != "" {
		err = badParameter("text", "text and reason are the same; send one")
	}
	n.reason = cmp.Or(n.reason, text)
	return h.change(c, &n, err, func(rec *stet.Record) (stet.Head, error) {
		entry := n.by(c.who)
		entry.Action = actionNote
		err := h.engine.Operator().Audit(c.Context(), rec.ID, entry)
		if errors.Is(err, stet.ErrUnsupported) {
			err = noHistory
		}
		return rec.Head, err
	})
}

var (
	keptLonger = &Problem{Status: 409, Code: "state-changed", Title: "The result is kept for longer already", Detail: "Nothing was changed: extend only lengthens. To end it earlier, delete it."}
	noProbe    = &Problem{Status: 409, Code: "no-probe", Title: "There is nothing to ask",
		Detail: "No probe is configured: set reconcile.probe.url to where the upstream says what it has done; or find out by hand, and resolve it."}
)

// ask answers POST …/probe: it asks now what became of an unknown record. The question is in the
// audit trail, whatever came of it.
func (h *handler) ask(c *call) (any, error) {
	var n note
	err := h.read(c, n.pinned(map[string]any{"reason": &n.reason}))
	switch {
	case err != nil:
		return nil, err
	case n.reason != "" && n.unreasoned() != nil:
		return nil, reasonRequired
	case h.Reconciler == nil:
		return nil, noProbe
	}
	rec, err := h.named(c)
	switch {
	case err != nil:
		return nil, err
	case n.stale(&rec.Head):
		return nil, stateChanged(&rec.Head)
	}
	a, err := h.Reconciler.Ask(c.Context(), &rec.Head, stet.Note{Who: c.who.name, Why: n.reason})
	if err != nil {
		return nil, h.unchanged(&a.Head, err)
	}
	doc := Probed{Record: h.detailed(c.Context(), &a.Head)}
	doc.Probe.Found, doc.Probe.Evidence = a.Finding.Effect.String(), a.Finding.Evidence
	if a.Ended {
		return doc, nil
	}
	if a.Finding.Effect == reconcile.Missing {
		doc.Probe.Settles = h.Reconciler.Plan().Outlook(&a.Head).SettledAt.UTC()
	}
	return doc, nil
}

// What is said about who looks at a record is stored with it: maxName and maxRemark bound it, in
// bytes.
const (
	maxName   = 100
	maxRemark = stet.MaxRemark
)

// snooze answers POST …/snooze: a record does not call for people for a while.
func (h *handler) snooze(c *call) (any, error) {
	var n note
	var seconds *float64
	var until *time.Time
	err := h.read(c, n.pinned(map[string]any{"reason": &n.reason, "for_s": &seconds, "until": &until}))
	switch {
	case err != nil:
	case (seconds == nil) == (until == nil):
		err = badParameter("for_s", "say for how many seconds, or send until with an instant; 0 seconds wake it")
	case seconds != nil && (*seconds < 0 || *seconds > stet.MaxSnooze.Seconds()):
		err = badParameter("for_s", "it is a number of seconds, up to "+strconv.Itoa(int(stet.MaxSnooze.Seconds())))
	case seconds != nil && *seconds == 0 && n.reason == "":
		n.reason = "woken"
	}
	err = cmp.Or(err, remark("reason", n.reason, maxRemark))
	return h.change(c, &n, err, func(rec *stet.Record) (stet.Head, error) {
		var d time.Duration
		if seconds != nil {
			d = time.Duration(*seconds * float64(time.Second))
		} else if d = until.Sub(rec.AsOf); d <= 0 || d > stet.MaxSnooze {
			return rec.Head, badParameter("until", "it is an instant ahead, at most "+strconv.Itoa(int(stet.MaxSnooze.Hours()))+" hours from now")
		}
		return h.engine.Operator().Snooze(c.Context(), rec.ID, rec.Version, d, n.by(c.who))
	})
}

// hand answers POST …/hand: a record is handed to a person.
func (h *handler) hand(c *call) (any, error) {
	var n note
	var to string
	err := h.read(c, n.pinned(map[string]any{"to": &to, "note": &n.reason}))
	if to = strings.TrimSpace(to); err == nil && to == "" {
		err = badParameter("to", "say who looks after it now")
	}
	err = cmp.Or(err, remark("to", to, maxName), remark("note", n.reason, maxRemark))
	if strings.TrimSpace(n.reason) == "" {
		n.reason = "handed to " + to
	}
	return h.change(c, &n, err, func(rec *stet.Record) (stet.Head, error) {
		return h.engine.Operator().Hand(c.Context(), rec.ID, rec.Version, to, n.by(c.who))
	})
}

// remark says what is wrong with a text that is stored with a record.
func remark(name, text string, most int) error {
	switch {
	case len(text) > most:
		return badParameter(name, "it is over "+strconv.Itoa(most)+" bytes")
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return badParameter(name, "it has a control character in it")
	}
	return nil
}
