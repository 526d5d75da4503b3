package figures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/walk"
)

// Bounds of what is published.
const (
	slots  = 64               // how many processes can publish
	every  = 5 * time.Second  // how often each does
	lease  = 20 * time.Second // after which one that does not is gone
	retain = 24 * time.Hour   // after which its record is removed
)

// slot is the id of a record. The ids are known beforehand, because many stores find the records of
// a scope only by looking at all records.
func slot(i int) stet.ID {
	return stet.ID{Scope: stet.OwnScope, Key: stet.Key(fmt.Sprintf("figures_%02d", i))}
}

// policy keeps a record until it has not been written for a day, and lets another process take it
// over once its lease is over.
var policy = stet.Policy{Lease: lease, Execution: stet.Never,
	Rules: stet.Rules{Retain: retain, OnLapse: stet.LapseReexecute}}

// Run publishes the figures until ctx ends, and then says that the process has ended. It always
// returns nil: while the store does not answer, it tries again. e is the engine that b observes.
// Run is to be called once.
func (b *Board) Run(ctx context.Context, e *stet.Engine) error {
	b.engine.Store(e)
	var claim *stet.Claim
	for ctx.Err() == nil {
		claim = b.publish(ctx, e, claim, b.state())
		b.count(ctx, rest.Spread(every))
	}
	if claim != nil {
		b.publish(context.WithoutCancel(ctx), e, claim, ended)
	}
	return nil
}

// count waits, and moves what is counted into its step whenever a step ends.
func (b *Board) count(ctx context.Context, wait time.Duration) {
	for end := time.Now().Add(wait); ; {
		b.mu.Lock()
		now := b.now()
		border := b.hour.end(b.hour.number(now)).Sub(now)
		b.mu.Unlock()
		left := time.Until(end)
		if !rest.For(ctx, min(left, border)) || left <= border {
			return
		}
		b.mu.Lock()
		b.collect(now.Add(border - 1))
		b.mu.Unlock()
	}
}

// publish writes the figures once, and returns the claim to the record. It is nil if there is no
// record, or no longer.
func (b *Board) publish(ctx context.Context, e *stet.Engine, c *stet.Claim, state string) *stet.Claim {
	if c == nil {
		if c = b.begin(ctx, e); c == nil {
			return nil
		}
	}
	r := b.own(state)
	doc, err := r.encode(&b.packer)
	if err != nil {
		return c
	}
	began := time.Now()
	switch err = c.Step(ctx, stet.Step{Progress: doc}); {
	case errors.Is(err, stet.ErrFenced): // this process was away for so long that another took the record
		b.yield()
		return nil
	case err != nil:
		return c
	}
	b.told = r
	b.tune(c.Head().UpdatedAt, began)
	return c
}

// published notes which record is this process's.
func (b *Board) published(slot int, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mine, b.name = slot, name
}

// begin takes a record for this process: one of a process that has ended, or that is gone from this
// host; else a new one; else the one of the process that has been gone for longest. It returns nil
// if there is none to take, or the store does not answer.
func (b *Board) begin(ctx context.Context, e *stet.Engine) *stet.Claim {
	all, err := peers(ctx, e, slots)
	if err != nil {
		return nil
	}
	host, _ := os.Hostname() // without one, no record is of this host
	var free []int
	for i := range all {
		if all[i].rank(host) != taken {
			free = append(free, i)
		}
	}
	slices.SortStableFunc(free, func(i, j int) int {
		return cmp.Or(cmp.Compare(all[i].rank(host), all[j].rank(host)), all[i].head.UpdatedAt.Compare(all[j].head.UpdatedAt))
	})
	for _, i := range free {
		began := time.Now()
		d, err := e.Begin(ctx, stet.Request{ID: slot(i), Policy: &policy})
		switch {
		case errors.Is(err, stet.ErrCorrupt), err == nil && d.Verdict != stet.Execute: // damaged, or another was faster
			continue
		case err != nil:
			return nil
		}
		b.tune(d.Record.UpdatedAt, began)
		b.published(i, d.Record.Holder)
		before, _ := decode(d.Record.Progress) // a damaged one has nothing to go on with
		b.take(&before)
		return d.Claim
	}
	return nil
}

// peer is a process as its record tells of it.
type peer struct {
	head   stet.Head // zero: there is no record in the slot
	record record
	broken bool // the record says something that cannot be read
}

// state is what became of the process.
func (p *peer) state() string {
	switch {
	case p.head.State != stet.Running || p.record.State == ended:
		return ended
	case p.head.Over():
		return gone
	}
	return cmp.Or(p.record.State, ready) // it has only just begun
}

// The order in which records are taken by a process that starts.
const (
	abandoned = iota
	unused
	lost
	taken
)

func (p *peer) rank(host string) int {
	mine := host != "" && strings.HasPrefix(p.head.Holder, host+":")
	switch {
	case p.head.State == 0:
		return unused
	case !p.head.Over():
		return taken
	case p.state() == ended, mine:
		return abandoned
	}
	return lost
}

// peers reads the records of the first n slots. A record that cannot be read is as one that says
// nothing.
func peers(ctx context.Context, e *stet.Engine, n int) ([]peer, error) {
	all := make([]peer, n)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := walk.NewWorkers(2) // a store may open a connection for each read at a time
	var failed sync.Once
	for i := range all {
		workers.Go(ctx, func() {
			r, err := e.Get(ctx, slot(i))
			switch {
			case err == nil:
				all[i].head = r.Head
				var err error
				all[i].record, err = decode(r.Progress)
				all[i].broken = err != nil && len(r.Progress) > 0
			case !errors.Is(err, stet.ErrNotFound) && !errors.Is(err, stet.ErrCorrupt):
				failed.Do(func() { cancel(err) })
			}
		})
	}
	workers.Wait()
	return all, context.Cause(ctx)
}
