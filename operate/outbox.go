package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/outbox"
)

// Outbox is where messages are looked at and settled: an [outbox.Desk].
type Outbox interface {
	List(ctx context.Context, q outbox.Query) ([]outbox.Stored, error)
	Show(ctx context.Context, id int64) (outbox.Stored, error)
	Counts(ctx context.Context) (map[outbox.State]int64, error)
	Retry(ctx context.Context, m outbox.Seen, who, why string) error
	Discard(ctx context.Context, m outbox.Seen, who, why string) error
	Confirm(ctx context.Context, m outbox.Seen, who, why string) error
}

var (
	noOutbox = &Problem{Status: 404, Code: "no-outbox", Title: "This store has no outbox",
		Detail: "SQL stores have one: sqlite, postgres and mysql."}
	noMessage    = &Problem{Status: 404, Code: "not-found", Title: "There is no such message", Detail: "It does not exist, or it is out of reach."}
	messageMoved = &Problem{Status: 409, Code: "state-changed", Title: "The message's state does not allow this", Detail: "Only a dead or unknown message is settled by hand. Look at it again."}
	messageStale = &Problem{Status: 409, Code: "state-changed", Title: "The message was changed meanwhile", Detail: "It is not as it was when it was looked at (if_version), so that nothing was changed. Look at it again."}

	// OutboxStates are the states that a message can have.
	OutboxStates = []string{"pending", "running", "done", "unknown", "dead", "discarded"}
)

// Message is a message of the outbox. The record's key, the payload and the meta data are there
// only where they were asked for.
type Message struct {
	ID            int64             `json:"id"`
	Version       int64             `json:"version,string"` // of 63 bits: more than a double holds
	State         outbox.State      `json:"state"`
	Topic         string            `json:"topic"`
	Name          string            `json:"name,omitzero"`
	Record        string            `json:"record,omitzero"` // the id of the idempotency record it belongs to
	Scope         string            `json:"scope,omitzero"`
	Key           string            `json:"key,omitzero"`
	OrderKey      string            `json:"order_key,omitzero"`
	Attempt       int               `json:"attempt"`
	DownstreamKey string            `json:"downstream_key"`
	KeyHonoured   bool              `json:"key_honoured"` // the other side has one effect per downstream key
	DownstreamID  string            `json:"downstream_id,omitzero"`
	PayloadBytes  int               `json:"payload_bytes"`
	Payload       []byte            `json:"payload_b64,omitempty"`
	Meta          map[string]string `json:"meta,omitempty"`
	Errors        []MessageError    `json:"errors"` // oldest first: of attempts, and what people did
	Damage        string            `json:"damage,omitzero"`
	CreatedAt     time.Time         `json:"created_at"`
	UpdatedAt     time.Time         `json:"updated_at"`
	DueAt         time.Time         `json:"due_at"`
}

// MessageError is an entry of what went wrong with a message.
type MessageError struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Error   string    `json:"error"`
}

func (s *service) letter(m *outbox.Stored) Message {
	return Message{ID: m.ID, Version: m.Version, State: m.State, Topic: m.Topic, Name: m.Name, Record: s.tagOf(m.Record.ID), Scope: string(m.Record.Scope), OrderKey: m.OrderKey,
		Attempt: m.Attempt, DownstreamKey: m.DownstreamKey, KeyHonoured: m.KeyHonoured, DownstreamID: m.DownstreamID, PayloadBytes: len(m.Payload),
		Errors: documents(m.Errors, func(f *outbox.Failure) MessageError { return MessageError(*f) }), Damage: m.Damage,
		CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, DueAt: m.DueAt}
}

// MessageQuery asks for a page of messages. A zero field selects all.
type MessageQuery struct {
	State string `json:"state,omitzero"`
	Topic string `json:"topic,omitzero"`
	Dead  bool   `json:"dead,omitzero"` // dead and unknown messages alone
	Page
}

// MessageList is a page of messages. It may be short before the last, whose NextCursor is "".
type MessageList struct {
	Messages   []Message `json:"messages"`
	NextCursor string    `json:"next_cursor"`
}

