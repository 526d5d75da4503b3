package stet

import (
	"context"
	"sync/atomic"
	"time"
)

// What a loop of package maintenance does by default every 10 seconds (a Sweeper), or every minute
// (a Reaper), no loop does if it is still to be done after 60 times as long.
const (
	neglectedRun    = 10 * time.Minute
	neglectedResult = time.Hour
)

// Neglected returns a record that the loops of package maintenance should have ended long ago, if
// there is one: a run whose lease ended more than 10 minutes ago (a Sweeper ends it), or a result
// whose retention was over more than an hour ago (a Reaper ends it). Then no process runs the loop
// on this store, or it does not keep up. It looks at one page of what is due.
//
//	h, neglected, err := engine.Operator().Neglected(ctx)
func (o *Operator) Neglected(ctx context.Context) (h Head, neglected bool, err error) {
	for _, q := range []struct {
		states  []State
		overdue time.Duration
	}{{[]State{Running}, neglectedRun}, {[]State{Completed, Retryable, Expired}, neglectedResult}} {
		heads, _, err := o.e.due(ctx, Query{States: q.states})
		if err != nil {
			return Head{}, false, err
		}
		for i := range heads {
			h := &heads[i]
			if !h.Over() || h.AsOf.Sub(h.DueAt) <= q.overdue {
				continue
			}
			if _, ends := ending(h); ends || h.State != Running { // else a request or a completer takes it over
				return *h, true, nil
			}
		}
	}
	return Head{}, false, nil
}

// neglect says when the engine looks for what is neglected.
type neglect struct {
	began time.Time
	next  atomic.Int64 // in ns since began
}

// lookEvery is the least time from one look to the next, and to the first.
const lookEvery = neglectedRun

// lookForNeglect tells the observer of what is neglected, if it is time to look. It is called with
// each request, and waits for nothing.
func (e *Engine) lookForNeglect(now time.Time) {
	since, next := int64(now.Sub(e.neglect.began)), e.neglect.next.Load()
	if since < next || e.bound || e.cfg.Observe == nil || !e.neglect.next.CompareAndSwap(next, since+int64(lookEvery)) {
		return
	}
	e.Go(0, func() {
		if h, neglected, err := e.Operator().Neglected(context.Background()); err == nil && neglected {
			e.cfg.Observe(Event{Kind: Neglected, ID: h.ID, Route: h.Route, TraceID: h.TraceID, From: h.State, Took: h.AsOf.Sub(h.DueAt)})
		}
	})
}
