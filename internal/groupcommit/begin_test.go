package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// disk is a driver with one transaction at a time, which tests hold up and look into.
type disk struct {
	gate    chan struct{}                   // not nil: a commit waits for it
	started func(ctx context.Context) error // not nil: stands for begin
	carry   func(w *write)                  // not nil: stands for a statement

	busy    atomic.Bool
	mu      sync.Mutex
	batches [][]string
}

// write is a write of a test.
type write struct {
	Call
	key string
}

func (d *disk) begin(w *write) error {
	if !d.busy.CompareAndSwap(false, true) {
		panic("two leaders")
	}
	err := w.Ctx.Err()
	if d.started != nil {
		err = d.started(w.Ctx)
	}
	if err != nil {
		d.busy.Store(false)
		return Nothing(err)
	}
	return nil
}

func (d *disk) commit(_ context.Context, batch []*write) error {
	defer d.busy.Store(false)
	var keys []string
	for _, w := range batch {
		keys = append(keys, w.key)
		if d.carry != nil {
			d.carry(w)
		}
		w.Err = nil
	}
	d.mu.Lock()
	d.batches = append(d.batches, keys)
	d.mu.Unlock()
	if d.gate != nil {
		<-d.gate
	}
	return nil
}

var errClosed = errors.New("closed")

const (
	maxGroup = 256
	maxBytes = 4 << 20
)

func (d *disk) queue() *Queue[*write] {
	return New(Config[*write]{Begin: d.begin, Many: d.commit, Groups: 1, MaxGroup: maxGroup, MaxBytes: maxBytes, Closed: errClosed})
}

func to(ctx context.Context, key string) *write { return &write{Call: Call{Ctx: ctx}, key: key} }

func (d *disk) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprint(d.batches)
}

// line sends writes one after the other, the first of which holds the disk, and returns their
// errors' receiver.
func line(q *Queue[*write], keys ...string) (errs func() []error) {
	var wg sync.WaitGroup
	got := make([]error, len(keys))
	for i, k := range keys {
		wg.Go(func() { got[i] = q.Do(to(context.Background(), k)) })
		synctest.Wait()
	}
	return func() []error { wg.Wait(); return got }
}

func TestNextGroupGathersWhileOneIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		errs := line(d.queue(), "a", "b", "c", "d")
		if got := d.String(); got != "[[a]]" {
			t.Fatalf("before the first was synced: %s", got)
		}
		close(d.gate)
		if err := errors.Join(errs()...); err != nil {
			t.Fatal(err)
		}
		if got := d.String(); got != "[[a] [b c d]]" {
			t.Fatalf("got %s", got)
		}
	})
}

// A leader writes for others only while it writes for itself.
func TestLeadIsHandedOnAfterOneGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := d.queue()
		first := make(chan error, 1)
		go func() { first <- q.Do(to(context.Background(), "a")) }()
		synctest.Wait()
		errs := line(q, "b", "c")
		d.gate <- struct{}{} // a is synced; b leads, and holds the disk
		synctest.Wait()
		select {
		case err := <-first:
			if err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatal("the first leader still works, for others")
		}
		close(d.gate)
		errs()
	})
}

func TestWhoGivesUpWhileQueuedIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := d.queue()
		errs := line(q, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := q.Do(to(ctx, "gone")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Fatalf("it took %s to give up", took)
		}
		others := line(q, "b")
		close(d.gate)
		errs()
		others()
		if got := d.String(); got != "[[a] [b]]" {
			t.Fatalf("got %s", got)
		}
	})
}

