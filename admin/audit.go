package admin

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/stet-dev/stet"
)

// Entry is a line of the audit trail. Of an entry that is about no record, id, scope, from and to
// are empty.
type Entry struct {
	At       time.Time `json:"at"`
	Who      string    `json:"who"`
	Action   string    `json:"action"` // see [stet.Change.Action]
	ID       string    `json:"id"`
	Scope    string    `json:"scope"`
	From     string    `json:"from"`
	To       string    `json:"to"`
	Reason   string    `json:"reason"`
	Evidence string    `json:"evidence,omitzero"`
	Notice   string    `json:"notice,omitzero"` // the webhook-id of the notice that asked for it
}

func (h *handler) entry(c *stet.Change) Entry {
	e := Entry{At: c.At.UTC(), Who: c.Note.Who, Action: c.Action(), ID: c.Tag, Scope: string(c.ID.Scope),
		Reason: c.Note.Why, Evidence: c.Note.Evidence, Notice: c.Note.Notice}
	if c.ID != (stet.ID{}) {
		e.ID = cmp.Or(c.Tag, h.engine.Tag(c.ID))
	}
	if c.From != 0 {
		e.From, e.To = c.From.String(), c.To.String()
	}
	return e
}

// audit answers GET /api/v1/audit. A page may be short, or empty, before the last.
func (h *handler) audit(c *call) (any, error) {
	var q stet.HistoryQuery
	if err := parameters(c.URL, func(name, v string) error { return setEntries(&q, name, v) }); err != nil {
		return nil, err
	}
	if err := c.who.within(&q.Scope); err != nil {
		return nil, err
	}
	changes, next, err := rows(h, c.who, q.After, cmp.Or(q.Limit, stet.DefaultLimit), func(c *stet.Change) stet.Scope { return c.ID.Scope },
		func(after string, n int) ([]stet.Change, string, error) {
			q.After, q.Limit = after, n
			changes, next, err := h.engine.Operator().History(c.Context(), q)
			switch {
			case errors.Is(err, stet.ErrUnsupported):
				return nil, "", noHistory
			case err != nil && q.After != "":
				return nil, "", badParameter("cursor", "it is not from this store; start without one")
			case err != nil:
				return nil, "", unavailable
			}
			return changes, next, nil
		})
	if err != nil {
		return nil, err
	}
	return paged("entries", changes, next, h.entry), nil
}

func setEntries(q *stet.HistoryQuery, name, v string) error {
	switch name {
	case "cursor":
		q.After = v
	case "id":
		if q.Tag = v; !isTag(v) {
			return badParameter(name, "it is a record's id, k_ and 16 hex digits, as lists and logs show it")
		}
	case "scope":
		q.Scope = stet.Scope(v)
	case "who":
		q.Who = v
	case "limit":
		return limitOf(v, &q.Limit)
	default:
		return badParameter(name, "there is no such parameter: id, scope, who, cursor, limit")
	}
	return nil
}

// revealing adds to the audit trail that the caller is about to see what is not shown by default.
// If it returns an error nothing may be shown: the trail would not say who has seen it.
func (h *handler) revealing(c *call, id stet.ID, what string) error {
	err := h.engine.Operator().Audit(c.Context(), id, stet.Note{Who: c.who.name, Action: actionReveal, Evidence: what})
	log := []slog.Attr{slog.String("action", actionReveal), slog.String("who", c.who.name),
		slog.String("id", h.tagOf(id)), slog.String("scope", string(id.Scope))}
	if err != nil {
		log = append(log, slog.String("error", err.Error()))
		h.Log.LogAttrs(c.Context(), slog.LevelWarn, "nothing was shown: the audit trail could not be written", log...)
		return untraced
	}
	h.Log.LogAttrs(c.Context(), slog.LevelInfo, "audit", log...)
	return nil
}

// tagOf is the id that people know a record by; none has none.
func (h *handler) tagOf(id stet.ID) string {
	if id == (stet.ID{}) {
		return ""
	}
	return h.engine.Tag(id)
}

var untraced = &problem{Status: 503, Code: "store-unavailable", Title: "The audit trail could not be written", Detail: "Nothing is shown that leaves no trace. Try again later, or ask without reveal.", Retryable: true}

// Actions of entries that the states of a record do not tell: for [stet.Note].Action.
const (
	actionReveal       = "reveal"        // an operator was shown a key and what is stored under it
	actionNote         = "note"          // an operator wrote something down about a record
	actionLoginRefused = "login-refused" // a login at the admin listener was refused
	actionProbe        = "probe"         // the reconciler was told to ask again now
)
