package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Desk is where people look at messages, and settle those that are dead or unknown. What they do is
// stored with the message and in the history of the engine's store, where it outlives the message.
// Both are written in the transaction that does it.
type Desk struct {
	Box *Box    // required
	DB  *sql.DB // required
	// Engine keeps the history of Retry, Discard and Confirm; looking at messages needs none. It is
	// on a store in the same database, which is a [stet.Binder] that joins transactions of DB and a
	// [stet.Historian].
	Engine *stet.Engine
}

// List returns the messages that q selects, in the order in which they were added.
func (d *Desk) List(ctx context.Context, q Query) ([]Stored, error) {
	if err := queryBounds.Check(&q); err != nil {
		return nil, err
	}
	query, args := d.Box.q.list, []any{q.After}
	for _, c := range []struct{ column, value string }{{"state", string(q.State)}, {"topic", q.Topic}} {
		if c.value != "" {
			args = append(args, d.Box.q.text(c.value))
			query += " AND " + c.column + " = ?"
		}
	}
	if q.Dead {
		query += " AND state IN ('dead', 'unknown')"
	}
	query += fmt.Sprintf(" ORDER BY id LIMIT %d", cmp.Or(q.Limit, 100))
	all, err := d.Box.q.all(d.DB.QueryContext(ctx, d.Box.q.end(query), args...))
	return all, failed("list", err)
}

// Show returns one message, or [stet.ErrNotFound].
func (d *Desk) Show(ctx context.Context, id int64) (Stored, error) {
	all, err := d.Box.q.all(d.DB.QueryContext(ctx, d.Box.q.show, id))
	switch {
	case err != nil:
		return Stored{}, failed("show", err)
	case len(all) == 0:
		return Stored{}, failed("show", stet.ErrNotFound)
	}
	return all[0], nil
}

// Counts returns how many messages are in each state but Done and Discarded. Pending and Running
// together are idem_outbox_pending; Dead and Unknown wait for a person.
func (d *Desk) Counts(ctx context.Context) (map[State]int64, error) {
	all := map[State]int64{Pending: 0, Running: 0, Unknown: 0, Dead: 0}
	rows, err := d.DB.QueryContext(ctx, d.Box.q.counts)
	err = sqltext.EachRow(rows, err, func(row sqltext.Scanner) error {
		var state string
		var n int64
		err := row.Scan(&state, &n)
		all[State(state)] = n
		return err
	})
	return all, failed("counts", err)
}

// Retry lets a dead or unknown message be delivered again, with all its attempts. For an unknown
// message that says that the effect did not happen, or that the system downstream honours the key.
// m is the message as the person saw it, [Stored.Seen]: if it has changed since, such as by another
// person's Retry, the error is [stet.ErrStale], and nothing is changed. who and why are required:
// without them the error is [stet.ErrNoReason].
func (d *Desk) Retry(ctx context.Context, m Seen, who, why string) error {
	return d.settle(ctx, m, Pending, "retried", stet.Note{Who: who, Why: why, Action: "outbox-retry"})
}

// Discard gives a dead or unknown message up for good; messages behind it in their order go on. m,
// who and why are as in Retry.
func (d *Desk) Discard(ctx context.Context, m Seen, who, why string) error {
	return d.settle(ctx, m, Discarded, "discarded", stet.Note{Who: who, Why: why, Action: "outbox-discard"})
}

// Confirm says of a dead or unknown message that its effect has happened. m, who and why are as
// in Retry.
func (d *Desk) Confirm(ctx context.Context, m Seen, who, why string) error {
	return d.settle(ctx, m, Done, "confirmed", stet.Note{Who: who, Why: why, Action: "outbox-confirm"})
}

func (d *Desk) settle(ctx context.Context, seen Seen, to State, verb string, n stet.Note) error {
	if strings.TrimSpace(n.Who) == "" || strings.TrimSpace(n.Why) == "" {
		return failed(verb, stet.ErrNoReason)
	}
	m, err := d.Show(ctx, seen.ID)
	if err != nil {
		return err
	}
	n.Evidence = m.About()
	note, again := line(fmt.Sprintf("%s by %s: %s", verb, n.Who, n.Why)), 0
	if to == Pending {
		again = 1
	}
	err = d.Box.end(ctx, d.DB, func(tx *sql.Tx) (ended []int64, err error) {
		rows, err := affected(tx.ExecContext(ctx, d.Box.q.byHand, note, note, string(to), again, newVersion(), seen.ID, seen.Version))
		switch {
		case err != nil:
			return nil, err
		case rows == 0 && (m.Version != seen.Version || m.State == Dead || m.State == Unknown):
			return nil, fmt.Errorf("outbox: %w: the message has changed since it was looked at, and was not %s", stet.ErrStale, verb)
		case rows == 0:
			return nil, fmt.Errorf("outbox: %w: only a dead or unknown message can be %s; it was %s", stet.ErrState, verb, m.State)
		}
		if err := d.Engine.Operator().AuditIn(ctx, tx, m.Record.ID, n); err != nil {
			return nil, err
		}
		if to == Pending || m.OrderKey == "" {
			return nil, nil
		}
		return []int64{seen.ID}, nil
	})
	if errors.Is(err, stet.ErrState) || errors.Is(err, stet.ErrStale) {
		return err
	}
	return failed(verb, err)
}

// About names the message by its number and its topic, for the history.
func (s *Stored) About() string { return fmt.Sprintf("message %d of topic %s", s.ID, s.Topic) }
