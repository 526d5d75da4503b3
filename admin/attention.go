package admin

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stet-dev/stet"
)

// What is said about who looks at a record is stored with it: maxName and maxRemark bound it, in
// bytes.
const (
	maxName   = 100
	maxRemark = stet.MaxWords
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
