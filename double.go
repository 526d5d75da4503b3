package stet

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet/internal/walk"
)

const (
	actionNote = "note" // what a person writes down about a record: see package admin

	// maxDoubleLooked bounds how many entries of the history are looked at for double effects. Each
	// is of a key that was executed twice, and costs two calls of the store.
	maxDoubleLooked = 1000
)

// DoubleEffects returns the double effects that no person has answered for yet, the newest first,
// as their entries in the history have them: one for each key, and limit at most. A person answers
// for one with an entry "note" about its record, once what was done twice is undone. Nothing is
// left to answer for when the record is gone, or was freed. The error is [ErrUnsupported] if the
// store keeps no history.
func (o *Operator) DoubleEffects(ctx context.Context, limit int) (open []Change, err error) {
	looked := map[ID]bool{}
	for page, err := range walk.Pages(func(after string) ([]Change, string, error) {
		return o.History(ctx, HistoryQuery{Who: whoTellsDoubleEffects, After: after, Limit: MaxLimit})
	}) {
		if err != nil {
			return nil, err
		}
		for i := range page {
			c := &page[i]
			if c.Action() != actionDoubleEffect || looked[c.ID] {
				continue
			}
			looked[c.ID] = true
			is, err := o.unanswered(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("stet: double effects: %w", err)
			}
			if is {
				open = append(open, *c)
			}
			if len(open) >= limit || len(looked) >= maxDoubleLooked {
				return open, nil
			}
		}
	}
	return open, nil
}

// unanswered reports whether a double effect calls for a person. told is the newest entry of it.
func (o *Operator) unanswered(ctx context.Context, told *Change) (bool, error) {
	switch have, err := o.e.Get(ctx, told.ID); {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case errors.Is(err, ErrCorrupt): // it was told of, and is not undone
	case err != nil:
		return false, err
	case have.Cause != CauseDoubleEffect, have.CreatedAt.After(told.At):
		return false, nil
	}
	noted, err := o.e.inHistory(ctx, told.ID, func(c *Change) bool {
		return c.Action() == actionNote && !c.At.Before(told.At)
	})
	return !noted, err
}
