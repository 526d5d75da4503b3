package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/outbox"
)

type outboxCmds struct {
	List    outboxListCmd    `cmd:"" help:"List messages."`
	Show    outboxShowCmd    `cmd:"" help:"Show one message with all its errors."`
	Retry   outboxRetryCmd   `cmd:"" help:"Let a dead or unknown message be delivered again."`
	Discard outboxDiscardCmd `cmd:"" help:"Give a dead or unknown message up."`
}

// desk is the outbox of an opened store, for its admin API; nil: it has none.
func desk(o *dsn.Opened, e *stet.Engine) admin.Outbox {
	if o.DB == nil {
		return nil
	}
	return &outbox.Desk{Box: outbox.New(o.Dialect), DB: o.DB, Engine: e}
}

// noSuchMessage puts the API's 404 into words about messages.
func noSuchMessage(err error) error {
	if err != nil && exitOf(err) == exitNotFound {
		return failf(exitNotFound, "there is no such message; stet outbox list shows what there is")
	}
	return err
}

type outboxListCmd struct {
	source
	State  string `placeholder:"STATE" complete:"pending,running,done,unknown,dead,discarded" enum:",pending,running,done,unknown,dead,discarded" default:"" help:"pending, running, done, unknown, dead or discarded."`
	Dead   bool   `help:"Only dead letters: dead and unknown messages, which wait for somebody."`
	Topic  string `placeholder:"TOPIC" help:"Only this topic."`
	Limit  int    `default:"100" help:"At most so many."`
	Cursor string `help:"Go on where a list with a next_cursor ended."`
	JSON   bool   `name:"json" help:"Print the API's document."`
}

func (c *outboxListCmd) check(*world) error {
	switch {
	case c.Limit < 1:
		return failf(exitUsage, "--limit is %d; at least one message", c.Limit)
	case c.Dead && c.State != "":
		return failf(exitUsage, "--dead is --state dead and --state unknown together; give one of the two")
	}
	return nil
}

// letters is the document of GET /api/v1/outbox.
type letters struct {
	Messages []json.RawMessage `json:"messages"`
	Next     string            `json:"next_cursor"`
}

func (c *outboxListCmd) Run(w *world) error {
	a, err := c.open(w)
	if err != nil {
		return err
	}
	defer a.close()
	all := letters{Messages: []json.RawMessage{}, Next: c.Cursor}
	for {
		q := url.Values{"limit": {strconv.Itoa(min(c.Limit-len(all.Messages), stet.MaxLimit))}}
		for name, v := range map[string]string{"state": c.State, "topic": c.Topic, "cursor": all.Next} {
			if v != "" {
				q.Set(name, v)
			}
		}
		if c.Dead {
			q.Set("dead", "1")
		}
		var page letters
		if err := a.get(w.ctx, "/api/v1/outbox?"+q.Encode(), &page); err != nil {
			return err
		}
		all.Messages, all.Next = append(all.Messages, page.Messages...), page.Next
		if len(all.Messages) >= c.Limit || page.Next == "" {
			break
		}
	}
	if c.JSON {
		return writeJSON(w.stdout, all)
	}
	return all.table(w)
}

func (l *letters) table(w *world) error {
	if len(l.Messages) == 0 {
		fmt.Fprintln(w.stderr, "no messages match")
		return nil
	}
	t := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tATTEMPT\tCREATED\tDUE\tTOPIC\tORDER KEY\tLAST ERROR")
	for _, doc := range l.Messages {
		var m admin.Message
		if err := json.Unmarshal(doc, &m); err != nil {
			return fmt.Errorf("a message cannot be read: %w", err)
		}
		last := ""
		if n := len(m.Errors); n > 0 {
			last = m.Errors[n-1].Error
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", m.ID, m.State, m.Attempt, instant(m.CreatedAt), instant(m.DueAt),
			visible(m.Topic), visible(m.OrderKey), visible(last))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if l.Next != "" {
		fmt.Fprintf(w.stderr, "there are more: --cursor %s\n", l.Next)
	}
	return nil
}

type outboxShowCmd struct {
	source
	ID     int64 `arg:"" help:"The message's number."`
	Reveal bool  `help:"Show the record's key, the payload and the meta data too; that is kept in the audit trail."`
	JSON   bool  `name:"json" help:"Print the API's document."`
}

func (c *outboxShowCmd) Run(w *world) error {
	a, err := c.open(w)
	if err != nil {
		return err
	}
	defer a.close()
	path := "/api/v1/outbox/" + strconv.FormatInt(c.ID, 10)
	if c.Reveal {
		path += "?reveal=1"
	}
	var doc json.RawMessage
	if err := a.get(w.ctx, path, &doc); err != nil {
		return noSuchMessage(err)
	}
	if c.JSON {
		return writeJSON(w.stdout, doc)
	}
	var m admin.Message
	if err := json.Unmarshal(doc, &m); err != nil {
		return fmt.Errorf("the message cannot be read: %w", err)
	}
	return showMessage(w.stdout, &m)
}

func showMessage(out io.Writer, m *admin.Message) error {
	meta := ""
	if len(m.Meta) > 0 {
		b, err := json.Marshal(m.Meta)
		if err != nil {
			return err
		}
		meta = string(b)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, l := range []struct{ name, value string }{
		{"id", strconv.FormatInt(m.ID, 10)}, {"state", string(m.State)}, {"topic", m.Topic}, {"name", m.Name}, {"record", m.Record}, {"scope", m.Scope}, {"key", m.Key},
		{"order key", m.OrderKey}, {"attempt", number(m.Attempt)}, {"downstream key", m.DownstreamKey}, {"downstream id", m.DownstreamID},
		{"payload bytes", number(m.PayloadBytes)}, {"payload", string(m.Payload)}, {"meta", meta}, {"damage", m.Damage},
		{"created", instant(m.CreatedAt)}, {"updated", instant(m.UpdatedAt)}, {"due", instant(m.DueAt)},
	} {
		if l.value != "" && l.value != "-" {
			fmt.Fprintf(t, "%s\t%s\n", l.name, visible(l.value))
		}
	}
	for _, f := range m.Errors {
		fmt.Fprintf(t, "attempt %d\t%s  %s\n", f.Attempt, instant(f.At), visible(f.Error))
	}
	return t.Flush()
}

type outboxRetryCmd struct {
	source
	change
	ID int64 `arg:"" help:"The message's number."`
}

func (c *outboxRetryCmd) Run(w *world) error { return c.settle(w, &c.source, c.ID, "retry") }

type outboxDiscardCmd struct {
	source
	change
	ID int64 `arg:"" help:"The message's number."`
}

func (c *outboxDiscardCmd) Run(w *world) error { return c.settle(w, &c.source, c.ID, "discard") }

// settle asks, and has the admin API settle a message.
func (c *change) settle(w *world, s *source, id int64, how string) error {
	if err := c.sure(w, fmt.Sprintf("%s message %d", how, id)); err != nil {
		return err
	}
	a, err := s.open(w)
	if err != nil {
		return err
	}
	defer a.close()
	path := fmt.Sprintf("/api/v1/outbox/%d/%s", id, how)
	if err := a.do(w.ctx, http.MethodPost, path, sent{Reason: c.Reason}, nil); err != nil {
		return noSuchMessage(err)
	}
	return c.done(w, 1)
}
