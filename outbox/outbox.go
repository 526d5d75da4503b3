// Package outbox keeps effects that a transaction promised, and delivers them.
//
// [Box.Add] writes a message in the caller's transaction: it is there if and only if the
// transaction committed. A [Worker], in this process or another, hands each message to a [Handler]
// with a downstream key that is the same on every attempt. Delivery is at least once; the effect
// happens once where the system downstream honours the key. Where it does not, an attempt whose
// outcome nobody knows stops, in the state [Unknown], until somebody has looked. What cannot be
// delivered becomes a dead letter that keeps its errors.
//
// The table stet_outbox is made by [sqlstore.Migrate].
package outbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

var (
	// ErrMessage: the message cannot be stored. The error that wraps it says what is wrong, and
	// nothing was written.
	ErrMessage = errors.New("outbox: the message is not valid")
	// ErrExists: a message with this downstream key is there already, and nothing was written. The
	// transaction can go on.
	ErrExists = errors.New("outbox: this effect is in the outbox already")
	// ErrNotFound: there is no message with this id.
	ErrNotFound = errors.New("outbox: no such message")
	// ErrState: the message's state does not allow the change.
	ErrState = errors.New("outbox: the message is in another state")
	// ErrLost: the delivery's lease has ended, and somebody else may be at the message.
	ErrLost = errors.New("outbox: the lease has ended")
	// ErrDrain: handlers still ran when the time for draining was over. Their messages' leases end
	// by themselves.
	ErrDrain = errors.New("outbox: handlers still run")
)

// Limits of a [Message].
const (
	maxName    = 255     // bytes of Topic, Name and OrderKey, each
	maxKey     = 64      // bytes of DownstreamKey
	maxPayload = 1 << 24 // bytes
	maxMeta    = 1 << 16 // bytes of Meta as JSON
	maxDelay   = 10 * 365 * 24 * time.Hour
)

// Message is an effect to be had once the transaction has committed.
type Message struct {
	Topic string // what kind of effect; required
	// Record is the idempotency record the effect belongs to; the zero Record if there is none. Of
	// a record the downstream key is derived, with its Life, Topic and Name: the same effect cannot
	// be added twice, as by an execution that runs again, and a key that was used again after its
	// retention has an effect again.
	Record Record
	Name   string // tells apart effects of one record and topic
	// OrderKey, if any: messages of one order key are delivered one after the other, in the order
	// they were added by transactions that did not overlap. One that is dead or unknown holds up
	// those behind it, until it is settled.
	OrderKey string
	Payload  []byte // any bytes
	Meta     map[string]string
	Delay    time.Duration // no attempt before that, by the server's clock
	// DownstreamKey overrides the derived one: an opaque name, sent to the system downstream on
	// every attempt.
	DownstreamKey string
}

// Record names one life of an idempotency record. Once its retention is over, the same key may be
// used again, for another effect.
type Record struct {
	stet.ID
	Life time.Time // when this life began: [stet.Head.CreatedAt], which has whole microseconds; required with an ID
}

// RecordOf is the record that c holds; the zero Record where c is nil, as in a request without a
// key.
func RecordOf(c *stet.Claim) Record {
	if c == nil {
		return Record{}
	}
	h := c.Head()
	return Record{h.ID, h.CreatedAt}
}

// life is when r's life began, as it is stored and as a part of the downstream key; 0 where there
// is no record.
func (r *Record) life() int64 {
	if r.Life.IsZero() {
		return 0
	}
	return r.Life.UnixMicro()
}

// Execer is what [Box.Add] needs of a transaction: *sql.Tx and *sql.Conn have it.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Box is an outbox in databases of one dialect. It is safe for concurrent use: one for a process is
// enough.
type Box struct {
	q    *statements
	told atomic.Int64 // when an Add last told those who listen, in ns since 1970
}

// New returns the outbox of databases of the dialect. It panics if there is no such dialect.
func New(d sqlstore.Dialect) *Box { return &Box{q: newStatements(d)} }

