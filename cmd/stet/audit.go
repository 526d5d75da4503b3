package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/stet-dev/stet"
)

type auditCmds struct {
	List auditListCmd `cmd:"" help:"List changes, newest first."`
}

type auditListCmd struct {
	source
	Limit  int    `default:"100" help:"At most so many."`
	Cursor string `help:"Go on where a list with a next_cursor ended."`
	JSON   bool   `name:"json" help:"Print the API's document."`
}

// trail is the document of GET /api/v1/audit.
type trail struct {
	Entries []json.RawMessage `json:"entries"`
	Next    string            `json:"next_cursor"`
}

func (c *auditListCmd) Run(w *world) error {
	if c.Limit < 1 {
		return failf(exitUsage, "--limit is %d; at least one entry", c.Limit)
	}
	a, err := c.open(w)
	if err != nil {
		return err
	}
	defer a.close()
	all := trail{Entries: []json.RawMessage{}, Next: c.Cursor}
	for {
		q := url.Values{"limit": {strconv.Itoa(min(c.Limit-len(all.Entries), stet.MaxLimit))}}
		if all.Next != "" {
			q.Set("cursor", all.Next)
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
	return all.table(w)
}

func (l *trail) table(w *world) error {
	if len(l.Entries) == 0 {
		fmt.Fprintln(w.stderr, "nothing was changed by hand or by a keeper")
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", instant(e.At), visible(e.Who), e.Action, e.ID, visible(e.Scope), e.From, e.To, visible(e.Reason), visible(e.Evidence))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if l.Next != "" {
		fmt.Fprintf(w.stderr, "there are more: --cursor %s\n", l.Next)
	}
	return nil
}
