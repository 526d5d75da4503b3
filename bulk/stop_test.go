package bulk_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

// A stopped job keeps its place, whichever process works on it, until it is resumed, and then goes
// on in another one.
func TestStopAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New(memstore.Config{})
		store := faulty.New(memory, 1)
		works, other := newDesk(t, store), newDesk(t, memory)
		const n = 600
		works.unknown(0, n)
		job := works.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: n})
		store.Slow(10 * time.Millisecond)
		ctx, end := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		loops.Go(func() { _ = works.jobs.Run(ctx) })
		time.Sleep(time.Second)
		if _, err := other.jobs.Resume(t.Context(), job.ID, why); !errors.Is(err, stet.ErrState) {
			t.Errorf("it was resumed before it was stopped: %v", err)
		}
		if _, err := other.jobs.Stop(t.Context(), job.ID, stet.Note{Who: "ann"}); !errors.Is(err, stet.ErrNoReason) {
			t.Error(err)
		}
		if _, err := other.jobs.Stop(t.Context(), job.ID, why); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		half := other.get(job.ID)
		if half.State != bulk.Stopped || half.Done == 0 || half.Done == n {
			t.Fatalf("%s, %d done", half.State, half.Done)
		}
		loops.Go(func() { _ = other.jobs.Run(ctx) })
		time.Sleep(5 * time.Minute)
		other.is(job.ID, bulk.Stopped, half.Done, 0, n-half.Done)
		if got := other.changes(job.ID); got != half.Done {
			t.Errorf("%d were changed, and %d counted", got, half.Done)
		}
		if err := other.jobs.Work(t.Context(), job.ID); !errors.Is(err, bulk.ErrStopped) {
			t.Error(err)
		}
		if _, err := works.jobs.Stop(t.Context(), job.ID, why); !errors.Is(err, stet.ErrState) {
			t.Errorf("it was stopped twice: %v", err)
		}
		if jobs, err := works.jobs.Recent(t.Context()); err != nil || len(jobs) != 1 || jobs[0].State != bulk.Stopped {
			t.Errorf("%+v, %v", jobs, err)
		}
		if _, err := other.jobs.Resume(t.Context(), job.ID, why); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		other.is(job.ID, bulk.Completed, n, 0, 0)
		if _, err := other.jobs.Stop(t.Context(), job.ID, why); !errors.Is(err, stet.ErrState) {
			t.Errorf("it was stopped after its end: %v", err)
		}
		var told, about []string
		entries, _, err := other.engine.Operator().History(t.Context(), stet.HistoryQuery{Limit: 1000})
		for i := range entries {
			if entries[i].ID.Scope == stet.OwnScope {
				told = append(told, entries[i].Action())
				about = append(about, entries[i].Note.Evidence)
			}
		}
		if err != nil || !slices.Equal(told, []string{"bulk-resume", "bulk-stop", "bulk"}) || about[0] != job.ID || about[1] != job.ID {
			t.Errorf("%v, %v", told, err)
		}
		end()
		loops.Wait()
	})
}

// A process that dies while it stops a job does not say that it did, and keeps no other from it.
func TestStopAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		dying, other := newDesk(t, &cutting{Store: store}), newDesk(t, store)
		other.unknown(0, 1)
		job := other.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: 1})
		for _, d := range []*desk{dying, other} { // nor while its lease lasts
			if _, err := d.jobs.Stop(t.Context(), job.ID, why); err == nil {
				t.Fatal("it is said to be stopped")
			}
		}
		time.Sleep(other.engine.Policy().Lease)
		if got, err := other.jobs.Stop(t.Context(), job.ID, why); err != nil || got.State != bulk.Stopped {
			t.Errorf("%s, %v", got.State, err)
		}
		if err := dying.engine.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A job that nothing ends goes on by itself never again, however long it is stopped.
func TestStoppedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.New(memstore.Config{}))
		d.unknown(0, 1)
		job := d.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: 1})
		if _, err := d.jobs.Stop(t.Context(), job.ID, why); err != nil {
			t.Fatal(err)
		}
		time.Sleep(bulk.Retain + time.Minute)
		if _, _, err := d.engine.Operator().Reap(t.Context(), "", 0); err != nil {
			t.Fatal(err)
		}
		if err := d.jobs.Work(t.Context(), job.ID); !errors.Is(err, bulk.ErrStopped) || d.state(0) != stet.Unknown {
			t.Errorf("it went on: %v", err)
		}
	})
}
