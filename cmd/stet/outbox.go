package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/outbox"
)

// outboxCmds work on the database itself: the gateway has no part in the outbox.
type outboxCmds struct {
	List    outboxListCmd    `cmd:"" help:"List messages."`
	Show    outboxShowCmd    `cmd:"" help:"Show one message with all its errors."`
	Retry   outboxRetryCmd   `cmd:"" help:"Let a dead or unknown message be delivered again."`
	Discard outboxDiscardCmd `cmd:"" help:"Give a dead or unknown message up."`
}

// boxFlag names a store that has an outbox.
type boxFlag struct{ storeFlag }

// check implements [checked].
func (f *boxFlag) check(*world) error {
	d, err := f.parse()
	if err == nil && d.Dialect() == "" {
		err = failf(exitUsage, "--store: %s has no outbox; SQL stores have one", d)
	}
	return err
}

// outbox calls f with the outbox of an SQL store.
func (f boxFlag) outbox(w *world, use func(m migration, box *outbox.Box) error) error {
	d, err := f.parse()
	if err != nil {
		return err
	}
	var refused error // of the message or the command, not of the store
	err = f.database(w, d, dsn.Look, func(m migration) error {
		if m.have < m.want {
			refused = failf(exitError, "the schema is version %d, and %d is needed; run stet migrate up %s", m.have, m.want, d.Flag())
			return nil
		}
		err := use(m, outbox.New(d.Dialect()))
		var status *statusError
		switch {
		case errors.Is(err, outbox.ErrNotFound):
			refused = failf(exitNotFound, "there is no such message; stet outbox list shows what there is")
		case errors.Is(err, outbox.ErrState), errors.As(err, &status):
			refused = err
		default:
			return err
		}
		return nil
	})
	if refused != nil {
		return refused
	}
	return err
}

// message is the document of a stored message. The record's key and the payload are shown on demand only.
type message struct {
	ID            int64             `json:"id"`
	State         outbox.State      `json:"state"`
	Topic         string            `json:"topic"`
	Name          string            `json:"name,omitempty"`
	Scope         string            `json:"scope,omitempty"`
	Key           string            `json:"key,omitempty"`
	OrderKey      string            `json:"order_key,omitempty"`
	Attempt       int               `json:"attempt"`
	DownstreamKey string            `json:"downstream_key"`
	DownstreamID  string            `json:"downstream_id,omitempty"`
	PayloadBytes  int               `json:"payload_bytes"`
	Payload       []byte            `json:"payload_b64,omitempty"`
	Meta          map[string]string `json:"meta,omitempty"`
	Errors        []messageError    `json:"errors"`
	CreatedAt     time.Time         `json:"created_at"`
	UpdatedAt     time.Time         `json:"updated_at"`
	DueAt         time.Time         `json:"due_at"`
}

type messageError struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Error   string    `json:"error"`
}

func newMessage(s outbox.Stored, reveal bool) message {
	m := message{ID: s.ID, State: s.State, Topic: s.Topic, Name: s.Name, Scope: string(s.Record.Scope), OrderKey: s.OrderKey, Attempt: s.Attempt,
		DownstreamKey: s.DownstreamKey, DownstreamID: s.DownstreamID, PayloadBytes: len(s.Payload), Errors: []messageError{},
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, DueAt: s.DueAt}
	if reveal {
		m.Key, m.Payload, m.Meta = string(s.Record.Key), s.Payload, s.Meta
	}
	for _, f := range s.Errors {
		m.Errors = append(m.Errors, messageError(f))
	}
	return m
}

type outboxListCmd struct {
	boxFlag
	State string `placeholder:"STATE" complete:"pending,running,done,unknown,dead,discarded" enum:",pending,running,done,unknown,dead,discarded" default:"" help:"pending, running, done, unknown, dead or discarded."`
	Topic string `placeholder:"TOPIC" help:"Only this topic."`
	After int64  `placeholder:"ID" help:"Only messages after this one."`
	Limit int    `default:"100" help:"At most so many."`
	JSON  bool   `name:"json" help:"Print a document."`
}

func (c *outboxListCmd) Run(w *world) error {
	if c.Limit < 1 {
		return failf(exitUsage, "--limit is %d; at least one message", c.Limit)
	}
	return c.outbox(w, func(m migration, box *outbox.Box) error {
		found, err := box.List(w.ctx, m.DB, outbox.Query{State: outbox.State(c.State), Topic: c.Topic, After: c.After, Limit: c.Limit})
		if err != nil {
			return err
		}
		all := make([]message, len(found))
		for i, s := range found {
			all[i] = newMessage(s, false)
		}
		if c.JSON {
			return writeJSON(w.stdout, map[string]any{"messages": all})
		}
		if len(all) == 0 {
			fmt.Fprintln(w.stderr, "no messages match")
			return nil
		}
		t := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ID\tSTATE\tATTEMPT\tCREATED\tDUE\tTOPIC\tORDER KEY\tLAST ERROR")
		for _, m := range all {
			last := ""
			if n := len(m.Errors); n > 0 {
				last = m.Errors[n-1].Error
			}
			fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", m.ID, m.State, m.Attempt, instant(m.CreatedAt), instant(m.DueAt),
				visible(m.Topic), visible(m.OrderKey), visible(last))
		}
		return t.Flush()
	})
}

type outboxShowCmd struct {
	boxFlag
	ID     int64 `arg:"" help:"The message's number."`
	Reveal bool  `help:"Show the record's key, the payload and the meta data too."`
	JSON   bool  `name:"json" help:"Print a document."`
}

func (c *outboxShowCmd) Run(w *world) error {
	return c.outbox(w, func(m migration, box *outbox.Box) error {
		found, err := box.Show(w.ctx, m.DB, c.ID)
		if err != nil {
			return err
		}
		doc := newMessage(found, c.Reveal)
		if c.JSON {
			return writeJSON(w.stdout, doc)
		}
		return doc.show(w.stdout)
	})
}

func (m *message) show(out io.Writer) error {
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
		{"id", fmt.Sprint(m.ID)}, {"state", string(m.State)}, {"topic", m.Topic}, {"name", m.Name}, {"scope", m.Scope}, {"key", m.Key},
		{"order key", m.OrderKey}, {"attempt", number(m.Attempt)}, {"downstream key", m.DownstreamKey}, {"downstream id", m.DownstreamID},
		{"payload bytes", number(m.PayloadBytes)}, {"payload", string(m.Payload)}, {"meta", meta},
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
	boxFlag
	change
	ID int64 `arg:"" help:"The message's number."`
}

func (c *outboxRetryCmd) Run(w *world) error {
	return c.outbox(w, func(m migration, box *outbox.Box) error {
		if err := c.sure(w, fmt.Sprintf("retry message %d", c.ID)); err != nil {
			return err
		}
		if err := box.Retry(w.ctx, m.DB, c.ID, whoami(), c.Reason); err != nil {
			return err
		}
		return c.done(w, 1)
	})
}

type outboxDiscardCmd struct {
	boxFlag
	change
	ID int64 `arg:"" help:"The message's number."`
}

func (c *outboxDiscardCmd) Run(w *world) error {
	return c.outbox(w, func(m migration, box *outbox.Box) error {
		if err := c.sure(w, fmt.Sprintf("discard message %d", c.ID)); err != nil {
			return err
		}
		if err := box.Discard(w.ctx, m.DB, c.ID, whoami(), c.Reason); err != nil {
			return err
		}
		return c.done(w, 1)
	})
}