// Messages lists messages in the order in which they were added. It takes a viewer.
func (d *Desk) Messages(ctx context.Context, mq MessageQuery) (list MessageList, err error) {
	q := outbox.Query{State: outbox.State(mq.State), Topic: mq.Topic, Dead: mq.Dead, Limit: cmp.Or(mq.Limit, stet.DefaultLimit) + 1} // one more, to know whether there are more
	switch {
	case d.conf.Outbox == nil:
		err = noOutbox
	case mq.State != "" && !slices.Contains(OutboxStates, mq.State):
		err = BadParameter("state", "it is one of "+strings.Join(OutboxStates, ", "))
	case mq.Cursor != "":
		if q.After, err = strconv.ParseInt(mq.Cursor, 10, 64); err != nil || q.After < 0 {
			err = BadParameter("cursor", "it is a next_cursor of this list; start without one")
		}
	}
	if err = cmp.Or(err, mq.check()); err != nil {
		return list, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	found, err := d.conf.Outbox.List(ctx, q)
	if err != nil {
		return list, unavailable
	}
	if len(found) == q.Limit {
		found = found[:q.Limit-1]
		list.NextCursor = strconv.FormatInt(found[len(found)-1].ID, 10)
	}
	found = slices.DeleteFunc(found, func(m outbox.Stored) bool { return !d.caller.Allows(m.Record.Scope) })
	list.Messages = documents(found, d.letter)
	return list, nil
}

// Message shows a message. It takes a viewer.
func (d *Desk) Message(ctx context.Context, id string) (Message, error) {
	m, err := d.lettered(ctx, id)
	return d.letter(&m), err
}

// RevealMessage shows a message with its record's key, its payload and its meta data. The audit
// trail has that before anything is returned, with the reason, which may be "". It takes an operator.
func (d *Desk) RevealMessage(ctx context.Context, id, why string) (Message, error) {
	var m outbox.Stored
	err := d.mayReveal(why)
	if err == nil {
		m, err = d.lettered(ctx, id)
	}
	if err == nil {
		err = d.revealing(ctx, m.Record.ID, m.About(), why)
	}
	if err != nil {
		return Message{}, err
	}
	doc := d.letter(&m)
	doc.Key, doc.Payload, doc.Meta = string(m.Record.Key), m.Payload, m.Meta
	return doc, nil
}

// Settling is why a message is settled by hand.
type Settling struct {
	Reason  string  `json:"reason"`
	Version Version `json:"if_version,omitzero"` // the message is only changed while it has this version
}

// Retry has a dead or unknown message delivered again. It takes an operator.
func (d *Desk) Retry(ctx context.Context, id string, s Settling) (Message, error) {
	return d.settleMessage(ctx, id, s, Outbox.Retry)
}

// Discard gives up a dead or unknown message. It takes an operator.
func (d *Desk) Discard(ctx context.Context, id string, s Settling) (Message, error) {
	return d.settleMessage(ctx, id, s, Outbox.Discard)
}

// Confirm says that a dead or unknown message was delivered. It takes an operator.
func (d *Desk) Confirm(ctx context.Context, id string, s Settling) (Message, error) {
	return d.settleMessage(ctx, id, s, Outbox.Confirm)
}

func (d *Desk) settleMessage(ctx context.Context, id string, s Settling, how func(o Outbox, ctx context.Context, m outbox.Seen, who, why string) error) (doc Message, err error) {
	c := Change{Condition: Condition{Version: s.Version}, Reason: s.Reason}
	if err := cmp.Or(d.caller.Takes(Operator), c.check()); err != nil {
		return doc, err
	}
	m, err := d.lettered(ctx, id)
	if err != nil {
		return doc, err
	}
	seen := m.Seen()
	if v, _ := s.Version.number(); v != 0 {
		seen.Version = int64(v)
	}
	if err := ofMessage(how(d.conf.Outbox, ctx, seen, d.caller.Name, s.Reason)); err != nil {
		return doc, err
	}
	m, err = d.lettered(ctx, id) // as it is now
	return d.letter(&m), err
}

// lettered returns the message with an id. What is of a scope that is not the caller's is for all
// verbs what never was.
func (d *view) lettered(ctx context.Context, id string) (m outbox.Stored, err error) {
	if d.conf.Outbox == nil {
		return m, noOutbox
	}
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return m, noMessage
	}
	m, err = d.conf.Outbox.Show(ctx, n)
	if err == nil && !d.caller.Allows(m.Record.Scope) {
		err = noMessage
	}
	return m, ofMessage(err)
}

// ofMessage says what an error of the outbox means, where that is about the message.
func ofMessage(err error) error {
	switch {
	case errors.Is(err, stet.ErrNotFound):
		return noMessage
	case errors.Is(err, stet.ErrState):
		return messageMoved
	case errors.Is(err, stet.ErrStale):
		return messageStale
	}
	return err
}
