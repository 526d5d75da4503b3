package sqlstore

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
)

// disk is a committer that tests hold up and look into.
type disk struct {
	gate    chan struct{}                   // not nil: a commit waits for it
	started func(ctx context.Context) error // not nil: stands for begin
	carry   func(o *op)                     // not nil: stands for a statement

	busy    atomic.Bool
	mu      sync.Mutex
	batches [][]stet.Key
	closed  int
}

func (d *disk) begin(o *op) error {
	if !d.busy.CompareAndSwap(false, true) {
		panic("two leaders")
	}
	err := o.ctx.Err()
	if d.started != nil {
		err = d.started(o.ctx)
	}
	if err != nil {
		d.busy.Store(false)
		return fmt.Errorf("%w: %w", errNothing, err)
	}
	return nil
}

func (d *disk) commit(batch []*op) {
	defer d.busy.Store(false)
	var keys []stet.Key
	for _, o := range batch {
		keys = append(keys, o.id.Key)
		o.err = nil
		if d.carry != nil {
			d.carry(o)
		}
	}
	d.mu.Lock()
	d.batches = append(d.batches, keys)
	d.mu.Unlock()
	if d.gate != nil {
		<-d.gate
	}
}

func (d *disk) close() error { d.closed++; return nil }

func write(ctx context.Context, key string) *op {
	return newOp(ctx, create, &stet.Head{ID: stet.ID{Key: stet.Key(key)}}, &stet.Body{})
}

func (d *disk) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b [][]string
	for _, keys := range d.batches {
		var s []string
		for _, k := range keys {
			s = append(s, string(k))
		}
		b = append(b, s)
	}
	return fmt.Sprint(b)
}

// line sends writes one after the other, the first of which holds the disk, and returns their errors' receiver.
func line(q *queue, keys ...string) (errs func() []error) {
	var wg sync.WaitGroup
	got := make([]error, len(keys))
	for i, k := range keys {
		wg.Go(func() { got[i] = q.do(write(context.Background(), k)) })
		synctest.Wait()
	}
	return func() []error { wg.Wait(); return got }
}

func TestNextGroupGathersWhileOneIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		errs := line(&queue{committer: d}, "a", "b", "c", "d")
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
		q := &queue{committer: d}
		first := make(chan error, 1)
		go func() { first <- q.do(write(context.Background(), "a")) }()
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
		q := &queue{committer: d}
		errs := line(q, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := q.do(write(ctx, "gone")); !errors.Is(err, context.DeadlineExceeded) {
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

// The lead may come in the instant in which its receiver gives up: it is handed on, not lost.
func TestLeadGivenToOneWhoLeaves(t *testing.T) {
	q := &queue{committer: &disk{}, led: true}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	leaver, stayer := write(ctx, "leaver"), write(t.Context(), "stayer")
	for _, o := range []*op{leaver, stayer} {
		if lead, err := q.enter(o); lead || err != nil {
			t.Fatal(lead, err)
		}
	}
	q.mu.Lock()
	q.next()
	q.mu.Unlock()
	if err := q.leave(leaver); !errors.Is(err, errNothing) {
		t.Fatalf("got %v", err)
	}
	select {
	case lead := <-stayer.turn:
		if !lead {
			t.Fatal("answered instead")
		}
	default:
		t.Fatal("nobody leads")
	}
}

// A write that is on its way to the disk is not waited for any longer than its caller said.
func TestDeadlineOfAWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := &queue{committer: d}
		errs := line(q, "a", "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := make(chan error, 1)
		go func() { late <- q.do(write(ctx, "late")) }()
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
		q := &queue{committer: d}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := make(chan error, 1)
		go func() { first <- q.do(write(ctx, "a")) }()
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

func TestPanicOfALeaderHarmsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := &queue{committer: d}
		first := line(q, "a")
		d.carry = func(o *op) {
			if o.id.Key == "b" {
				panic("a driver's")
			}
		}
		lead := make(chan any, 1)
		go func() {
			defer func() { lead <- recover() }()
			_ = q.do(write(context.Background(), "b"))
		}()
		synctest.Wait()
		others := line(q, "c")
		close(d.gate)
		first()
		if p := <-lead; p != "a driver's" {
			t.Fatalf("recovered %v", p)
		}
		if errs := others(); !errors.Is(errs[0], errUnknown) {
			t.Fatalf("its group: %v", errs)
		}
		if err := q.do(write(context.Background(), "d")); err != nil {
			t.Fatalf("the next: %v", err)
		}
	})
}

func TestGroupsAndQueueAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := &queue{committer: d}
		first := line(q, "a")
		var wg sync.WaitGroup
		for range maxQueue {
			wg.Go(func() { _ = q.do(write(context.Background(), "b")) })
		}
		synctest.Wait()
		if err := q.do(write(context.Background(), "c")); !errors.Is(err, errQueueFull) {
			t.Fatalf("one too many: %v", err)
		}
		close(d.gate)
		first()
		wg.Wait()
		for _, b := range d.batches {
			if len(b) > maxBatch {
				t.Fatalf("a group of %d", len(b))
			}
		}
		if n := len(d.batches); n != 1+maxQueue/maxBatch {
			t.Fatalf("%d groups", n)
		}
	})
}

func TestGroupsAreBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := &queue{committer: d}
		first := line(q, "a")
		var wg sync.WaitGroup
		for _, k := range []string{"huge", "b", "c", "d"} {
			wg.Go(func() {
				o := write(context.Background(), k)
				o.size = maxBatchBytes / 2
				if k == "huge" {
					o.size = 2 * maxBatchBytes
				}
				_ = q.do(o)
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

// What a caller does with its buffers after it gave up must not reach the database.
func TestWaitingWritesOwnTheirBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := &queue{committer: d}
		first := line(q, "a")
		body := []byte("the truth")
		var written string
		d.carry = func(o *op) { written = string(o.args[0].([]byte)) }
		done := make(chan error, 1)
		go func() {
			o := write(context.Background(), "b")
			o.args = []any{body}
			done <- q.do(o)
		}()
		synctest.Wait()
		copy(body, "a lie....")
		close(d.gate)
		first()
		if err := <-done; err != nil || written != "the truth" {
			t.Fatalf("%q was written, %v", written, err)
		}
	})
}

func TestCloseWaitsForWritesAndRefusesNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q := &queue{committer: d}
		errs := line(q, "a", "b")
		closed := make(chan error, 1)
		go func() { closed <- q.close() }()
		synctest.Wait()
		if err := q.do(write(context.Background(), "c")); !errors.Is(err, ErrClosed) {
			t.Fatalf("a new one: %v", err)
		}
		if d.closed != 0 {
			t.Fatal("closed under the feet of a leader")
		}
		close(d.gate)
		if err := errors.Join(errs()...); err != nil {
			t.Fatal(err)
		}
		if err := <-closed; err != nil || d.closed != 1 {
			t.Fatalf("close: %v, %d times", err, d.closed)
		}
		if err := q.close(); err != nil || d.closed != 1 {
			t.Fatalf("a second close: %v, %d times", err, d.closed)
		}
	})
}
