package main

import (
	"encoding/json"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/internal/tag"
)

type auditCmds struct {
	List auditListCmd `cmd:"" help:"List the changes of operators and background loops, newest first."`
}

type auditListCmd struct {
	source
	ID    string `placeholder:"k_…" help:"Only entries about this record."`
	Scope string `placeholder:"SCOPE" help:"Only this scope."`
	Who   string `placeholder:"NAME" help:"Only entries by this name, as the list shows it."`
	paged
}

var auditList = list{"/api/v1/audit", "entries", "AT\tWHO\tACTION\tID\tSCOPE\tFROM\tTO\tREASON\tEVIDENCE", func(doc json.RawMessage) (string, error) {
	var e admin.Entry
	err := json.Unmarshal(doc, &e)
	return cells(instant(e.At), visible(e.Who), e.Action, orDash(e.ID), visible(e.Scope), orDash(e.From), orDash(e.To),
		visible(e.Reason), visible(e.Evidence)), err
}}

func (c *auditListCmd) check(*world) error {
	if _, isID := tag.Parse(c.ID); c.ID != "" && !isID {
		return failf(exitUsage, "--id: %q is no record's id; it is k_ and 16 hex digits, as lists and logs show it", c.ID)
	}
	return nil
}

func (c *auditListCmd) Run(w *world, a *api) error {
	none := "no entries match"
	if c.ID+c.Scope+c.Who == "" {
		none = "no record was changed or revealed by an operator, nor changed by a background loop"
	}
	return auditList.print(w, a, query("id", c.ID, "scope", c.Scope, "who", c.Who), c.paged, none)
}
