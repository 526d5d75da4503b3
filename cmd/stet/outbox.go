package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/outbox"
)

type outboxCmds struct {
	List    outboxListCmd    `cmd:"" help:"List messages."`
	Show    outboxShowCmd    `cmd:"" help:"Show one message with all its errors."`
	Retry   outboxRetryCmd   `cmd:"" help:"Deliver a dead or unknown message again."`
	Discard outboxDiscardCmd `cmd:"" help:"Give up a dead or unknown message."`
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
	State string `placeholder:"STATE" complete:"pending,running,done,unknown,dead,discarded" enum:",pending,running,done,unknown,dead,discarded" default:"" help:"pending, running, done, unknown, dead or discarded."`
	Dead  bool   `help:"Only dead letters: dead and unknown messages, which wait for an operator."`
	Topic string `placeholder:"TOPIC" help:"Only this topic."`
	paged
}

func (c *outboxListCmd) check(*world) error {
	if c.Dead && c.State != "" {
		return failf(exitUsage, "give --dead or --state, not both; --dead selects dead and unknown messages")
	}
	return nil
}

var outboxList = list{"/api/v1/outbox", "messages", "ID\tSTATE\tATTEMPT\tCREATED\tDUE\tTOPIC\tORDER KEY\tLAST ERROR", func(doc json.RawMessage) (string, error) {
	var m admin.Message
	err := json.Unmarshal(doc, &m)
	last := ""
	if n := len(m.Errors); n > 0 {
		last = m.Errors[n-1].Error
	}
	return cells(m.ID, m.State, m.Attempt, instant(m.CreatedAt), instant(m.DueAt), visible(m.Topic), visible(m.OrderKey), visible(last)), err
}}

func (c *outboxListCmd) Run(w *world, a *api) error {
	q := query("state", c.State, "topic", c.Topic)
	if c.Dead {
		q.Set("dead", "1")
	}
	return outboxList.print(w, a, q, c.paged, "no messages match")
}

type outboxShowCmd struct {
	source
	ID     int64 `arg:"" help:"The message's number."`
	Reveal bool  `help:"Also show the record's key, the payload and the metadata; that is kept in the audit trail."`
	JSON   bool  `name:"json" help:"Print the API's document."`
}

func (c *outboxShowCmd) Run(w *world, a *api) error {
	path := "/api/v1/outbox/" + strconv.FormatInt(c.ID, 10)
	if c.Reveal {
		path += "?reveal=1"
	}
	return noSuchMessage(shown(w, a, path, c.JSON, showMessage))
}

func showMessage(m *admin.Message, out io.Writer) error {
	meta := ""
	if len(m.Meta) > 0 {
		b, err := json.Marshal(m.Meta)
		if err != nil {
			return err
		}
		meta = string(b)
	}
	lines := []string{"id", strconv.FormatInt(m.ID, 10), "state", string(m.State), "topic", m.Topic, "name", m.Name, "record", m.Record,
		"scope", m.Scope, "key", m.Key, "order key", m.OrderKey, "attempt", number(m.Attempt),
		"downstream key", m.DownstreamKey, "downstream id", m.DownstreamID, "payload bytes", number(m.PayloadBytes),
		"payload", string(m.Payload), "meta", meta, "damage", m.Damage,
		"created", instant(m.CreatedAt), "updated", instant(m.UpdatedAt), "due", instant(m.DueAt)}
	for _, f := range m.Errors {
		lines = append(lines, fmt.Sprintf("attempt %d", f.Attempt), instant(f.At)+"  "+visible(f.Error))
	}
	for i := range lines {
		lines[i] = visible(lines[i])
	}
	return pairs(out, lines...)
}

type outboxRetryCmd struct{ settleCmd }

func (c *outboxRetryCmd) Run(w *world, a *api) error { return c.settle(w, a, "retry") }

type outboxDiscardCmd struct{ settleCmd }

func (c *outboxDiscardCmd) Run(w *world, a *api) error { return c.settle(w, a, "discard") }

// settleCmd settles one message.
type settleCmd struct {
	source
	change
	ID int64 `arg:"" help:"The message's number."`
}

func (c *settleCmd) settle(w *world, a *api, how string) error {
	if err := c.sure(w, fmt.Sprintf("%s message %d", how, c.ID)); err != nil {
		return err
	}
	path := fmt.Sprintf("/api/v1/outbox/%d/%s", c.ID, how)
	if err := a.do(w.ctx, http.MethodPost, path, sent{Reason: c.Reason}, nil); err != nil {
		return noSuchMessage(err)
	}
	return c.done(w, 1)
}
