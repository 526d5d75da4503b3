package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tag"
)

type auditCmds struct {
	List auditListCmd `cmd:"" help:"List what people and keepers did, newest first."`
}

type auditListCmd struct {
	source
	ID     string `placeholder:"k_…" help:"Only what is about this record."`
	Scope  string `placeholder:"SCOPE" help:"Only this scope."`
	Who    string `placeholder:"NAME" help:"Only what this one did, as the list shows it."`
	Limit  int    `default:"100" help:"At most so many."`
	Cursor string `help:"Go on where a list with a next_cursor ended."`
	JSON   bool   `name:"json" help:"Print the API's document."`
}

// trail is the document of GET /api/v1/audit.
type trail struct {
	Entries []json.RawMessage `json:"entries"`
	Next    string            `json:"next_cursor"`
}

func (c *auditListCmd) check(*world) error {
	switch _, isID := tag.Parse(c.ID); {
	case c.Limit < 1:
		return failf(exitUsage, "--limit is %d; at least one entry", c.Limit)
	case c.ID != "" && !isID:
		return failf(exitUsage, "--id: %q is no record's id; it is k_ and 16 hex digits, as lists and logs show it", c.ID)
	}
	return nil
}

func (c *auditListCmd) Run(w *world) error {
	a, err := c.open(w)
	if err != nil {
		return err
	}
	defer a.close()
	all := trail{Entries: []json.RawMessage{}, Next: c.Cursor}
	for {
		q := url.Values{"limit": {strconv.Itoa(min(c.Limit-len(all.Entries), stet.MaxLimit))}}
		for name, v := range map[string]string{"id": c.ID, "scope": c.Scope, "who": c.Who, "cursor": all.Next} {
			if v != "" {
				q.Set(name, v)
			}
		}
		var page trail
		if err := a.get(w.ctx, "/api/v1/audit?"+q.Encode(), &page); err != nil {
			return err
		}
		all.Entries, all.Next = append(all.Entries, page.Entries...), page.Next
		if len(all.Entries) >= c.Limit || page.Next == "" {
			break
		}
	}
	if c.JSON {
		return writeJSON(w.stdout, all)
	}
	return all.table(w, c.ID+c.Scope+c.Who != "")
}

func (l *trail) table(w *world, filtered bool) error {
	switch {
	case len(l.Entries) == 0 && filtered:
		fmt.Fprintln(w.stderr, "no entries match")
		return nil
	case len(l.Entries) == 0:
		fmt.Fprintln(w.stderr, "nothing was changed or revealed by hand, nor changed by a keeper")
		return nil
	}
	t := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AT\tWHO\tACTION\tID\tSCOPE\tFROM\tTO\tREASON\tEVIDENCE")
	for _, doc := range l.Entries {
		var e struct {
			At                                                 time.Time
			Who, Action, ID, Scope, From, To, Reason, Evidence string
		}
		if err := json.Unmarshal(doc, &e); err != nil {
			return fmt.Errorf("an entry cannot be read: %w", err)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", instant(e.At), visible(e.Who), e.Action, orDash(e.ID), visible(e.Scope),
			orDash(e.From), orDash(e.To), visible(e.Reason), visible(e.Evidence))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if l.Next != "" {
		fmt.Fprintf(w.stderr, "there are more: --cursor %s\n", l.Next)
	}
	return nil
}
