package operate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stet-dev/stet"
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

func (s *service) entry(c *stet.Change) Entry {
	e := Entry{At: c.At.UTC(), Who: c.Note.Who, Action: c.Action(), ID: cmp.Or(c.Tag, s.tagOf(c.ID)),
		Scope: string(c.ID.Scope), Reason: c.Note.Why, Evidence: c.Note.Evidence, Notice: c.Note.Notice}
	if e.Job = jobOf(c.ID); e.Job != "" {
		e.ID = ""
	}
	if c.From != 0 {
		e.From, e.To = c.From.String(), c.To.String()
	}
	return e
}

// auditLooks is how many pages of the store one page of the audit trail is filtered from, at most.
const auditLooks = 10

// AuditQuery asks for a page of the audit trail. A zero field selects all.
type AuditQuery struct {
	ID     string     `json:"id,omitzero"` // of a record
	Scope  stet.Scope `json:"scope,omitzero"`
	Who    string     `json:"who,omitzero"`
	Action string     `json:"action,omitzero"`
	Notice string     `json:"notice,omitzero"` // the id of the job, or of the notice, that asked for it
	Since  time.Time  `json:"since,omitzero"`
	Until  time.Time  `json:"until,omitzero"`
	Page
}

// EntryList is a page of the audit trail. It may be short, or empty, before the last, whose
// NextCursor is "".
type EntryList struct {
	Entries    []Entry `json:"entries"`
	NextCursor string  `json:"next_cursor"`
}

