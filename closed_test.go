package stet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// use does with a claim whatever can be done with it, and reports what had an effect.
func use(ctx context.Context, c *stet.Claim) error {
	c.NotExecuted("late")
	c.Unknown("late")
	c.Overdue("late")
	c.Completed()
	_, _, _, _, _ = c.Head(), c.Stored(), c.TookOver(), c.Ended(), c.Expires()
	if s := c.Stated(); s != 0 {
		return fmt.Errorf("it states %s", s)
	}
	c.Returned(ctx)
	held := c.Hold(ctx, lostFunc(func(cause error) { panic(cause) }))
	<-held.Done()
	if held.Err() == nil || stet.ClaimFrom(held) != c {
		return errors.New("the held context is another's")
	}
	for name, err := range map[string]error{
		"Renew":      c.Renew(ctx),
		"Publish":    c.Publish(ctx),
		"Downstream": c.Downstream(ctx, "late", "late"),
		"Step":       c.Step(ctx, stet.Step{Point: "late"}),
		"Suspend":    c.Suspend(ctx, stet.Step{Point: "late"}, 0),
		"Settle":     c.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 418}}),
	} {
		if !errors.Is(err, stet.ErrFenced) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if c.Confirm(ctx, nil) == nil || c.Close() {
		return errors.New("it was confirmed, or closed again")
	}
	return nil
}

// Handlers keep their claims, and go on using them while the memory behind them serves others. No
// claim sees or changes the record of another.
func TestKeptClaimsTouchNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := memstore.New(memstore.Config{})
		e, err := stet.New(s, stet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var late sync.WaitGroup
		run := func(key stet.Key, status int) {
			d, err := e.Begin(ctx, stet.Request{ID: stet.ID{Scope: "s", Key: key}})
			if err != nil || d.Claim == nil {
				t.Error(key, d.Verdict, err)
				return
			}
			c := d.Claim
			held := c.Hold(ctx, nil)
			fence := c.Fence()
			stop := make(chan struct{})
			for range 2 { // goroutines of the handler that know nothing of its end
				late.Go(func() {
					for ended := false; ; {
						if err := c.Renew(held); ended && !errors.Is(err, stet.ErrFenced) {
							t.Error(key, err)
						}
						if c.ID().Key != key || c.Fence() != fence || c.Attempt() != 1 || c.Head().Key != key {
							t.Error(key, "answers for another")
						}
						if ended {
							break
						}
						select {
						case <-stop:
							ended = true
						default:
						}
					}
					if err := use(held, c); err != nil {
						t.Error(key, err)
					}
				})
			}
			if err := c.Settle(ctx, stet.Outcome{Response: stet.Response{Status: status}}); err != nil {
				t.Error(key, err)
			}
			for !c.Close() { // a heartbeat of the handler's has the turn
				time.Sleep(time.Microsecond)
			}
			close(stop)
		}
		const workers, each = 8, 40
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for i := range each {
					run(stet.Key(fmt.Sprint(w, "-", i)), 200+w)
				}
			})
		}
		all.Wait()
		late.Wait()
		for w := range workers {
			for i := range each {
				r, err := s.Get(ctx, stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint(w, "-", i))})
				if err != nil || r.State != stet.Completed || r.Status != 200+w || r.Attempt != 1 || r.Point != "" || r.DownstreamID != "" {
					t.Fatalf("%d-%d: %+v, %v", w, i, r.Head, err)
				}
			}
		}
	})
}

// What a store may still read is not used again: a copy of a write without an answer may be on its
// way, in a group commit for one.
func TestUnansweredWritesKeepTheirMemory(t *testing.T) {
	ctx := t.Context()
	s := &mumbling{Store: memstore.New(memstore.Config{})}
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Begin(ctx, stet.Request{ID: stet.ID{Scope: "s", Key: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	s.next = errors.New("the answer was lost")
	if err := d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 200}}); err != nil {
		t.Fatal(err)
	}
	if d.Claim.Close() {
		t.Error("its memory is used again")
	}
}

// mumbling is a store one of whose answers is lost.
type mumbling struct {
	stet.Store
	next error
}

func (s *mumbling) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	got, err := s.Store.Replace(ctx, prev, h, b)
	if s.next != nil {
		err, s.next = s.next, nil
	}
	return got, err
}

// What a claim has handed out stays as it is when its memory serves another.
func TestStoredOutlivesTheClaim(t *testing.T) {
	ctx := t.Context()
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	run := func(key stet.Key, status int) stet.Body {
		d, err := e.Begin(ctx, stet.Request{ID: stet.ID{Scope: "s", Key: key}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: status}}); err != nil {
			t.Fatal(err)
		}
		b := d.Claim.Stored()
		if !d.Claim.Close() {
			t.Fatal("it is not closed")
		}
		return b
	}
	first := run("a", 201)
	for i := range 8 {
		run(stet.Key(fmt.Sprint(i)), 202)
	}
	if first.Response.Status != 201 {
		t.Errorf("it has become %d", first.Response.Status)
	}
}

// refusing is a store that writes nothing while it is down.
type refusing struct {
	stet.Store
	down atomic.Bool
}

func (s *refusing) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if s.down.Load() {
		return stet.Head{}, errors.New("the store is down")
	}
	return s.Store.Replace(ctx, prev, h, b)
}

// I3: while the first outcome is being stored, a second one is refused, and nothing of it is
// stored.
func TestARefusedOutcomeIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := &refusing{Store: memstore.New(memstore.Config{})}
		e, err := stet.New(s, stet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		id := stet.ID{Scope: "s", Key: "k"}
		d, err := e.Begin(ctx, stet.Request{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		d.Claim.Hold(ctx, nil)
		s.down.Store(true)
		if err := d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("first")}}); err == nil {
			t.Fatal("it was stored")
		}
		if err := d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 500, Body: []byte("the second")}}); !errors.Is(err, stet.ErrFenced) {
			t.Errorf("a second outcome: %v", err)
		}
		s.down.Store(false)
		time.Sleep(time.Minute) // by the clock of the bubble: it is tried again meanwhile
		got, err := s.Get(ctx, id)
		if err != nil || got.State != stet.Completed || got.Status != 201 || string(got.Response.Body) != "first" {
			t.Errorf("stored are %v, status %d, %+v (%v)", got.State, got.Status, got.Response, err)
		}
	})
}
