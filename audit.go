package stet

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Audit adds an entry to the history that changes no record: that somebody was shown one, was turned away, or did something
// beside the records. id may be zero where it is about none. The note needs Who and Action. When Audit returns nil the entry is
// stored, and outlives the record; after an error it may be, and what was to be done upon it is better not done. The end of ctx
// does not interrupt it: who goes away leaves the entry behind. A store without a history is [ErrUnsupported].
func (o *Operator) Audit(ctx context.Context, id ID, n Note) error {
	call := detach(ctx, o.e.cfg.StoreTimeout)
	defer call.release()
	began := o.e.Clock()
	err := o.e.entry(call, o.e.store, id, n)
	if !errors.Is(err, errNoHistory) {
		o.e.called("audit", began, err)
	}
	return err
}

// AuditIn is [Operator.Audit] within tx, a transaction of the caller's on the database that holds the records: the entry is there
// when and if tx is committed, in one with what it tells of. tx is of a type that the store's [Binder] takes, else [ErrForeignTx].
// With any other error tx must be rolled back.
func (o *Operator) AuditIn(ctx context.Context, tx any, id ID, n Note) error {
	bound, err := bind(o.e.store, tx)
	if err != nil {
		return fmt.Errorf("stet: AuditIn: %w", err)
	}
	call := detach(ctx, o.e.cfg.StoreTimeout)
	defer call.release()
	return o.e.entry(call, bound, id, n)
}

func (e *Engine) entry(ctx context.Context, s Store, id ID, n Note) error {
	if blank(n.Who) || n.Action == "" {
		return errors.New("stet: an audit entry needs who did it and what: give the note Who and Action")
	}
	h, ok := As[Historian](s)
	if !ok {
		return errNoHistory
	}
	c := Change{ID: id, Note: n}
	if id != (ID{}) {
		c.Tag = e.Tag(id)
	}
	return h.Append(ctx, c)
}

// blank: there is nothing in it that somebody could read.
func blank(s string) bool { return strings.TrimSpace(s) == "" }
