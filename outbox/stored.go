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

// States.
const (
	Pending   State = "pending"   // waits for its time, or for those before it
	Running   State = "running"   // somebody delivers it, or died while at it
	Done      State = "done"      // delivered
	Unknown   State = "unknown"   // an attempt's outcome is not known, and nobody tries again until it is settled by hand
	Dead      State = "dead"      // given up: attempts exhausted, or declined
	Discarded State = "discarded" // given up for good, by somebody
)

// Stored is a message in the outbox.
type Stored struct {
	Message
	ID           int64
	State        State
	Attempt      int // attempts that began, since somebody last said retry
	DownstreamID string
	Errors       []Failure // oldest first, of all attempts and of what people did
	CreatedAt    time.Time
	UpdatedAt    time.Time
	DueAt        time.Time // Pending: not before; Running: when the lease ends
	// Damage names the columns of the row that cannot be read; empty if all can. A damaged message is not delivered: it is dead as
	// soon as a worker has seen it.
	Damage string

	version int64
}

// Failure is an entry of what went wrong with a message.
type Failure struct {
	Attempt int
	At      time.Time
	Error   string // at most [maxError] bytes
}

// maxError is how many bytes of an error are kept.
const maxError = 1000

// line is the text of an entry as the statements take it. json.Marshal also mends what is not UTF-8.
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
	State State  // any if empty
	Dead  bool   // only those that somebody has to settle: Dead and Unknown
	Topic string // any if empty
	After int64  // only messages with a larger id: the last of the page before
	Limit int    // 100 if 0
}

// List returns messages in the order they were added.
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

// Counts returns how many messages are in each state but Done and Discarded: Pending and Running are idem_outbox_pending, Dead
// and Unknown what somebody has to look at.
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
