package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
)

// Bounds of what is published.
const (
	slots  = 64                   // processes that can publish
	every  = 10 * time.Second     // how often each does
	lease  = 5 * every / 2        // after which one that does not is gone, and its record is free
	told   = 24 * time.Hour       // for how long a process that has ended, or is gone, is told of
	retain = 365 * 24 * time.Hour // for which its record stays, so that the slots in use have no gap
	maxGap = 3                    // slots in a row without a record, after which none is looked for
)

// slot is the id of a record. The ids are known beforehand, because many stores find the records of
// a scope only by looking at all records.
func slot(i int) stet.ID {
	return stet.ID{Scope: stet.OwnScope, Key: stet.Key(fmt.Sprintf("fleet_%02d", i))}
}

// policy lets another process take a record once its lease is over.
var policy = stet.Policy{Lease: lease, Execution: stet.Never,
	Rules: stet.Rules{Retain: retain, OnLapse: stet.LapseReexecute}}

// place is where this process publishes.
type place struct {
	mu        sync.Mutex
	slot      int // of its record; meaningless without a name
	name      string
	unheard   bool                 // the last write failed, or there was no slot
	elsewhere bool                 // another process measures
	measured  []map[string]float64 // by this one, by the parts of the figures
	perSecond float64
	beat      time.Time // the last write, and the requests until then
	requests  int
}

// Run publishes what is counted until ctx ends, and then that the process has ended. It always
// returns nil: while the store does not answer, it tries again. e is the engine that b observes.
// Run is to be called once.
func (b *Board) Run(ctx context.Context, e *stet.Engine) error {
	b.engine.Store(e)
	claim := b.publish(ctx, e, nil, b.state())
	var measuring sync.WaitGroup
	measuring.Go(func() { b.keepMeasured(ctx, e) })
	for rest.For(ctx, rest.Spread(every)) {
		claim = b.publish(ctx, e, claim, b.state())
	}
	measuring.Wait()
	if claim != nil {
		b.publish(context.WithoutCancel(ctx), e, claim, ended)
	}
	return nil
}

// publish writes the record once, and returns the claim to it. The claim is nil if there is no
// record, or no longer.
func (b *Board) publish(ctx context.Context, e *stet.Engine, c *stet.Claim, state string) *stet.Claim {
	if c == nil {
		c = b.takeSlot(ctx, e)
	}
	err := stet.ErrNotFound // no slot
	if c != nil {
		var doc []byte
		if doc, err = b.heartbeat(state).encode(); err == nil {
			err = c.Step(ctx, stet.Step{Progress: doc})
		}
	}
	p := &b.place
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unheard = err != nil
	if errors.Is(err, stet.ErrFenced) { // it was away for so long that another process took the record
		p.name, c = "", nil
	}
	return c
}

// heartbeat is the record that is written now.
func (b *Board) heartbeat(state string) record {
	r := b.record(state)
	p := &b.place
	p.mu.Lock()
	defer p.mu.Unlock()
	n := r.requests()
	if passed := r.At.Sub(p.beat); !p.beat.IsZero() && passed > 0 {
		p.perSecond = float64(n-p.requests) / passed.Seconds()
	}
	p.beat, p.requests = r.At, n
	r.PerSecond, r.Measured = p.perSecond, p.allMeasured()
	return r
}

// takeSlot takes the first record that no process holds. It returns nil if there is none, or the
// store does not answer.
func (b *Board) takeSlot(ctx context.Context, e *stet.Engine) *stet.Claim {
	for i := range slots {
		p, err := readPeer(ctx, e, i)
		if err != nil {
			return nil
		}
		if p.alive() {
			continue
		}
		d, err := e.Begin(ctx, stet.Request{ID: slot(i), Policy: &policy})
		switch {
		case errors.Is(err, stet.ErrCorrupt), err == nil && d.Verdict != stet.Execute: // damaged, or another process was faster
			continue
		case err != nil:
			return nil
		}
		if p.broken || len(p.record.Asked) > 0 || !p.record.Forgot.IsZero() { // what that process knew is told no longer
			b.asked.lose()
		}
		b.place.mu.Lock()
		defer b.place.mu.Unlock()
		b.place.slot, b.place.name = i, d.Record.Holder
		return d.Claim
	}
	return nil
}

// peer is a process as its record tells of it.
type peer struct {
	head   stet.Head // zero: there is no record in the slot
	record record    // its instants are the store's
	broken bool      // the record says something that cannot be read
}

