package main

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
)

type auditCmds struct {
	List   auditListCmd   `cmd:"" help:"List the changes of operators and background loops, newest first."`
	Export auditExportCmd `cmd:"" help:"Print all matching entries, one JSON document per line, newest first."`
	Erase  auditEraseCmd  `cmd:"" help:"Take out of the entries whom they are about, such as a customer who asked for it."`
}

// entries selects entries of the audit trail.
type entries struct {
	ID     string `placeholder:"k_…" help:"Only entries about this record."`
	Scope  string `placeholder:"SCOPE" help:"Only this scope."`
	Who    string `placeholder:"NAME" help:"Only entries by this name, as the list shows it."`
	Action string `placeholder:"ACTION" help:"Only entries of this action, such as release or reveal."`
	Notice string `placeholder:"ID" help:"Only entries of this job (bulk_…), or of a webhook's notice."`
	Since  moment `placeholder:"1d" help:"Only entries since this instant (2026-11-21T08:00:00Z), day, or time ago (12h)."`
	Until  moment `placeholder:"1h" help:"Only entries before this instant, day, or time ago."`
}

// check implements [checked].
func (e *entries) check(*world) error {
	return refuse(e.ID != "" && !isID(e.ID),
		"--id: %q is no record's id; it is k_ and 16 hex digits, as lists and logs show it", e.ID)
}

func (e *entries) query() operate.AuditQuery {
	return operate.AuditQuery{ID: e.ID, Scope: stet.Scope(e.Scope), Who: e.Who, Action: e.Action, Notice: e.Notice,
		Since: e.Since.Time, Until: e.Until.Time}
}

// moment is an instant that a flag names, or how long ago it is.
type moment struct{ time.Time }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (i *moment) UnmarshalText(text []byte) (err error) {
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if i.Time, err = time.Parse(form, string(text)); err == nil {
			return nil
		}
	}
	ago, err := span(string(text))
	if err != nil {
		return fmt.Errorf("%q is no instant such as 2026-11-21T08:00:00Z, no day such as 2026-11-21, and no time ago such as 12h or 1d", text)
	}
	i.Time = time.Now().Add(-ago)
	return nil
}

type auditListCmd struct {
	source
	entries
	paged
}

// check implements [checked].
func (c *auditListCmd) check(*world) error { return auditList.check(&c.printed) }

func (c *auditListCmd) Run(w *world, a *api) error {
	none := ifTrue(c.entries == (entries{}),
		"no record was changed or revealed by an operator, nor changed by a background loop")
	return auditList.print(w, a.Trail(c.query()), &c.paged, cmp.Or(none, "no entries match"))
}

type auditExportCmd struct {
	source
	entries
}

func (c *auditExportCmd) Run(w *world, a *api) error { return export(w, a, a.Trail(c.query()).Raw()) }

type auditEraseCmd struct {
	source
	change
	Key      string `arg:"" optional:"" help:"The key, without quotes, or the record's id (k_…). Without it, the entries of the whole scope."`
	Scope    string `placeholder:"SCOPE" help:"The scope; of a key it is default where none is given, and an id needs none."`
	Evidence string `placeholder:"TEXT" help:"What it rests on; it is kept in the audit trail."`
}

// check implements [checked].
func (c *auditEraseCmd) check(*world) error {
	return refuse(c.Key == "" && c.Scope == "", "name whose entries are to be erased: --scope SCOPE, KEY --scope SCOPE, or a record's id (k_…)")
}

func (c *auditEraseCmd) Run(w *world, a *api) error {
	e := operate.Erasure{Reason: c.Reason, Evidence: c.Evidence}
	if c.Scope != "" {
		e.Scope = &c.Scope
	}
	what := "of the scope " + strconv.Quote(c.Scope)
	if n := (named{c.Key, c.Scope}); n.byID() {
		e.ID, what = &c.Key, "of the record "+c.Key
	} else if c.Key != "" {
		e.Key, e.Scope, what = &c.Key, new(n.name().Scope), "of one key"
	}
	if err := c.sure(w, "take out of the audit trail whom the entries "+what+" are about; this cannot be undone"); err != nil {
		return err
	}
	done, err := a.Erase(w.ctx, e)
	if err != nil {
		return a.explainError(err)
	}
	return c.done(w, done.Erased)
}

var auditList = listOf[operate.Entry]("entries", 9, "at who action id scope from to reason evidence notice job", nil)