// Audit lists the audit trail, the newest first, so that a page of the store whose last entry is too
// old is the last. It takes a viewer.
func (d *Desk) Audit(ctx context.Context, a AuditQuery) (list EntryList, err error) {
	if a.ID != "" && !isTag(a.ID) {
		err = BadParameter("id", "it is a record's id, k_ and 16 hex digits, as lists and logs show it")
	}
	if err = cmp.Or(err, a.check(), d.caller.within(&a.Scope)); err != nil {
		return list, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	q, further := stet.HistoryQuery{Tag: a.ID, Scope: a.Scope, Who: a.Who}, false
	changes, next, err := rows(d, a.Cursor, cmp.Or(a.Limit, stet.DefaultLimit), auditLooks,
		func(change *stet.Change) bool { return d.caller.Allows(change.ID.Scope) && a.selects(change) },
		func(after string, n int) ([]stet.Change, string, error) {
			q.After, q.Limit = after, n
			changes, next, err := d.engine.Operator().History(ctx, q)
			switch {
			case errors.Is(err, stet.ErrUnsupported):
				return nil, "", noHistory
			case err != nil && further: // the cursor is the store's own
				return nil, "", unavailable
			case err != nil:
				return nil, "", wrongCursor(after, func() error {
					_, _, err := d.engine.Operator().History(ctx, stet.HistoryQuery{Limit: 1})
					return err
				})
			case len(changes) > 0 && changes[len(changes)-1].At.Before(a.Since):
				next = ""
			}
			further = true
			return changes, next, nil
		})
	return EntryList{documents(changes, d.entry), next}, err
}

func (a *AuditQuery) selects(c *stet.Change) bool {
	return (c.Action() == a.Action || a.Action == "" && c.Action() != usable.Action) &&
		(a.Notice == "" || c.Note.Notice == a.Notice || jobOf(c.ID) == a.Notice) && !c.At.Before(a.Since) && (a.Until.IsZero() || c.At.Before(a.Until))
}

// mayReveal returns the problem of a caller who may not see what is not shown by default, or of the
// reason.
func (d *view) mayReveal(why string) error {
	return cmp.Or(d.caller.Takes(Operator), remark("reason", why, maxRemark))
}

// revealing adds to the audit trail that the caller is about to see what is not shown by default. If
// it returns an error nothing may be shown: the trail would not say who has seen it.
func (d *view) revealing(ctx context.Context, id stet.ID, what, why string) error {
	err := d.engine.Operator().Audit(ctx, id, stet.Note{Who: d.caller.Name, Action: actionReveal, Why: why, Evidence: what})
	log := []slog.Attr{slog.String("action", actionReveal), slog.String("who", d.caller.Name),
		slog.String("id", d.tagOf(id)), slog.String("scope", string(id.Scope))}
	if err != nil {
		log = append(log, slog.String("error", err.Error()))
		d.log.LogAttrs(ctx, slog.LevelWarn, "nothing was shown: the audit trail could not be written", log...)
		return untraced
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "audit", log...)
	return nil
}

// tagOf is the id that people know a record by; none has none.
func (s *service) tagOf(id stet.ID) string {
	if id == (stet.ID{}) {
		return ""
	}
	return s.engine.Tag(id)
}

var untraced = &Problem{Status: 503, Code: "store-unavailable", Title: "The audit trail could not be written", Detail: "Nothing is shown that leaves no trace. Try again later, or ask without reveal.", Retryable: true}

// Actions of entries that the states of a record do not tell: for [stet.Note].Action.
const (
	actionReveal       = "reveal"        // an operator was shown a key and what is stored under it
	actionNote         = "note"          // an operator wrote something down about a record
	actionLoginRefused = "login-refused" // a login at the admin listener was refused
)

// Erasure says whose entries are to be erased from the audit trail, by their scope, by scope and
// key, or by a record's id, and why.
type Erasure struct {
	Scope *string `json:"scope,omitzero"`
	Key   *string `json:"key,omitzero"` // in the scope, which may be ""
	ID    *string `json:"id,omitzero"`  // as lists show it; it does not find entries made with another pepper
	// Reason is kept in the audit trail. It must not name what is erased.
	Reason   string `json:"reason"`
	Evidence string `json:"evidence,omitzero"` // likewise; the trail has the number of entries in its place at the end
}

// Erased is what [Desk.Erase] did.
type Erased struct {
	Erased int `json:"erased"` // entries
}

// Erase takes out of the entries of the audit trail whom they are about. After an error a part may
// be done, and the same call goes on with the rest. It takes an admin.
func (d *Desk) Erase(ctx context.Context, e Erasure) (done Erased, err error) {
	c := Change{Reason: e.Reason, Evidence: e.Evidence}
	q, err := e.query()
	if err = cmp.Or(d.caller.Takes(Admin), c.check(), err, d.caller.reaches(&q)); err != nil {
		return done, err
	}
	if q.Erasable() != nil {
		return done, BadParameter("scope", "name whose entries are to be erased: a scope, a scope and a key, or a record's id")
	}
	done.Erased, err = d.engine.Operator().Erase(ctx, q, d.by(&c))
	switch {
	case errors.Is(err, stet.ErrQuoted):
		return done, BadParameter("reason", "it names what is to be erased, and stays in the audit trail; say it in other words, such as the number of the request")
	case errors.Is(err, stet.ErrUnsupported):
		return done, noHistory
	case err != nil:
		return done, unavailable
	}
	d.log.Info("the audit trail was erased in part", "who", d.caller.Name, "entries", done.Erased)
	return done, nil
}

// query selects the entries.
func (e *Erasure) query() (q stet.HistoryQuery, err error) {
	if e.Scope != nil {
		q.Scope = stet.Scope(*e.Scope)
	}
	switch {
	case e.Key != nil && e.Scope == nil:
		return q, BadParameter("scope", "a key needs its scope; in JSON it may be the empty text")
	case e.Key != nil && e.ID != nil:
		return q, BadParameter("id", "name a key or an id, not both")
	case e.Key != nil && *e.Key == "":
		return q, BadParameter("key", "it is no key")
	case e.Key != nil:
		q.ID, q.Scope = stet.ID{Scope: q.Scope, Key: stet.Key(*e.Key)}, ""
	case e.ID != nil && !isTag(*e.ID):
		return q, BadParameter("id", "it is no id such as lists show it (k_ and 16 hex digits)")
	case e.ID != nil:
		q.Tag = *e.ID
	}
	return q, nil
}

// reaches fills in the one scope that the caller may see, and says no to any other.
func (c Caller) reaches(q *stet.HistoryQuery) error {
	if q.ID != (stet.ID{}) {
		return c.within(&q.ID.Scope)
	}
	if err := c.within(&q.Scope); err != nil {
		return err
	}
	if c.Bound() && q.Scope == "" {
		return Forbidden(c.Name + " is bound to scopes: name the one.")
	}
	return nil
}