// alive reports whether a process holds the record.
func (p *peer) alive() bool { return p.head.State == stet.Running && !p.head.Over() }

// state is what became of the process.
func (p *peer) state() string {
	switch {
	case p.head.State != stet.Running, p.record.State == ended:
		return ended
	case p.head.Over():
		return gone
	case p.record.State == "": // it has only just begun
		return ready
	}
	return p.record.State
}

// readPeer reads the record of a slot. One that cannot be read is as one that says nothing.
func readPeer(ctx context.Context, e *stet.Engine, i int) (p peer, err error) {
	r, err := e.Get(ctx, slot(i))
	switch {
	case errors.Is(err, stet.ErrNotFound), errors.Is(err, stet.ErrCorrupt):
		return peer{}, nil
	case err != nil:
		return peer{}, err
	}
	p.head = r.Head
	if p.record, err = decode(r.Progress); err != nil {
		p.broken = len(r.Progress) > 0
		return p, nil
	}
	p.record.move(p.head.UpdatedAt.Sub(p.record.At))
	return p, nil
}

// readPeers reads the records of all processes.
func readPeers(ctx context.Context, e *stet.Engine) (all []peer, err error) {
	for i, gap := 0, 0; i < slots && gap < maxGap; i++ {
		p, err := readPeer(ctx, e, i)
		if err != nil {
			return nil, err
		}
		if gap++; p.head.State != 0 {
			gap = 0
		}
		all = append(all, p)
	}
	return all, nil
}

// keepMeasured has the figures of the store measured, or heard from another process, until ctx ends.
func (b *Board) keepMeasured(ctx context.Context, e *stet.Engine) {
	if len(b.conf.Measures) == 0 && b.conf.Measured == nil {
		return
	}
	var measuring sync.WaitGroup
	defer measuring.Wait()
	for first := true; ; first = false {
		values, elsewhere := b.hearMeasured(ctx, e)
		b.place.mu.Lock()
		if b.place.elsewhere = elsewhere; elsewhere || first {
			b.place.measured = make([]map[string]float64, len(b.conf.Measures))
		}
		b.place.mu.Unlock()
		if elsewhere && b.conf.Measured != nil {
			b.conf.Measured(values)
		}
		for i, measure := range b.conf.Measures {
			if first {
				measuring.Go(func() { b.keepMeasuring(ctx, i, measure, e) })
			}
		}
		if !rest.For(ctx, rest.Spread(every)) {
			return
		}
	}
}

// keepMeasuring measures one part of the figures while no other process does.
func (b *Board) keepMeasuring(ctx context.Context, i int, measure Measure, e *stet.Engine) {
	for p := &b.place; ; {
		p.mu.Lock()
		mine := !p.elsewhere
		p.mu.Unlock()
		began := time.Now()
		if mine {
			values := measure(ctx, e)
			p.mu.Lock()
			mine = !p.elsewhere // still
			if mine {
				p.measured[i] = values
				values = p.allMeasured()
			}
			p.mu.Unlock()
			if mine && b.conf.Measured != nil {
				b.conf.Measured(values)
			}
		}
		if !rest.For(ctx, max(rest.Spread(every), 20*time.Since(began))) {
			return
		}
	}
}

// allMeasured are all parts together; nil: none is known. The caller holds the lock.
func (p *place) allMeasured() (all map[string]float64) {
	for _, part := range p.measured {
		if part != nil && all == nil {
			all = map[string]float64{}
		}
		maps.Copy(all, part)
	}
	return all
}

// hearMeasured returns what a process in an earlier slot has measured, and whether there is one that
// measures, or may be: the store did not answer.
func (b *Board) hearMeasured(ctx context.Context, e *stet.Engine) (values map[string]float64, elsewhere bool) {
	b.place.mu.Lock()
	before, own := b.place.slot, b.place.name
	if b.place.name == "" || b.place.unheard { // another process may have taken over
		before = slots
	}
	b.place.mu.Unlock()
	for i, gap := 0, 0; i < before && gap < maxGap; i++ {
		p, err := readPeer(ctx, e, i)
		if err != nil {
			return nil, true
		}
		if p.alive() && p.record.Measured != nil && p.head.Holder != own {
			return p.record.Measured, true
		}
		if gap++; p.head.State != 0 {
			gap = 0
		}
	}
	return nil, false
}
