package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/stet-dev/stet"
)

// Desk is where people look at messages, and settle those that are dead or unknown. What they do is kept with the message, and in
// the history of the engine's store, where it outlives the message: in the transaction that does it, so that neither is there
// without the other.
type Desk struct {
	Box *Box
	DB  *sql.DB
	// Engine is on a store in the same database, which is a [stet.Binder] that joins transactions of DB and a [stet.Historian].
	Engine *stet.Engine
}

// List is [Box.List].
func (d *Desk) List(ctx context.Context, q Query) ([]Stored, error) { return d.Box.List(ctx, d.DB, q) }

// Show is [Box.Show].
func (d *Desk) Show(ctx context.Context, id int64) (Stored, error) { return d.Box.Show(ctx, d.DB, id) }

// Retry lets a dead or unknown message be delivered again, with all its attempts. Of an unknown one that says: it did not
// happen, or the system downstream honours the key. who and why are required, else it is [stet.ErrNoReason].
func (d *Desk) Retry(ctx context.Context, id int64, who, why string) error {
	return d.settle(ctx, id, Pending, "retried", stet.Note{Who: who, Why: why, Action: "outbox-retry"})
}

// Discard gives a dead or unknown message up for good; what it held up goes on. who and why are as in Retry.
func (d *Desk) Discard(ctx context.Context, id int64, who, why string) error {
	return d.settle(ctx, id, Discarded, "discarded", stet.Note{Who: who, Why: why, Action: "outbox-discard"})
}

// Confirm says of a dead or unknown message that its effect has happened. who and why are as in Retry.
func (d *Desk) Confirm(ctx context.Context, id int64, who, why string) error {
	return d.settle(ctx, id, Done, "confirmed", stet.Note{Who: who, Why: why, Action: "outbox-confirm"})
}

func (d *Desk) settle(ctx context.Context, id int64, to State, verb string, n stet.Note) error {
	if strings.TrimSpace(n.Who) == "" || strings.TrimSpace(n.Why) == "" {
		return fmt.Errorf("outbox: %s: %w", verb, stet.ErrNoReason)
	}
	m, err := d.Show(ctx, id)
	if err != nil {
		return err
	}
	n.Evidence = m.About()
	note, again := line(fmt.Sprintf("%s by %s: %s", verb, n.Who, n.Why)), 0
	if to == Pending {
		again = 1
	}
	err = d.Box.end(ctx, d.DB, func(tx *sql.Tx) (ended []int64, err error) {
		rows, err := affected(tx.ExecContext(ctx, d.Box.q.byHand, note, note, string(to), again, draw(), id, m.version))
		switch {
		case err != nil:
			return nil, err
		case rows == 0:
			return nil, fmt.Errorf("%w: only a dead or unknown one can be %s; it was %s", ErrState, verb, m.State)
		}
		if err := d.Engine.Operator().AuditIn(ctx, tx, m.Record.ID, n); err != nil {
			return nil, err
		}
		if to == Pending || m.OrderKey == "" {
			return nil, nil
		}
		return []int64{id}, nil
	})
	if err != nil && !errors.Is(err, ErrState) {
		return fmt.Errorf("outbox: %s: %w", verb, err)
	}
	return err
}

// About names the message, for the history: its number and its topic.
func (s *Stored) About() string { return fmt.Sprintf("message %d of topic %s", s.ID, s.Topic) }
