package outbox

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/stet-dev/stet/internal/bounds"
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
	// Version changes with each change of the message's state. It is not 0, and is what a person
	// has decided on: see [Stored.Seen].
	Version int64
}

// Seen names a message as the person saw it who decides on it: [Stored.Seen].
type Seen struct{ ID, Version int64 }

// Seen names s for [Desk.Retry], [Desk.Discard] and [Desk.Confirm].
func (s *Stored) Seen() Seen { return Seen{s.ID, s.Version} }

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

var queryBounds = bounds.For[Query](
	bounds.Number("Limit", 1, bounds.Many).OrDefault(),
	bounds.Number("After", 0, math.MaxInt64),
)
