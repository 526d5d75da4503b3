package admin

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/stet-dev/stet"
)

// Entry is a line of the audit trail. Of an entry that is about no record, id, scope, from and to are empty.
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
func (h *handler) audit(w http.ResponseWriter, r *http.Request, who principal) {
	var q stet.HistoryQuery
	bad := parameters(r.URL, func(name, v string) *problem { return setEntries(&q, name, v) })
	if bad != nil {
		bad.write(w)
		return
	}
	if bad := who.within(&q.Scope); bad != nil {
		bad.write(w)
		return
	}
	if q.Limit == 0 {
		q.Limit = stet.DefaultLimit
	}
	changes, next, bad := rows(h, who, q.After, q.Limit, func(c *stet.Change) stet.Scope { return c.ID.Scope },
		func(after string, n int) ([]stet.Change, string, *problem) {
			q.After, q.Limit = after, n
			changes, next, err := h.engine.Operator().History(r.Context(), q)
			switch {
			case errors.Is(err, stet.ErrUnsupported):
				return nil, "", &noHistory
			case err != nil && q.After != "":
				return nil, "", badParameter("cursor", "it is not from this store; start without one")
			case err != nil:
				return nil, "", &unavailable
			}
			return changes, next, nil
		})
	if bad != nil {
		bad.write(w)
		return
	}
	page := struct {
		Entries []Entry `json:"entries"`
		Next    string  `json:"next_cursor"`
	}{make([]Entry, 0, len(changes)), next}
	for i := range changes {
		page.Entries = append(page.Entries, h.entry(&changes[i]))
	}
	writeJSON(w, http.StatusOK, page)
}

func setEntries(q *stet.HistoryQuery, name, v string) *problem {
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

// revealing writes down that somebody is about to be shown what is not shown by default. With a problem nothing may be shown: nobody
// could read later who has seen it.
func (h *handler) revealing(r *http.Request, who principal, id stet.ID, what string) *problem {
	err := h.engine.Operator().Audit(r.Context(), id, stet.Note{Who: who.name, Action: actionReveal, Evidence: what})
	log := []slog.Attr{slog.String("action", actionReveal), slog.String("who", who.name), slog.String("id", h.tagOf(id)), slog.String("scope", string(id.Scope))}
	if err != nil {
		h.Log.LogAttrs(r.Context(), slog.LevelWarn, "nothing was shown: the audit trail could not be written", append(log, slog.String("error", err.Error()))...)
		return &untraced
	}
	h.Log.LogAttrs(r.Context(), slog.LevelInfo, "audit", log...)
	return nil
}

// tagOf is the id that people know a record by; none has none.
func (h *handler) tagOf(id stet.ID) string {
	if id == (stet.ID{}) {
		return ""
	}
	return h.engine.Tag(id)
}

var untraced = problem{Status: 503, Code: "store-unavailable", Title: "The audit trail could not be written", Detail: "Nothing is shown that leaves no trace. Try again later, or ask without reveal.", Retryable: true}

// Actions of entries that the states of a record do not tell: for [stet.Note].Action.
const (
	actionReveal       = "reveal"        // an operator was shown a key and what is stored under it
	actionNote         = "note"          // an operator wrote something down about a record
	actionLoginRefused = "login-refused" // a login at the admin listener was refused
	actionProbe        = "probe"         // the reconciler was told to ask again now
)
