package stet

import (
	"context"
	"sync"
)

// holding are the claims that are held: what runs in this process.
type holding struct {
	mu    sync.Mutex
	first *keeper
}

func (h *holding) add(k *keeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k.after = h.first
	if h.first != nil {
		h.first.before = k
	}
	h.first = k
}

func (h *holding) remove(k *keeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case k.before != nil:
		k.before.after = k.after
	case h.first == k:
		h.first = k.after
	}
	if k.after != nil {
		k.after.before = k.before
	}
	k.before, k.after = nil, nil
}

func (h *holding) all() (claims []*Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := h.first; k != nil; k = k.after {
		claims = append(claims, k.claim)
	}
	return claims
}

// CauseAbandoned is the Cause of a record whose process ended before its run did.
const CauseAbandoned = "abandoned"

// Abandon is for a process that cannot wait any longer: it ends every held context with cause [ErrAbandoned], and their records
// become unknown at once, rather than when their leases end, so that somebody can find out what became of them. It
// returns how many there were. A handler that comes back all the same can still settle its claim, as after a timeout.
func (e *Engine) Abandon(ctx context.Context) int {
	claims := e.holding.all()
	n := 0
	var wg sync.WaitGroup
	for _, c := range claims {
		lost, mine := c.abandon()
		if !mine {
			continue
		}
		n++
		wg.Go(func() {
			if lost != nil { // it settles, and tells its client
				lost.Lost(ErrAbandoned)
				return
			}
			c.Overdue(CauseAbandoned)
			_ = c.Settle(ctx, Outcome{}) // where that fails, the lease ends it
		})
	}
	wg.Wait()
	return n
}

// abandon ends the held context, unless it has ended.
func (c *Claim) abandon() (Lost, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.keeper
	if k.over || c.phase != active { // a transaction tells by itself: uncommitted, it is rolled back
		return nil, false
	}
	_ = k.lapse(ErrAbandoned)
	return k.lost, true
}