// The first of a group may leave while the database is not ready for it: the others go on, and it
// is not written.
func TestFirstOfAGroupLeavesBeforeItBegins(t *testing.T) {
	for name, heeds := range map[string]bool{"begin fails": true, "begin succeeds": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{gate: make(chan struct{})}
				q := d.queue()
				first := line(q, "a")
				ready := make(chan struct{})
				d.started = func(ctx context.Context) error {
					if ctx.Done() == nil {
						return nil
					}
					<-ready
					if heeds {
						return ctx.Err()
					}
					return nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				left := make(chan error, 1)
				go func() { left <- q.Do(to(ctx, "leaver")) }()
				synctest.Wait()
				others := line(q, "stayer")
				close(d.gate) // the next group is begun, by the leaver's context
				synctest.Wait()
				cancel()
				if err := <-left; !errors.Is(err, ErrNothing) || !errors.Is(err, context.Canceled) {
					t.Errorf("who left: %v", err)
				}
				close(ready)
				if err := errors.Join(append(first(), others()...)...); err != nil {
					t.Error(err)
				}
				if got := d.String(); got != "[[a] [stayer]]" {
					t.Errorf("got %s", got)
				}
			})
		})
	}
}

// A write that is on its way to the disk is not waited for any longer than its caller said.
func TestDeadlineOfAWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := d.queue()
		errs := line(q, "a", "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := make(chan error, 1)
		go func() { late <- q.Do(to(ctx, "late")) }()
		synctest.Wait()
		d.gate <- struct{}{} // b leads, with late in its group
		if err := <-late; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if got := d.String(); got != "[[a] [b late]]" {
			t.Fatalf("got %s", got)
		}
		close(d.gate)
		errs()
	})
}

// Who waits in vain for another process's transaction fails alone.
func TestLeaderThatCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		d := &disk{started: func(ctx context.Context) error {
			select {
			case <-free:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		q := d.queue()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := make(chan error, 1)
		go func() { first <- q.Do(to(ctx, "a")) }()
		synctest.Wait()
		errs := line(q, "b", "c")
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		close(free)
		if err := errors.Join(errs()...); err != nil {
			t.Fatal(err)
		}
		if got := d.String(); got != "[[b c]]" {
			t.Fatalf("got %s", got)
		}
	})
}

func TestPanicOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := d.queue()
		first := line(q, "a")
		d.carry = func(w *write) {
			if w.key == "b" {
				panic("a driver's")
			}
		}
		lead := make(chan any, 1)
		go func() {
			defer func() { lead <- recover() }()
			_ = q.Do(to(context.Background(), "b"))
		}()
		synctest.Wait()
		others := line(q, "c")
		close(d.gate)
		first()
		if p := <-lead; p != "a driver's" {
			t.Fatalf("recovered %v", p)
		}
		if errs := others(); !errors.Is(errs[0], ErrUnknown) {
			t.Fatalf("its group: %v", errs)
		}
		if err := q.Do(to(context.Background(), "d")); err != nil {
			t.Fatalf("the next: %v", err)
		}
	})
}

func TestGroupsAndQueueAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := d.queue()
		first := line(q, "a")
		var wg sync.WaitGroup
		for range maxWaiting {
			wg.Go(func() { _ = q.Do(to(context.Background(), "b")) })
		}
		synctest.Wait()
		if err := q.Do(to(context.Background(), "c")); !errors.Is(err, errQueueFull) {
			t.Fatalf("one too many: %v", err)
		}
		close(d.gate)
		first()
		wg.Wait()
		for _, b := range d.batches {
			if len(b) > maxGroup {
				t.Fatalf("a group of %d", len(b))
			}
		}
		if n := len(d.batches); n != 1+maxWaiting/maxGroup {
			t.Fatalf("%d groups", n)
		}
	})
}

func TestGroupsAreBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := d.queue()
		first := line(q, "a")
		var wg sync.WaitGroup
		for _, k := range []string{"huge", "b", "c", "d"} {
			wg.Go(func() {
				o := to(context.Background(), k)
				o.Size = maxBytes / 2
				if k == "huge" {
					o.Size = 2 * maxBytes
				}
				_ = q.Do(o)
			})
			synctest.Wait()
		}
		close(d.gate)
		first()
		wg.Wait()
		if got := d.String(); got != "[[a] [huge] [b c] [d]]" {
			t.Fatalf("got %s", got)
		}
	})
}