// Add writes m as part of tx. It is delivered if tx commits. [ErrMessage] and [ErrExists] leave tx
// as it was; after other errors roll back. On MySQL the connection must not have clientFoundRows
// set, or ErrExists goes unnoticed, though nothing is written.
//
// On Postgres tx also tells the workers that listen (NOTIFY), which they hear when it commits; so
// it cannot be prepared (PREPARE TRANSACTION). Nobody but the database knows when a transaction
// commits: workers in the same process hear of it as others do, and on SQLite and MySQL they look,
// see [Worker.Poll], or are told by the caller after the commit, see [Worker.Wake].
func (b *Box) Add(ctx context.Context, tx Execer, m Message) error {
	meta, err := m.check()
	if err != nil {
		return err
	}
	text := b.q.text
	behind := first
	if m.OrderKey != "" {
		behind = unsorted
	}
	res, err := tx.ExecContext(ctx, b.q.add, behind, text(string(m.Record.Scope)), text(string(m.Record.Key)), m.Record.life(),
		text(m.Topic), text(m.Name), text(m.OrderKey), text(m.key()), append([]byte{}, m.Payload...), meta, m.Delay.Microseconds())
	if err != nil {
		return fmt.Errorf("outbox: add: %w", err)
	}
	switch n, err := res.RowsAffected(); {
	case err != nil:
		return fmt.Errorf("outbox: add: %w", err)
	case n == 0:
		return ErrExists
	}
	if m.Delay > 0 {
		return nil
	}
	return b.tell(ctx, tx)
}

// tellPause is the least time between transactions of one Box that tell: the server lets no two of
// them commit at once, and so one in each transaction would cost most of the throughput. A worker
// that was woken looks often for longer than this.
const tellPause = 100 * time.Millisecond

// tell lets tx tell those who listen, if none has done so just now.
func (b *Box) tell(ctx context.Context, tx Execer) error {
	now, last := time.Now().UnixNano(), b.told.Load()
	if b.q.tell == "" || time.Duration(now-last).Abs() < tellPause || !b.told.CompareAndSwap(last, now) {
		return nil
	}
	if _, err := tx.ExecContext(ctx, b.q.tell); err != nil {
		return fmt.Errorf("outbox: add: notify: %w", err)
	}
	return nil
}

// Complete returns m as it would be stored, with its DownstreamKey, for those who keep it
// elsewhere; or [ErrMessage].
func (m Message) Complete() (Message, error) {
	if _, err := m.check(); err != nil {
		return m, err
	}
	m.DownstreamKey = m.key()
	return m, nil
}

func (m *Message) check() (meta string, err error) {
	for _, f := range []struct{ name, value string }{{"Topic", m.Topic}, {"Name", m.Name}, {"OrderKey", m.OrderKey}, {"DownstreamKey", m.DownstreamKey}} {
		if len(f.value) > maxName || !utf8.ValidString(f.value) || strings.IndexByte(f.value, 0) >= 0 {
			return "", fmt.Errorf("%w: %s has to be UTF-8 without NUL, of at most %d bytes", ErrMessage, f.name, maxName)
		}
	}
	raw, err := json.Marshal(m.Meta)
	if err != nil {
		return "", fmt.Errorf("%w: Meta: %w", ErrMessage, err)
	}
	switch {
	case m.Topic == "":
		return "", fmt.Errorf("%w: it has no Topic", ErrMessage)
	case len(m.DownstreamKey) > maxKey:
		return "", fmt.Errorf("%w: DownstreamKey has more than %d bytes", ErrMessage, maxKey)
	case len(m.Record.Scope) > 1024 || len(m.Record.Key) > 1024:
		return "", fmt.Errorf("%w: Record has a longer name than a store takes", ErrMessage)
	case (m.Record.ID == stet.ID{}) != m.Record.Life.IsZero():
		return "", fmt.Errorf("%w: Record has to have an ID and a Life, or neither; RecordOf gives both", ErrMessage)
	case len(m.Payload) > maxPayload:
		return "", fmt.Errorf("%w: Payload has more than %d bytes", ErrMessage, maxPayload)
	case len(raw) > maxMeta:
		return "", fmt.Errorf("%w: Meta has more than %d bytes", ErrMessage, maxMeta)
	case m.Delay < 0 || m.Delay > maxDelay:
		return "", fmt.Errorf("%w: Delay is %s; it has to be from 0 to %s", ErrMessage, m.Delay, maxDelay)
	}
	return string(raw), nil
}

// key is what the system downstream knows the effect by: the record's names do not show in it.
func (m *Message) key() string {
	switch {
	case m.DownstreamKey != "":
		return m.DownstreamKey
	case m.Record.ID == stet.ID{}:
		return "ob_" + rand.Text()
	}
	h := sha256.New()
	for _, part := range [...]string{string(m.Record.Scope), string(m.Record.Key), m.Topic, m.Name} {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // no two lists of parts make one text
		_, _ = h.Write([]byte(part))
	}
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(m.Record.life())))
	return "ob_" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
