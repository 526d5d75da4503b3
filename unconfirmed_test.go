package stet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// alone does what it is told, and is confirmed by no replica, as a Redis whose replica is away:
// only other writers' records are shown.
type alone struct{ stet.Store }

func (s alone) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	got, err := s.Store.Create(ctx, r)
	if err == nil || errors.Is(err, stet.ErrExists) && got.Version == r.Version {
		return stet.Record{}, stet.ErrUnconfirmed
	}
	return got, err
}

func (s alone) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	got, err := s.Store.Replace(ctx, prev, h, b)
	if err == nil || errors.Is(err, stet.ErrStale) && got.Version == h.Version {
		return stet.Head{}, stet.ErrUnconfirmed
	}
	return got, err
}

// A claim rests on a write that the store has confirmed: a record that shows a request's own
// version is none until the store says so when it is sent the same write, and a Create that finds
// it there is another write (B01, W2).
func TestNothingIsGrantedByWhatIsNotConfirmed(t *testing.T) {
	for _, before := range []stet.State{0, stet.Retryable, stet.Completed} {
		t.Run(before.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New(memstore.Config{})
				whole, err := stet.New(s, stet.Config{})
				if err != nil {
					t.Fatal(err)
				}
				cut, err := stet.New(alone{s}, stet.Config{StoreTimeout: 200 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				for i := range 50 { // tries and their pauses fall differently each time
					id := stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint(i))}
					leaveTaken(t, whole, id, before)
					if d, err := cut.Begin(t.Context(), stet.Request{ID: id}); err == nil {
						t.Errorf("key %d: %v", i, d.Verdict)
					}
				}
				if err := cut.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// leaveTaken leaves a record that the next request takes over, of a state; 0: none.
func leaveTaken(t *testing.T, e *stet.Engine, id stet.ID, state stet.State) {
	t.Helper()
	if state == 0 {
		return
	}
	d, err := e.Begin(t.Context(), stet.Request{ID: id, Policy: &stet.Policy{Rules: stet.Rules{Retain: time.Millisecond}}})
	if err != nil || d.Verdict != stet.Execute {
		t.Fatalf("%v, %v", d.Verdict, err)
	}
	if state == stet.Retryable {
		d.Claim.NotExecuted("declined")
	}
	if err := d.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err != nil {
		t.Fatal(err)
	}
	if state == stet.Completed { // its retention is over
		time.Sleep(time.Second) // of the bubble
	}
}
