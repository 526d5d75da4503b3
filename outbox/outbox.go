// Package outbox delivers effects that a database transaction has promised, such as a receipt by
// mail (a transactional outbox).
//
// [Box.Add] writes a message in the caller's transaction, so that the message exists if and only if
// the transaction commits. A [Worker], in this process or in another, hands each message to a
// [Handler], with a downstream key that is the same on every attempt. Delivery is at least once:
// the effect happens once if the system downstream honours the key, which the message says
// ([Message].KeyHonoured). If it does not, a message whose attempt has an unknown outcome waits in
// the state [Unknown] until a person has settled it. A message that cannot be delivered becomes a
// dead letter, which keeps its errors. A [Desk] is where people look at messages and settle them.
//
//	box := outbox.New(sqlstore.Postgres)
//	m := outbox.Message{Topic: "receipt", Payload: order, KeyHonoured: true}
//	err := box.Add(ctx, tx, m) // then commit tx
//
//	w := outbox.Worker{DB: db, Dialect: sqlstore.Postgres, Handler: send}
//	go w.Run(ctx)
//
// Messages are rows of the table stet_outbox, which [sqlstore.Migrate] makes. Package riveroutbox
// puts them into River's tables instead.
package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/digest"
	"github.com/stet-dev/stet/store/sqlstore"
)

var (
	// ErrMessage is returned when a message cannot be stored. The error that wraps it says why.
	// Nothing was written.
	ErrMessage = errors.New("outbox: the message is not valid")
	// ErrLost is returned when the lease of a delivery has ended: another worker may deliver the
	// message by now.
	ErrLost = errors.New("outbox: the lease has ended")
	// ErrDrain is returned when handlers still run after the time for draining. The leases of their
	// messages end by themselves.
	ErrDrain = errors.New("outbox: handlers still run")
)

// Limits of a message.
const (
	maxName    = 255              // bytes of Topic, Name and OrderKey, each
	maxKey     = 64               // bytes of DownstreamKey
	maxPayload = 16<<20 - 128<<10 // bytes; with all else they fit into 16 MiB, MariaDB's max_allowed_packet
	maxMeta    = 1 << 16          // bytes of Meta as JSON
	maxDelay   = 10 * 365 * 24 * time.Hour
)

// Message is an effect that happens after its transaction has committed.
type Message struct {
	Topic string // what kind of effect it is, at most 255 bytes; required
	// Record is the idempotency record that the effect belongs to; the zero Record means none. The
	// downstream key is derived from the record, its Life, the Topic and the Name. So the same
	// effect cannot be added twice, for example by an execution that runs again; a key that is used
	// anew after its retention has its effect anew.
	Record Record
	Name   string // distinguishes effects of one record and topic, at most 255 bytes
	// OrderKey groups messages that are delivered one after the other, in the order in which
	// transactions that did not overlap added them; at most 255 bytes. A dead or unknown message
	// holds up those behind it until it is settled. Empty means no order.
	OrderKey string
	Payload  []byte            // what the handler gets, at most 16 MiB less 128 KiB
	Meta     map[string]string // what it gets beside that, at most 64 KiB as JSON
	Delay    time.Duration     // the first attempt is made no earlier than this from now, by the server's clock; at most ten years
	// KeyHonoured says that the system downstream has each effect once per downstream key. Then an
	// attempt with an unknown outcome is followed by another, by whichever worker, as after
	// [Retry]. Without it such a message is Unknown until a person settles it.
	KeyHonoured bool
	// DownstreamKey replaces the derived key: an opaque name of at most 64 bytes, sent downstream
	// on every attempt.
	DownstreamKey string
}

var messageBounds = bounds.For[Message](bounds.Duration("Delay", 0, maxDelay)) // what is left until an instant may be short

// Record names one life of an idempotency record: after its retention the same key may be used
// anew, for another effect.
type Record struct {
	stet.ID
	Life time.Time // when this life began, in whole microseconds: [stet.Head.CreatedAt]; required with an ID
}

