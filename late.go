package stet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// witnessFor is how long a result that could not be stored before its lease ended is kept to be put down as evidence: long enough
// for a store to be repaired, and no longer than one would keep answers in memory for.
const witnessFor = 15 * time.Minute

// CauseContradicted is the Cause of a record that was freed on evidence that nothing had happened, before its handler came back with
// an answer: nobody knows which of them is right.
const CauseContradicted = "contradicted"

// testify leaves a result that came too late with its record, which stays unknown: it can change nothing any more, but whoever
// ends the doubt should know that the handler came to an end, and with what (SF-05). The response is kept in the record's Body, and
// is given to nobody before a reconciler or an operator adopts it; the history says when it came. A key that was freed meanwhile, and
// not used, is unknown again. A record that has gone on since, in another run or life, has nothing to learn from it. It reports true where there is nothing left to do.
func (c *Claim) testify(call *detached, h *Head, b *Body) (bool, error) {
	have, err := c.e.get(call, c.id)
	switch {
	case errors.Is(err, ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	case !have.CreatedAt.Equal(h.CreatedAt) || have.Attempt != h.Attempt:
		return true, nil
	}
	from, next := have.State, have.Head
	switch {
	case have.State == Running && judge(&have.Head, true).move == lapse:
		next = lapsed(&have.Head)
	case have.State == Running && !have.Over(): // by the store's clock the lease is not over yet
		return false, nil
	case have.State == Retryable && h.State == Completed: // what freed the key is contradicted, and no retry has run
		next.State, next.Cause = Unknown, CauseContradicted
	case have.State != Unknown:
		return true, nil
	}
	note := Note{Who: c.e.cfg.Holder, Why: "a result that came too late", Evidence: evidence(h)}
	if have.Note != nil && *have.Note == note { // it was written, and the answer was lost
		return true, nil
	}
	if next.Version, next.Note, next.DueIn = draw(), &note, 0; next.Escalated { // people have it
		next.DueIn = Never
	}
	next.Took = have.AsOf.Sub(have.CreatedAt) // the handler has only now returned
	var body *Body
	if h.State == Completed {
		next.Status, next.Size, next.Kept = h.Status, h.Size, h.Kept
		body = &Body{Response: b.Response, Request: have.Request, Progress: have.Progress}
		if body.Response == nil {
			body.Response = &Response{Status: h.Status}
		}
	}
	got, err := c.e.replace(call, have.Version, next, body)
	if err == nil && from != Unknown {
		c.e.moved(&got, from, "holder")
	}
	return err == nil, err
}

func evidence(h *Head) string {
	if h.State == Completed {
		return fmt.Sprintf("attempt %d was answered %d, with %d bytes", h.Attempt, h.Status, h.Size)
	}
	return fmt.Sprintf("attempt %d stated that nothing happened", h.Attempt)
}

// testifies: an outcome that is itself unknown is no evidence.
func testifies(h *Head) bool { return h.State == Completed || h.State == Retryable }

// testifyOnce is for a holder that was overtaken, and waits.
func (c *Claim) testifyOnce(ctx context.Context, h *Head, b *Body) {
	if !testifies(h) {
		return
	}
	call := detach(ctx, c.e.cfg.StoreTimeout)
	defer call.release()
	for pause := firstWait; ; {
		done, err := c.testify(call, h, b)
		if done || err == nil || !errors.Is(err, ErrStale) || !sleep(call, &pause, call.deadline) {
			return
		}
	}
}

// testifyLater is for a store that did not take the result while the lease lasted. It tries for a while, and once more when somebody
// waits for the engine to come to rest: a process that ends does not wait for a store that is away.
func (c *Claim) testifyLater(ctx context.Context, h Head, b *Body) {
	if !testifies(&h) {
		return
	}
	end := time.Now().Add(witnessFor)
	c.e.chores.startUpTo(maxCleanups, func() {
		hurried := c.e.chores.hurried()
		for pause := 100 * firstWait; ; pause = min(2*pause, c.e.cfg.StoreTimeout) {
			t := time.NewTimer(pause/2 + rand.N(pause))
			last := false
			select {
			case <-t.C:
				last = !time.Now().Before(end)
			case <-hurried:
				last = true
				t.Stop()
			}
			call := detach(ctx, c.e.cfg.StoreTimeout)
			done, _ := c.testify(call, &h, b)
			call.release()
			if done || last {
				return
			}
		}
	})
}
