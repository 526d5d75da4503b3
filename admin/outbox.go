package admin

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

	outboxStates = []string{"pending", "running", "done", "unknown", "dead", "discarded"}
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

func (h *handler) letter(s *outbox.Stored) Message {
	return Message{ID: s.ID, Version: s.Version, State: s.State, Topic: s.Topic, Name: s.Name, Record: h.tagOf(s.Record.ID), Scope: string(s.Record.Scope), OrderKey: s.OrderKey,
		Attempt: s.Attempt, DownstreamKey: s.DownstreamKey, KeyHonoured: s.KeyHonoured, DownstreamID: s.DownstreamID, PayloadBytes: len(s.Payload),
		Errors: documents(s.Errors, func(f *outbox.Failure) MessageError { return MessageError(*f) }), Damage: s.Damage,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, DueAt: s.DueAt}
}

// outboxed answers a call where there is an outbox.
func outboxed(do func(*handler, *call) (any, error)) func(*handler, *call) (any, error) {
	return func(h *handler, c *call) (any, error) {
		if h.Outbox == nil {
			return nil, noOutbox
		}
		return do(h, c)
	}
}

// messages answers GET /api/v1/outbox, in the order in which messages were added. A page may be
// short before the last.
func (h *handler) messages(c *call) (any, error) {
	q := outbox.Query{Limit: stet.DefaultLimit}
	cursor := func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return errors.New("it is a next_cursor of this list; start without one")
		}
		q.After = n
		return nil
	}
	state := oneOf(&q.State, "it is one of "+strings.Join(outboxStates, ", "), append(outboxStates, "")...)
	dead := flagged(&q.Dead, "it is 1, for dead and unknown messages alone; leave it out for all", "1", "true")
	asked := parameters{{"state", state}, {"dead", dead}, {"topic", verbatim(&q.Topic)}, {"cursor", cursor},
		{"limit", upTo(stet.MaxLimit, &q.Limit)}}
	if err := asked.read(c.URL); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.Context(), listTimeout)
	defer cancel()
	q.Limit++ // to know whether there are more
	found, err := h.Outbox.List(ctx, q)
	if err != nil {
		return nil, unavailable
	}
	next := ""
	if len(found) == q.Limit {
		found = found[:q.Limit-1]
		next = strconv.FormatInt(found[len(found)-1].ID, 10)
	}
	found = slices.DeleteFunc(found, func(m outbox.Stored) bool { return !c.who.allows(m.Record.Scope) })
	return paged("messages", found, next, h.letter), nil
}

// message answers GET /api/v1/outbox/{message}.
func (h *handler) message(c *call) (any, error) {
	reveal, why, err := c.reveals()
	if err != nil {
		return nil, err
	}
	m, err := h.lettered(c)
	if err == nil && reveal {
		err = h.revealing(c, m.Record.ID, m.About(), why)
	}
	doc := h.letter(&m)
	if reveal {
		doc.Key, doc.Payload, doc.Meta = string(m.Record.Key), m.Payload, m.Meta
	}
	return doc, err
}

// retry answers POST /api/v1/outbox/{message}/retry.
func (h *handler) retry(c *call) (any, error) { return h.settle(c, h.Outbox.Retry) }

// discard answers POST /api/v1/outbox/{message}/discard.
func (h *handler) discard(c *call) (any, error) { return h.settle(c, h.Outbox.Discard) }

// confirm answers POST /api/v1/outbox/{message}/confirm.
func (h *handler) confirm(c *call) (any, error) { return h.settle(c, h.Outbox.Confirm) }

func (h *handler) settle(c *call, how func(ctx context.Context, m outbox.Seen, who, why string) error) (any, error) {
	var n note
	var m outbox.Stored
	err := cmp.Or(h.read(c, map[string]any{"reason": &n.reason, "if_version": pin(n.pinVersion)}), n.unreasoned())
	if err == nil {
		m, err = h.lettered(c)
	}
	if err == nil {
		seen := m.Seen()
		if n.ifVersion != 0 {
			seen.Version = int64(n.ifVersion)
		}
		err = ofMessage(how(c.Context(), seen, c.who.name, n.reason))
	}
	if err == nil {
		m, err = h.lettered(c) // as it is now
	}
	return h.letter(&m), err
}

// lettered returns the message that a call names. What is of a scope that is not theirs is for all
// verbs what never was.
func (h *handler) lettered(c *call) (m outbox.Stored, err error) {
	n, err := strconv.ParseInt(c.PathValue("message"), 10, 64)
	if err != nil {
		return m, noMessage
	}
	m, err = h.Outbox.Show(c.Context(), n)
	if err == nil && !c.who.allows(m.Record.Scope) {
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