// RecordOf returns the record that c holds, or the zero Record if c is nil, as in a request without
// a key.
func RecordOf(c *stet.Claim) Record {
	if c == nil {
		return Record{}
	}
	h := c.Head()
	return Record{h.ID, h.CreatedAt}
}

// life is when r's life began, as it is stored and as a part of the downstream key; 0 means no
// record.
func (r *Record) life() int64 {
	if r.Life.IsZero() {
		return 0
	}
	return r.Life.UnixMicro()
}

// Execer is the transaction that [Box.Add] writes in: a [*sql.Tx], a [*sql.Conn], or what
// pgxstore.Execer returns.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Box is an outbox in databases of one dialect. It is safe for concurrent use, and one per process
// is enough.
type Box struct {
	q    *statements
	told atomic.Int64 // when an Add last notified the workers that listen, in ns since 1970
}

// New returns the outbox of databases of the dialect. It panics if the dialect is none of
// sqlstore's.
func New(d sqlstore.Dialect) *Box { return &Box{q: newStatements(d)} }

// Add writes m as part of tx: m is delivered if tx commits. The error is [stet.ErrExists] if there
// is a message with this downstream key already: then nothing was written. After that and after
// [ErrMessage] tx can go on; after any other error roll it back. On MySQL the connection must not
// have clientFoundRows set: with it ErrExists is not returned, although nothing is written.
//
// On Postgres tx also notifies the workers that listen (NOTIFY) once it commits, so that it cannot
// be prepared (PREPARE TRANSACTION). On SQLite and MySQL workers poll (see [Worker.Poll]), or the
// caller wakes them after the commit (see [Worker.Wake]).
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
	n, err := affected(tx.ExecContext(ctx, b.q.add, behind, text(string(m.Record.Scope)), text(string(m.Record.Key)), m.Record.life(),
		text(m.Topic), text(m.Name), text(m.OrderKey), text(m.key()), append([]byte{}, m.Payload...), meta, flag(m.KeyHonoured), m.Delay.Microseconds()))
	switch {
	case err != nil:
		return failed("add", err)
	case n == 0:
		return fmt.Errorf("outbox: this effect is in the outbox already: %w", stet.ErrExists)
	case m.Delay > 0:
		return nil
	}
	return b.tell(ctx, tx)
}

// tellPause is the least time between transactions of one Box that notify. The server commits such
// transactions one at a time, so that a notification in each would cost most of the throughput. A
// worker that was woken polls often for longer than this.
const tellPause = 100 * time.Millisecond

// tell lets tx notify the workers that listen, unless another transaction has done so within
// tellPause.
func (b *Box) tell(ctx context.Context, tx Execer) error {
	now, last := time.Now().UnixNano(), b.told.Load()
	if b.q.tell == "" || time.Duration(now-last).Abs() < tellPause || !b.told.CompareAndSwap(last, now) {
		return nil
	}
	_, err := tx.ExecContext(ctx, b.q.tell)
	return failed("add: notify", err)
}

// flag is how a yes or a no is stored.
func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// failed says in what a call of the database failed, if it did.
func failed(in string, err error) error {
	if err != nil {
		err = fmt.Errorf("outbox: %s: %w", in, err)
	}
	return err
}

// Complete returns m as it would be stored, with its DownstreamKey, for programs that store it
// elsewhere. The error is [ErrMessage].
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
	if err := messageBounds.Check(m); err != nil {
		return "", fmt.Errorf("%w: %w", ErrMessage, err)
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
	}
	return string(raw), nil
}

// key is what the system downstream knows the effect by. It does not reveal the record's scope and
// key.
func (m *Message) key() string {
	switch {
	case m.DownstreamKey != "":
		return m.DownstreamKey
	case m.Record.ID == stet.ID{}:
		return "ob_" + rand.Text()
	}
	parts := []string{string(m.Record.Scope), string(m.Record.Key), m.Topic, m.Name}
	return "ob_" + base64.RawURLEncoding.EncodeToString(digest.Of(parts, m.Record.life()))
}
