package admin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/internal/usable"
)

// Entry is a line of the audit trail. Of an entry that is about no record, id, scope, from and to
// are empty. One about a job has its id in job, and none of a record.
type Entry struct {
	At       time.Time `json:"at"`
	Who      string    `json:"who"`
	Action   string    `json:"action"` // see [stet.Change.Action]
	ID       string    `json:"id"`
	Job      string    `json:"job,omitzero"` // for GET /api/v1/bulk/{job}
	Scope    string    `json:"scope"`
	From     string    `json:"from"`
	To       string    `json:"to"`
	Reason   string    `json:"reason"`
	Evidence string    `json:"evidence,omitzero"`
	Notice   string    `json:"notice,omitzero"` // the webhook-id of the notice that asked for it, or the id of the job
}

func (h *handler) entry(c *stet.Change) Entry {
	e := Entry{At: c.At.UTC(), Who: c.Note.Who, Action: c.Action(), ID: cmp.Or(c.Tag, h.tagOf(c.ID)),
		Scope: string(c.ID.Scope), Reason: c.Note.Why, Evidence: c.Note.Evidence, Notice: c.Note.Notice}
	if e.Job = bulk.JobOf(c.ID); e.Job != "" {
		e.ID = ""
	}
	if c.From != 0 {
		e.From, e.To = c.From.String(), c.To.String()
	}
	return e
}

// auditLooks is how many pages of the store one page of the audit trail is filtered from, at most.
const auditLooks = 10

// auditFilter is what the audit trail is asked for. The store knows of the first part alone.
type auditFilter struct {
	stet.HistoryQuery
	action       string
	notice       string // or a job's id, also of entries about the job itself
	since, until time.Time
}

// audit answers GET /api/v1/audit. A page may be short, or empty, before the last. The newest come
// first, so that a page of the store whose last is too old is the last.
func (h *handler) audit(c *call) (any, error) {
	var f auditFilter
	if err := cmp.Or(f.parameters().read(c.URL), c.who.within(&f.Scope)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.Context(), listTimeout)
	defer cancel()
	further := false
	changes, next, err := rows(h, c.who, f.After, cmp.Or(f.Limit, stet.DefaultLimit), auditLooks,
		func(change *stet.Change) bool { return c.who.allows(change.ID.Scope) && f.selects(change) },
		func(after string, n int) ([]stet.Change, string, error) {
			f.After, f.Limit = after, n
			changes, next, err := h.engine.Operator().History(ctx, f.HistoryQuery)
			switch {
			case errors.Is(err, stet.ErrUnsupported):
				return nil, "", noHistory
			case err != nil && further: // the cursor is the store's own
				return nil, "", unavailable
			case err != nil:
				return nil, "", wrongCursor(after, func() error {
					_, _, err := h.engine.Operator().History(ctx, stet.HistoryQuery{Limit: 1})
					return err
				})
			case len(changes) > 0 && changes[len(changes)-1].At.Before(f.since):
				next = ""
			}
			further = true
			return changes, next, nil
		})
	if err != nil {
		return nil, err
	}
	return paged("entries", changes, next, h.entry), nil
}

func (f *auditFilter) selects(c *stet.Change) bool {
	return (c.Action() == f.action || f.action == "" && c.Action() != usable.Action) &&
		(f.notice == "" || c.Note.Notice == f.notice || bulk.JobOf(c.ID) == f.notice) && !c.At.Before(f.since) && (f.until.IsZero() || c.At.Before(f.until))
}

func (f *auditFilter) parameters() parameters {
	id := func(v string) error {
		if f.Tag = v; !isTag(v) {
			return errors.New("it is a record's id, k_ and 16 hex digits, as lists and logs show it")
		}
		return nil
	}
	return parameters{{"id", id}, {"scope", verbatim(&f.Scope)}, {"who", verbatim(&f.Who)},
		{"action", verbatim(&f.action)}, {"notice", verbatim(&f.notice)}, {"since", instant(&f.since)},
		{"until", instant(&f.until)}, {"cursor", verbatim(&f.After)}, {"limit", upTo(stet.MaxLimit, &f.Limit)}}
}

// revealing adds to the audit trail that the caller is about to see what is not shown by default.
// If it returns an error nothing may be shown: the trail would not say who has seen it.
func (h *handler) revealing(c *call, id stet.ID, what, why string) error {
	err := h.engine.Operator().Audit(c.Context(), id, stet.Note{Who: c.who.name, Action: actionReveal, Why: why, Evidence: what})
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

var untraced = &Problem{Status: 503, Code: "store-unavailable", Title: "The audit trail could not be written", Detail: "Nothing is shown that leaves no trace. Try again later, or ask without reveal.", Retryable: true}

// Actions of entries that the states of a record do not tell: for [stet.Note].Action.
const (
	actionReveal       = "reveal"        // an operator was shown a key and what is stored under it
	actionNote         = "note"          // an operator wrote something down about a record
	actionLoginRefused = "login-refused" // a login at the admin listener was refused
)
