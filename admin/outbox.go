package admin

import (
	"context"
	"errors"
	"net/http"
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
	Retry(ctx context.Context, id int64, who, why string) error
	Discard(ctx context.Context, id int64, who, why string) error
}

var (
	noOutbox = problem{Status: 404, Code: "no-outbox", Title: "This store has no outbox",
		Detail: "SQL stores have one: sqlite, postgres and mysql."}
	noMessage    = problem{Status: 404, Code: "not-found", Title: "There is no such message", Detail: "It does not exist, or it is out of reach."}
	messageMoved = problem{Status: 409, Code: "state-changed", Title: "The message's state does not allow this", Detail: "Only a dead or unknown message is retried or discarded. Look at it again."}

	outboxStates = []string{"pending", "running", "done", "unknown", "dead", "discarded"}
)

// Message is a message of the outbox. The record's key, the payload and the meta data are there only where they were asked for.
type Message struct {
	ID            int64             `json:"id"`
	State         outbox.State      `json:"state"`
	Topic         string            `json:"topic"`
	Name          string            `json:"name,omitzero"`
	Record        string            `json:"record,omitzero"` // the id of the idempotency record it belongs to
	Scope         string            `json:"scope,omitzero"`
	Key           string            `json:"key,omitzero"`
	OrderKey      string            `json:"order_key,omitzero"`
	Attempt       int               `json:"attempt"`
	DownstreamKey string            `json:"downstream_key"`
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
	m := Message{ID: s.ID, State: s.State, Topic: s.Topic, Name: s.Name, Record: h.tagOf(s.Record.ID), Scope: string(s.Record.Scope), OrderKey: s.OrderKey,
		Attempt: s.Attempt, DownstreamKey: s.DownstreamKey, DownstreamID: s.DownstreamID, PayloadBytes: len(s.Payload),
		Errors: make([]MessageError, 0, len(s.Errors)), Damage: s.Damage, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, DueAt: s.DueAt}
	for _, f := range s.Errors {
		m.Errors = append(m.Errors, MessageError(f))
	}
	return m
}

// outboxed lets a request through to f where there is an outbox.
func (h *handler) outboxed(f func(http.ResponseWriter, *http.Request, principal)) func(http.ResponseWriter, *http.Request, principal) {
	return func(w http.ResponseWriter, r *http.Request, who principal) {
		if h.Outbox == nil {
			noOutbox.write(w)
			return
		}
		f(w, r, who)
	}
}

// messages answers GET /api/v1/outbox, in the order in which messages were added.
func (h *handler) messages(w http.ResponseWriter, r *http.Request, who principal) {
	q := outbox.Query{Limit: stet.DefaultLimit}
	if bad := parameters(r.URL, func(name, v string) *problem { return setMessages(&q, name, v) }); bad != nil {
		bad.write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), listTimeout)
	defer cancel()
	q.Limit++ // to know whether there are more
	found, err := h.Outbox.List(ctx, q)
	if err != nil {
		unavailable.write(w)
		return
	}
	page := struct {
		Messages []Message `json:"messages"`
		Next     string    `json:"next_cursor"`
	}{Messages: make([]Message, 0, len(found))}
	if len(found) == q.Limit {
		found = found[:q.Limit-1]
		page.Next = strconv.FormatInt(found[len(found)-1].ID, 10)
	}
	for i := range found {
		if who.allows(found[i].Record.Scope) { // a page may be short
			page.Messages = append(page.Messages, h.letter(&found[i]))
		}
	}
	writeJSON(w, http.StatusOK, page)
}

func setMessages(q *outbox.Query, name, v string) *problem {
	switch name {
	case "state":
		if q.State = outbox.State(v); v != "" && !slices.Contains(outboxStates, v) {
			return badParameter(name, "it is one of "+strings.Join(outboxStates, ", "))
		}
	case "dead":
		if q.Dead = v == "1" || v == "true"; !q.Dead {
			return badParameter(name, "it is 1, for dead and unknown messages alone; leave it out for all")
		}
	case "topic":
		q.Topic = v
	case "cursor":
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return badParameter(name, "it is a next_cursor of this list; start without one")
		}
		q.After = n
	case "limit":
		return limitOf(v, &q.Limit)
	default:
		return badParameter(name, "there is no such parameter: state, dead, topic, cursor, limit")
	}
	return nil
}

// message answers GET /api/v1/outbox/{message}.
func (h *handler) message(w http.ResponseWriter, r *http.Request, who principal) {
	reveal, bad := wantsReveal(r.URL)
	if bad == nil && reveal && who.role < Operator {
		bad = lacks(who, Operator)
	}
	var m outbox.Stored
	if bad == nil {
		m, bad = h.lettered(r, who)
	}
	if bad == nil && reveal {
		bad = h.revealing(r, who, m.Record.ID, m.About())
	}
	if bad != nil {
		bad.write(w)
		return
	}
	doc := h.letter(&m)
	if reveal {
		doc.Key, doc.Payload, doc.Meta = string(m.Record.Key), m.Payload, m.Meta
	}
	writeJSON(w, http.StatusOK, doc)
}

// retry answers POST /api/v1/outbox/{message}/retry.
func (h *handler) retry(w http.ResponseWriter, r *http.Request, who principal) {
	h.settle(w, r, who, h.Outbox.Retry)
}

// discard answers POST /api/v1/outbox/{message}/discard.
func (h *handler) discard(w http.ResponseWriter, r *http.Request, who principal) {
	h.settle(w, r, who, h.Outbox.Discard)
}

func (h *handler) settle(w http.ResponseWriter, r *http.Request, who principal, how func(ctx context.Context, id int64, who, why string) error) {
	var reason string
	bad := h.read(w, r, map[string]any{"reason": &reason})
	if bad == nil && strings.TrimSpace(reason) == "" {
		bad = &reasonRequired
	}
	var m outbox.Stored
	if bad == nil {
		m, bad = h.lettered(r, who)
	}
	if bad == nil {
		bad = lost(how(r.Context(), m.ID, who.name, reason))
	}
	if bad == nil {
		m, bad = h.lettered(r, who) // as it is now
	}
	if bad != nil {
		bad.write(w)
		return
	}
	writeJSON(w, http.StatusOK, h.letter(&m))
}

// lettered returns the message that a request names. What is of a scope that is not theirs is for all verbs what never was.
func (h *handler) lettered(r *http.Request, who principal) (m outbox.Stored, bad *problem) {
	n, err := strconv.ParseInt(r.PathValue("message"), 10, 64)
	if err != nil {
		return m, &noMessage
	}
	if m, err = h.Outbox.Show(r.Context(), n); err == nil && !who.allows(m.Record.Scope) {
		err = outbox.ErrNotFound
	}
	return m, lost(err)
}

// lost says why a message could not be read or changed.
func lost(err error) *problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, outbox.ErrNotFound):
		return &noMessage
	case errors.Is(err, outbox.ErrState):
		return &messageMoved
	case errors.Is(err, stet.ErrNoReason):
		return &reasonRequired
	}
	return &unavailable
}
