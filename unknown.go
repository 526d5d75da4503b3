package stet

import (
	"context"
	"time"
)

// Unknowns returns a page of records whose outcome is unknown and that are due to be asked about, the longest due first, and the
// cursor of the next page, "" after the last. A lapsed lease shows up once it has been swept.
func (o *Operator) Unknowns(ctx context.Context, after string, limit int) (heads []Head, next string, err error) {
	q := Query{States: []State{Unknown}, After: after, Limit: limit}
	heads, next, err = o.e.due(ctx, q)
	return withoutOwn(&q, heads), next, err // no provider knows of those
}

// Probing takes a due unknown for one probe: it counts the probe and plans the next one after in, so that of any number of
// reconcilers one asks. It reports false where another was faster. With giveUp, which says who gives up and why, the record
// becomes a dead letter instead, which only people end.
func (o *Operator) Probing(ctx context.Context, h *Head, in time.Duration, giveUp *Note) (Head, bool, error) {
	next := *h
	next.Version, next.DueIn, next.Note = draw(), in, giveUp
	if giveUp != nil {
		next.Escalated, next.DueIn = true, Never
	} else {
		next.Probes++
	}
	call := detach(ctx, o.e.cfg.StoreTimeout)
	defer call.release()
	got, err := o.e.replace(call, h.Version, next, nil)
	return got, err == nil, unlessOvertaken(err)
}
