package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/outbox"
)

type outboxCmds struct {
	List    outboxListCmd `cmd:"" help:"List messages."`
	Show    outboxShowCmd `cmd:"" help:"Show one message with all its errors."`
	Retry   settleCmd     `cmd:"" help:"Deliver a dead or unknown message again."`
	Confirm settleCmd     `cmd:"" help:"State that a dead or unknown message was delivered."`
	Discard settleCmd     `cmd:"" help:"Give up a dead or unknown message."`
}

// desk is the outbox of an opened store, for its admin API; nil: it has none.
func desk(o *dsn.Opened, e *stet.Engine) operate.Outbox {
	if o.DB == nil {
		return nil
	}
	return &outbox.Desk{Box: outbox.New(o.Dialect), DB: o.DB, Engine: e}
}

// noSuchMessage puts the API's 404 into words about messages.
func noSuchMessage(err error) error {
	return absent(err, exitNotFound, "there is no such message; stet outbox list shows what there is")
}

type outboxListCmd struct {
	source
	State string `placeholder:"STATE" complete:"pending,running,done,unknown,dead,discarded" enum:",pending,running,done,unknown,dead,discarded" default:"" help:"pending, running, done, unknown, dead or discarded."`
	Dead  bool   `help:"Only dead letters: dead and unknown messages, which wait for an operator."`
	Topic string `placeholder:"TOPIC" help:"Only this topic."`
	paged
}

func (c *outboxListCmd) check(*world) error {
	return cmp.Or(refuse(c.Dead && c.State != "",
		"give --dead or --state, not both; --dead selects dead and unknown messages"), outboxList.check(&c.printed))
}

var outboxList = listOf("messages", 8, "id state attempt created due topic order-key last-error updated name record "+
	"scope downstream-id bytes=payload_bytes", map[string]func(*operate.Message) any{
	"last-error": func(m *operate.Message) any {
		if n := len(m.Errors); n > 0 {
			return m.Errors[n-1].Error
		}
		return ""
	},
})

func (c *outboxListCmd) Run(w *world, a *api) error {
	return outboxList.print(w, a.Outbox(operate.MessageQuery{State: c.State, Topic: c.Topic, Dead: c.Dead}), &c.paged,
		"no messages match")
}

type outboxShowCmd struct {
	source
	ID     int64  `arg:"" help:"The message's number."`
	Reveal bool   `help:"Also show the record's key, the payload and the metadata; that is kept in the audit trail."`
	Reason string `placeholder:"TEXT" help:"With --reveal: the reason for the audit trail."`
	JSON   bool   `name:"json" help:"Print the API's document."`
}

func (c *outboxShowCmd) Run(w *world, a *api) error {
	path := adminclient.MessagePath(strconv.FormatInt(c.ID, 10)) + ifTrue(c.Reveal, adminclient.Revealing(c.Reason))
	return noSuchMessage(errorOf(shown(w, a, path, c.JSON, showMessage)))
}

func showMessage(m *operate.Message, w *world) error {
	meta := ""
	if len(m.Meta) > 0 {
		b, err := json.Marshal(m.Meta)
		if err != nil {
			return err
		}
		meta = string(b)
	}
	lines := []string{"id", strconv.FormatInt(m.ID, 10), "state", string(m.State), "topic", m.Topic, "name", m.Name,
		"record", m.Record, "scope", m.Scope, "key", m.Key, "order key", m.OrderKey, "attempt", number(m.Attempt),
		"downstream key", m.DownstreamKey, "downstream id", m.DownstreamID, "key honoured", fmt.Sprint(m.KeyHonoured), "payload bytes", number(m.PayloadBytes),
		"payload", string(m.Payload), "meta", meta, "damage", m.Damage, "created", w.when(m.CreatedAt),
		"updated", w.when(m.UpdatedAt), "due", w.when(m.DueAt)}
	for _, f := range m.Errors {
		lines = append(lines, fmt.Sprintf("attempt %d", f.Attempt), instant(f.At)+"  "+visible(f.Error))
	}
	return pairs(w.stdout, lines...)
}

// settleCmd settles one message, as its command is called.
type settleCmd struct {
	source
	change
	ID        int64  `arg:"" help:"The message's number."`
	IfVersion string `placeholder:"VERSION" help:"Settle the message only if it still has this version, as outbox show --json shows it."`
}

func (c *settleCmd) Run(w *world, a *api, k *kong.Context) error {
	id, how := strconv.FormatInt(c.ID, 10), k.Selected().Name
	seen := operate.Settling{Reason: c.Reason, Version: operate.Version(c.IfVersion)}
	if seen.Version == "" { // what changes while the operator reads the question is not what was meant
		m, err := a.Message(w.ctx, id)
		if err != nil {
			return noSuchMessage(err)
		}
		seen.Version = operate.Version(strconv.FormatInt(m.Version, 10))
	}
	if err := c.sure(w, fmt.Sprintf("%s message %d", how, c.ID)); err != nil {
		return err
	}
	act := map[string]func(context.Context, string, operate.Settling) (operate.Message, error){"retry": a.Retry, "confirm": a.Confirm, "discard": a.Discard}
	if _, err := act[how](w.ctx, id, seen); err != nil {
		return noSuchMessage(err)
	}
	return c.done(w, 1)
}
