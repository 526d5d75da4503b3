package console

import (
	"net/http"
	"time"

	"github.com/stet-dev/stet/admin"
)

// snooze answers POST /keys/{id}/snooze: until an instant that was shown, or not any more.
func (p *page) snooze() error {
	doc := admin.Snoozing{Reason: p.Typed("reason"), Basis: p.Typed("if_basis")}
	if p.Typed("wake") != "" {
		doc.For = new(float64)
		return p.tell("snooze", doc, "wake")
	}
	var err error
	if doc.Until, err = time.Parse(time.RFC3339, p.Typed("until")); err != nil {
		return &problem{Status: http.StatusBadRequest, Title: "A snooze takes a time",
			Detail: "Choose one of the times. Nothing was changed."}
	}
	return p.tell("snooze", doc, "snooze")
}

// choice is an instant until which keys can be snoozed.
type choice struct{ Until, Label string }

// Quiet is until when keys can be snoozed. The last choice is nine in the morning.
func (p *page) Quiet() []choice {
	in := func(d time.Duration, word string) choice {
		t := p.Now.Add(d)
		return choice{t.Format(time.RFC3339), t.Format("15:04") + " (" + word + ")"}
	}
	morning := time.Date(p.Now.Year(), p.Now.Month(), p.Now.Day(), 9, 0, 0, 0, time.UTC)
	if !morning.After(p.Now) {
		morning = morning.AddDate(0, 0, 1)
	}
	return []choice{in(30*time.Minute, "30 min"), in(time.Hour, "1 h"), in(4*time.Hour, "4 h"),
		{morning.Format(time.RFC3339), morning.Format("Mon 15:04")}}
}

// hand answers POST /keys/{id}/hand.
func (p *page) hand() error {
	return p.tell("hand", admin.Handing{To: p.Typed("to"), Note: p.Typed("note"),
		Basis: p.Typed("if_basis")}, "hand")
}

// annotate answers POST /keys/{id}/note.
func (p *page) annotate() error {
	return p.tell("note", map[string]any{"reason": p.Typed("note")}, "note")
}