// A write that waits for long is looked at beside the queue. What is found is its answer; where
// nothing is found, it waits again.
func TestLateWritesAreLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := d.queue()
		found := errors.New("it is there")
		var looked []string
		q.LookAfter = time.Second
		q.Look = func(w *write) error {
			if looked = append(looked, w.key); w.key == "there" {
				return found
			}
			return nil
		}
		first := line(q, "a")
		began := time.Now()
		errs := make(chan error, 2)
		go func() { errs <- q.Do(to(t.Context(), "there")) }()
		if err := <-errs; err != found || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		go func() { errs <- q.Do(to(t.Context(), "new")) }()
		synctest.Wait()
		time.Sleep(2 * time.Second) // of the bubble
		close(d.gate)
		first()
		if err := <-errs; err != nil {
			t.Error(err)
		}
		if got := d.String(); got != "[[a] [new]]" || !slices.Equal(looked, []string{"there", "new"}) {
			t.Errorf("%s was written, %q were looked at", got, looked)
		}
	})
}

// A write that is looked at keeps its place in the queue. Those for which Looks is false are not
// looked at.
func TestLateWritesKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := d.queue()
		var looked []string
		q.LookAfter = time.Second
		q.Look = func(w *write) error { looked = append(looked, w.key); return nil }
		q.Looks = func(w *write) bool { return w.key == "old" }
		first := line(q, "a")
		old := line(q, "old")
		time.Sleep(time.Second / 2) // of the bubble
		young := line(q, "young")
		time.Sleep(2 * time.Second)
		close(d.gate)
		if err := errors.Join(slices.Concat(first(), old(), young())...); err != nil {
			t.Error(err)
		}
		if got := d.String(); got != "[[a] [old young]]" || !slices.Equal(looked, []string{"old"}) {
			t.Errorf("%s was written, %q were looked at", got, looked)
		}
	})
}

// A write that is on its way when the look has found something has its group's answer: it may have
// happened by then.
func TestLookIsNoAnswerToAWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := d.queue()
		looking := make(chan struct{})
		q.LookAfter = time.Second
		q.Look = func(*write) error { <-looking; return errors.New("it is there") }
		first := line(q, "a")
		errs := line(q, "b")
		time.Sleep(2 * time.Second) // of the bubble
		d.gate <- struct{}{}
		synctest.Wait() // b is on its way
		close(looking)
		synctest.Wait()
		close(d.gate)
		if err := errors.Join(append(first(), errs()...)...); err != nil {
			t.Error(err)
		}
	})
}

// A lone leader whose driver panics leaves none of its group waiting.
func TestPanicOfALoneLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan struct{})
		d := &disk{started: func(context.Context) error { <-ready; return nil }}
		d.carry = func(w *write) {
			if w.key == "b" {
				panic("a driver's")
			}
		}
		q := d.queue()
		lead := make(chan any, 1)
		go func() {
			defer func() { lead <- recover() }()
			_ = q.Do(to(context.Background(), "a"))
		}()
		synctest.Wait()
		others := line(q, "b", "c")
		close(ready)
		if p := <-lead; p != "a driver's" {
			t.Errorf("recovered %v", p)
		}
		for _, err := range others() {
			if !errors.Is(err, ErrUnknown) {
				t.Errorf("its group: %v", err)
			}
		}
		if err := q.Do(to(context.Background(), "d")); err != nil {
			t.Errorf("the next: %v", err)
		}
	})
}

func TestCloseWaitsForWritesAndRefusesNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := d.queue()
		errs := line(q, "a", "b")
		closed := make(chan struct{})
		go func() { q.Close(); close(closed) }()
		synctest.Wait()
		if err := q.Do(to(context.Background(), "c")); !errors.Is(err, errClosed) {
			t.Fatalf("a new one: %v", err)
		}
		select {
		case <-closed:
			t.Fatal("closed while a write is on its way")
		default:
		}
		close(d.gate)
		if err := errors.Join(errs()...); err != nil {
			t.Fatal(err)
		}
		<-closed
		if got := d.String(); got != "[[a] [b]]" {
			t.Fatalf("got %s", got)
		}
		q.Close()
	})
}
