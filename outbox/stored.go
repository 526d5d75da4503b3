package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stet-dev/stet/store/sqlstore"
)

// State is where a message is in its life.
type State string

// The states of a message.
const (
	Pending   State = "pending"   // waits for its time, or for the messages before it
	Running   State = "running"   // a worker delivers it, or died while it did
	Done      State = "done"      // delivered
	Unknown   State = "unknown"   // the outcome of an attempt is not known: it is not tried again before a person has settled it
	Dead      State = "dead"      // given up: attempts exhausted, or declined
	Discarded State = "discarded" // given up for good by a person
)

// Stored is a message in the outbox.
type Stored struct {
	Message
	ID           int64
	State        State
	Attempt      int // attempts that began since the message was added, or was last retried by a person
	DownstreamID string
	Errors       []Failure // of all attempts, and what people did; oldest first
	CreatedAt    time.Time
	UpdatedAt    time.Time
	DueAt        time.Time // Pending: not before; Running: when the lease ends
	// Damage names the columns of the row that cannot be read; empty if all can. A damaged message
	// is not delivered: the first worker that meets it makes it dead.
	Damage string

	version int64
}

// Failure is an entry of what went wrong with a message.
type Failure struct {
	Attempt int
	At      time.Time
	Error   string // at most 1,000 bytes
}

// maxError is how many bytes of an error are kept.
const maxError = 1000

// line is the text of an entry as the statements take it. json.Marshal also mends what is not
// UTF-8.
func line(text string) string {
	if text == "" {
		return ""
	}
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // of a string
	}
	return string(b)
}

// Query selects messages.
type Query struct {
	State State  // messages in this state; empty: in any
	Dead  bool   // those that wait for a person: Dead and Unknown
	Topic string // messages of this topic; empty: of any
	After int64  // messages with a larger id: the last one of the page before
	Limit int    // the most messages to return; 0 means 100
}

// List returns the messages that q selects, in the order in which they were added.
func (b *Box) List(ctx context.Context, db *sql.DB, q Query) ([]Stored, error) {
	query, args := b.q.list, []any{q.After}
	for _, c := range []struct{ column, value string }{{"state", string(q.State)}, {"topic", q.Topic}} {
		if c.value != "" {
			args = append(args, b.q.text(c.value))
			query += " AND " + c.column + " = " + b.q.place(len(args))
		}
	}
	if q.Dead {
		query += " AND state IN ('dead', 'unknown')"
	}
	if q.Limit <= 0 {
		q.Limit = 100
	}
	all, err := b.q.all(db.QueryContext(ctx, query+" ORDER BY id LIMIT "+fmt.Sprint(q.Limit), args...))
	if err != nil {
		return nil, fmt.Errorf("outbox: list: %w", err)
	}
	return all, nil
}

func (s *statements) place(n int) string {
	if s.dialect == sqlstore.Postgres {
		return fmt.Sprintf("$%d", n)
	}
	return "?"
}

// Show returns one message, or [ErrNotFound].
func (b *Box) Show(ctx context.Context, db *sql.DB, id int64) (Stored, error) {
	all, err := b.q.all(db.QueryContext(ctx, b.q.show, id))
	switch {
	case err != nil:
		return Stored{}, fmt.Errorf("outbox: show: %w", err)
	case len(all) == 0:
		return Stored{}, ErrNotFound
	}
	return all[0], nil
}

// Counts returns how many messages are in each state but Done and Discarded. Pending and Running
// together are idem_outbox_pending; Dead and Unknown wait for a person.
func (b *Box) Counts(ctx context.Context, db *sql.DB) (map[State]int64, error) {
	rows, err := db.QueryContext(ctx, b.q.counts)
	if err != nil {
		return nil, fmt.Errorf("outbox: counts: %w", err)
	}
	defer rows.Close()
	all := map[State]int64{Pending: 0, Running: 0, Unknown: 0, Dead: 0}
	for rows.Next() {
		var state string
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return nil, fmt.Errorf("outbox: counts: %w", err)
		}
		all[State(state)] = n
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("outbox: counts: %w", err)
	}
	return all, nil
}
