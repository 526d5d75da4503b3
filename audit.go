package stet

import (
	"context"
	"errors"
)

// Actions of entries that the states of a record do not tell: for [Note].Action.
const (
	ActionReveal        = "reveal"         // somebody was shown a key and what is stored under it
	ActionNote          = "note"           // somebody wrote something down about a record
	ActionLoginRefused  = "login-refused"  // somebody was turned away at the admin listener
	ActionOutboxRetry   = "outbox-retry"   // a message of the outbox is delivered once more
	ActionOutboxDiscard = "outbox-discard" // a message of the outbox is given up
	ActionBulk          = "bulk"           // many records were to be changed at once
	ActionProbe         = "probe"          // the keeper was told to ask again now
)

// Audit adds an entry to the history that changes no record: that somebody was shown one, was turned away, or did something
// beside the records. id may be zero where it is about none. The note needs Who and Action. When Audit returns nil the entry is
// stored, and outlives the record; after an error it may be, and what was to be done upon it is better not done. The end of ctx
// does not interrupt it: who goes away leaves the entry behind. A store without a history is [ErrNoHistory].
func (e *Engine) Audit(ctx context.Context, id ID, n Note) error {
	if n.Who == "" || n.Action == "" {
		return errors.New("stet: Audit needs who did it and what: give the note Who and Action")
	}
	h, ok := As[Historian](e.store)
	if !ok {
		return ErrNoHistory
	}
	c := Change{ID: id, Note: n}
	if id != (ID{}) {
		c.Tag = e.Tag(id)
	}
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	began := e.Clock()
	err := h.Append(call, c)
	e.called("audit", began, err)
	return err
}
