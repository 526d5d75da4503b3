package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

// desk is an engine with jobs.
type desk struct {
	testing.TB
	engine *stet.Engine
	jobs   *bulk.Jobs
}

func newDesk(t testing.TB, s stet.Store) *desk {
	t.Helper()
	e, err := stet.New(s, stet.Config{Pepper: []byte("pepper"), Holder: "host:1"})
	if err != nil {
		t.Fatal(err)
	}
	return &desk{t, e, bulk.New(e)}
}

func (d *desk) named(all ...int) (named []bulk.Named) {
	for _, i := range all {
		named = append(named, bulk.Named{ID: d.id(i)})
	}
	return named
}

func (d *desk) id(i int) stet.ID {
	return stet.ID{Scope: "t1", Key: stet.Key(fmt.Sprintf("key-%05d", i))}
}

// begin starts a run of record i.
func (d *desk) begin(i int) stet.Decision {
	d.Helper()
	dec, err := d.engine.Begin(d.Context(), stet.Request{ID: d.id(i), Route: "POST /v1/payments"})
	if err != nil {
		d.Fatal(err)
	}
	return dec
}

// unknown makes n records of unknown outcome, from first, of which a probe has found no trace.
func (d *desk) unknown(first, n int) {
	d.Helper()
	d.unasked(first, n)
	for i := first; i < first+n; i++ {
		r, err := d.engine.Get(d.Context(), d.id(i))
		if err == nil {
			_, err = d.engine.Operator().Probed(d.Context(), &r.Head, stet.LastProbe{Found: "missing"}, nil)
		}
		if err != nil {
			d.Fatal(err)
		}
	}
}

// unasked makes n records of unknown outcome, from first, about which nothing has asked.
func (d *desk) unasked(first, n int) {
	d.Helper()
	d.settle(first, n, func(c *stet.Claim) stet.Outcome { c.Unknown("panic"); return stet.Outcome{} })
}

// completed makes n results.
func (d *desk) completed(first, n int) {
	d.Helper()
	d.settle(first, n, func(*stet.Claim) stet.Outcome { return stet.Outcome{Response: stet.Response{Status: 201}} })
}

func (d *desk) settle(first, n int, end func(*stet.Claim) stet.Outcome) {
	d.Helper()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i := first; i < first+n; i++ {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			c := d.begin(i).Claim
			if err := c.Settle(d.Context(), end(c)); err != nil {
				d.Error(err)
			}
		})
	}
	wg.Wait()
}

var (
	why      = stet.Note{Who: "otto", Why: "the provider was away", Evidence: "ticket 7"}
	unknowns = stet.Query{Scope: "t1", States: []stet.State{stet.Unknown}}
	results  = stet.Query{Scope: "t1", States: []stet.State{stet.Completed}}
)

func (d *desk) start(o bulk.Order) bulk.Job {
	d.Helper()
	o.Note = why
	job, err := d.jobs.Start(d.Context(), o)
	if err != nil {
		d.Fatal(err)
	}
	return job
}

func (d *desk) get(id string) bulk.Job {
	d.Helper()
	job, err := d.jobs.Get(d.Context(), id)
	if err != nil {
		d.Fatal(err)
	}
	return job
}

// is demands what a job says.
func (d *desk) is(id string, state bulk.State, done, failed, left int) bulk.Job {
	d.Helper()
	j := d.get(id)
	if j.State != state || j.Done != done || j.Failed != failed || j.Left != left {
		d.Fatalf("it is %s with %d done, %d failed, %d left; want %s, %d, %d, %d: %v", j.State, j.Done, j.Failed, j.Left,
			state, done, failed, left, j.Errors)
	}
	return j
}

func (d *desk) state(i int) stet.State {
	d.Helper()
	r, err := d.engine.Get(d.Context(), d.id(i))
	if errors.Is(err, stet.ErrNotFound) {
		return 0
	}
	if err != nil {
		d.Fatal(err)
	}
	return r.State
}

// changes returns how many entries of the job the histories of n records have.
func (d *desk) changes(job string) (n int) {
	d.Helper()
	for q := (stet.HistoryQuery{Limit: stet.MaxLimit}); ; {
		all, next, err := d.engine.Operator().History(d.Context(), q)
		if err != nil {
			d.Fatal(err)
		}
		for _, c := range all {
			if c.Note.Notice == job && c.Action() != "bulk" {
				n++
				if c.Note.Who != why.Who || !strings.HasSuffix(c.Note.Why, why.Why) || !strings.HasPrefix(c.Note.Evidence, why.Evidence) && c.Action() != "hand" {
					d.Fatalf("%+v", c.Note)
				}
			}
		}
		if q.After = next; next == "" {
			return n
		}
	}
}

func TestJobs(t *testing.T) {
	for _, c := range []struct {
		order bulk.Order
		state stet.State // of what was changed; 0: it is gone
	}{
		{bulk.Order{Action: bulk.Release, Query: unknowns}, stet.Retryable},
		{bulk.Order{Action: bulk.Release, Query: stet.Query{Scope: "t1"}}, stet.Retryable}, // nothing else can be released
		{bulk.Order{Action: bulk.Delete, Query: results}, 0},
		{bulk.Order{Action: bulk.Extend, Query: results, Retain: 90 * 24 * time.Hour}, stet.Completed},
	} {
		t.Run(fmt.Sprint(c.order.Action, len(c.order.Query.States)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, memstore.New(memstore.Config{}))
				const n = 2000
				d.unknown(0, n)
				d.completed(n, n)
				time.Sleep(time.Second)
				count, err := d.jobs.Count(t.Context(), c.order.Action, c.order.Query)
				if err != nil || count.Matching != n || count.Oldest.IsZero() || len(count.States) != 1 {
					t.Fatalf("%+v, %v", count, err)
				}
				c.order.Expect = n
				job := d.start(c.order)
				d.is(job.ID, bulk.Waiting, 0, 0, n)
				if err := d.jobs.Work(t.Context(), job.ID); err != nil {
					t.Fatal(err)
				}
				end := d.is(job.ID, bulk.Completed, n, 0, 0)
				if end.Total != n || end.CompletedAt.IsZero() || end.Note.Who != why.Who || end.Note.Why != why.Why {
					t.Errorf("%+v", end)
				}
				first := 0
				if c.order.Action != bulk.Release {
					first = n
				}
				for i := range 2 * n {
					want := []stet.State{stet.Unknown, stet.Completed}[i/n]
					if i >= first && i < first+n {
						want = c.state
					}
					if got := d.state(i); got != want {
						t.Fatalf("record %d is %v, want %v", i, got, want)
					}
				}
				if got := d.changes(job.ID); got != n {
					t.Errorf("the history has %d changes", got)
				}
				if err := d.jobs.Work(t.Context(), job.ID); !errors.Is(err, stet.ErrState) {
					t.Errorf("once more: %v", err)
				}
			})
		})
	}
}

// What the caller saw is what is changed, or nothing is.
func TestExpect(t *testing.T) {
	d := newDesk(t, memstore.New(memstore.Config{}))
	d.unknown(0, 5)
	for _, expect := range []int{0, 4, 6} {
		_, err := d.jobs.Start(t.Context(), bulk.Order{Action: bulk.Release, Query: unknowns, Expect: expect, Note: why})
		if m, ok := errors.AsType[*bulk.Mismatch](err); !ok || m.Expected != expect || m.Matching != 5 {
			t.Errorf("%d: %v", expect, err)
		}
	}
	if jobs, err := d.jobs.Recent(t.Context()); err != nil || len(jobs) != 0 {
		t.Errorf("%v, %v", jobs, err)
	}
	if changes, _, err := d.engine.Operator().History(t.Context(), stet.HistoryQuery{}); err != nil || len(changes) != 0 {
		t.Errorf("%v, %v", changes, err)
	}
}

func TestBadOrders(t *testing.T) {
	d := newDesk(t, memstore.New(memstore.Config{}))
	for want, o := range map[string]bulk.Order{
		"action":   {Action: "undo", Query: unknowns, Note: why},
		"filter":   {Action: bulk.Delete, Note: why},
		"expect":   {Action: bulk.Delete, Query: results, Expect: -1, Note: why},
		"limit":    {Action: bulk.Delete, Query: results, Limit: -1, Note: why},
		"seconds":  {Action: bulk.Extend, Query: results, Note: why},
		"override": {Action: bulk.Delete, Query: results, Override: true, Note: why},
	} {
		_, err := d.jobs.Start(t.Context(), o)
		if bad, ok := errors.AsType[*bulk.OrderError](err); !ok || bad.Field != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	own := bulk.Order{Action: bulk.Delete, Query: stet.Query{Scope: stet.OwnScope}, Note: why}
	if _, err := d.jobs.Start(t.Context(), own); err == nil {
		t.Error("jobs would delete jobs")
	}
	if _, err := d.jobs.Start(t.Context(), bulk.Order{Action: bulk.Delete, Query: results}); !errors.Is(err, stet.ErrNoReason) {
		t.Error(err)
	}
}

// A damaged record in the middle is counted and named, and ends nothing.
func TestDamagedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New(memstore.New(memstore.Config{}), 1)
		d := newDesk(t, store)
		d.unknown(0, 500)
		job := d.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: 500})
		store.Corrupt(d.id(250))
		began := time.Now()
		if err := d.jobs.Work(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		end := d.is(job.ID, bulk.Completed, 499, 1, 0)
		if took := time.Since(began); took > 0 {
			t.Errorf("what is damaged was tried again, for %s", took)
		}
		want := bulk.Failure{ID: d.engine.Tag(d.id(250)), Scope: "t1", Cause: "corrupt-record",
			Detail: "it cannot be read: its row is damaged, or sealed with a key that is not at hand"}
		if len(end.Errors) != 1 || end.Errors[0] != want {
			t.Errorf("%+v", end.Errors)
		}
	})
}

// What begins to match after the job began is left alone, and so is what others have changed
// before the job came to it.
func TestMeanwhile(t *testing.T) {
	old := unknowns
	old.OlderThan = time.Second
	t.Run("by state", func(t *testing.T) { meanwhile(t, unknowns) })
	t.Run("by age", func(t *testing.T) { meanwhile(t, old) })
}

func meanwhile(t *testing.T, q stet.Query) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.New(memstore.Config{}))
		d.unknown(0, 100)
		time.Sleep(time.Second)
		job := d.start(bulk.Order{Action: bulk.Release, Query: q, Expect: 100})
		time.Sleep(time.Second)
		d.unknown(100, 100)
		for i := range 10 { // an operator was faster
			if _, err := d.engine.Operator().Resolve(t.Context(), d.id(i), execution.Of(t.Context(), d.engine, d.id(i)), stet.Resolution{}, why); err != nil {
				t.Fatal(err)
			}
		}
		heads, _, err := d.engine.Operator().Unknowns(t.Context(), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		for i := range heads { // a probe has asked about these, and does not know
			if _, ok, err := d.engine.Operator().Probing(t.Context(), &heads[i], time.Minute, nil); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		time.Sleep(time.Minute)
		if err := d.jobs.Work(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		d.is(job.ID, bulk.Completed, 90, 0, 10)
		for i := 100; i < 200; i++ {
			if got := d.state(i); got != stet.Unknown {
				t.Fatalf("record %d is %v", i, got)
			}
		}
	})
}

// What has ended only just now is not released, unless it was asked for (D09), and is named.
func TestSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.New(memstore.Config{}))
		d.unknown(0, 10)
		time.Sleep(time.Hour)
		d.unknown(10, 10)
		order := bulk.Order{Action: bulk.Release, Query: unknowns, Expect: 20, Settle: 5 * time.Minute}
		job := d.start(order)
		if err := d.jobs.Work(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		if end := d.is(job.ID, bulk.Completed, 10, 10, 0); end.Errors[0].Cause != "not-settled" {
			t.Errorf("%+v", end.Errors)
		}
		order.Expect, order.Now = 10, true
		job = d.start(order)
		if err := d.jobs.Work(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		d.is(job.ID, bulk.Completed, 10, 0, 0)
	})
}

// A key that was asked for by name is stored with the job, and is found by it.
func TestKeyInFilter(t *testing.T) {
	d := newDesk(t, memstore.New(memstore.Config{}))
	d.unknown(0, 10)
	job := d.start(bulk.Order{Action: bulk.Release, Query: stet.Query{Key: d.id(7).Key}, Expect: 1})
	if err := d.jobs.Work(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	if end := d.is(job.ID, bulk.Completed, 1, 0, 0); end.Query.Key != d.id(7).Key || d.state(7) != stet.Retryable {
		t.Errorf("%v", d.state(7))
	}
}

// A job has a limit where it was given one, and is about no more.
func TestLimit(t *testing.T) {
	d := newDesk(t, memstore.New(memstore.Config{}))
	d.unknown(0, 700)
	job := d.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: 700, Limit: 300})
	if err := d.jobs.Work(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	d.is(job.ID, bulk.Completed, 300, 0, 0)
	if count, err := d.jobs.Count(t.Context(), bulk.Release, unknowns); count.Matching != 400 || err != nil {
		t.Errorf("%d, %v", count.Matching, err)
	}
}

// cutting ends a process in the middle: from the n-th write of a record on, nothing reaches the
// store any more.
type cutting struct {
	stet.Store
	mu    sync.Mutex
	left  int
	short bool // ... but the write that was under way was lost with its answer alone
}

func (s *cutting) Unwrap() stet.Store { return s.Store }

var errCut = errors.New("the process is gone")

func (s *cutting) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	s.mu.Lock()
	s.left--
	left := s.left
	s.mu.Unlock()
	if left < 0 && !(left == -1 && s.short) {
		return stet.Head{}, errCut
	}
	got, err := s.Store.Replace(ctx, prev, h, b)
	if left < 0 {
		return stet.Head{}, errCut
	}
	return got, err
}

func (s *cutting) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left < 0 {
		return errCut
	}
	return s.Store.Delete(ctx, id, prev)
}

// A process that dies anywhere leaves a job that another one ends: each record is changed once, and
// counted once.
func TestTakenOver(t *testing.T) {
	for _, order := range []bulk.Order{
		{Action: bulk.Release, Query: unknowns},
		{Action: bulk.Delete, Query: results},
		{Action: bulk.Extend, Query: results, Retain: 48 * time.Hour},
		{Action: bulk.Resolve, Query: unknowns},
		{Action: bulk.Hand, Query: unknowns, To: "bob"},
		{Action: bulk.Probe, Query: unknowns},
	} {
		for _, writes := range []int{2, 100, 258, 259, 700} {
			for _, short := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", order.Action, writes, short), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store := memstore.New(memstore.Config{})
						d := newDesk(t, store)
						const n = 600
						if order.Action == bulk.Delete || order.Action == bulk.Extend {
							d.completed(0, n)
						} else {
							d.unknown(0, n)
						}
						for i := range n {
							if order.Action == bulk.Resolve {
								d.asked(i, reconcile.Finding{Effect: reconcile.Happened, Status: 201})
							}
						}
						dying := newDesk(t, &cutting{Store: store, left: writes, short: short})
						for _, each := range []*desk{d, dying} {
							each.jobs.AskWith(&reconcile.Reconciler{Engine: each.engine, Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) {
								return reconcile.Finding{Effect: reconcile.Happened, Response: &stet.Response{Status: 201}, Evidence: why.Evidence}, nil
							}})
						}
						order.Expect = n
						job := d.start(order)
						ctx, cancel := context.WithCancel(t.Context())
						cut := time.AfterFunc(5*time.Second, cancel) // its last words are lost as well
						_ = dying.jobs.Work(ctx, job.ID)
						cut.Stop()
						cancel()
						ctx, stop := context.WithCancel(t.Context())
						var loop sync.WaitGroup
						loop.Go(func() { _ = d.jobs.Run(ctx) })
						time.Sleep(time.Minute + 15*time.Second)
						d.is(job.ID, bulk.Completed, n, 0, 0)
						if got := d.changes(job.ID); got != n {
							t.Errorf("the history has %d changes", got)
						}
						stop()
						loop.Wait()
					})
				})
			}
		}
	}
}

// A process that ends in order leaves the job at a recovery point, and the next one goes on at
// once.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New(memstore.New(memstore.Config{}), 1)
		d := newDesk(t, store)
		const n = 600
		d.unknown(0, n)
		job := d.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: n})
		store.Slow(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := d.jobs.Work(ctx, job.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		half := d.get(job.ID)
		if half.State != bulk.Waiting || half.Done == 0 || half.Done == n || half.Left != n-half.Done {
			t.Errorf("%s, %d done", half.State, half.Done)
		}
		if got := d.changes(job.ID); got != half.Done {
			t.Errorf("%d were changed, and %d counted", got, half.Done)
		}
		store.Up()
		if err := d.jobs.Work(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		d.is(job.ID, bulk.Completed, n, 0, 0)
	})
}

// A write of the job's lease that gets no answer is followed by the next at once: half of the lease
// is over by then.
func TestLeaseWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hanging{Store: memstore.New(memstore.Config{})}
		d := newDesk(t, store)
		var err error
		if d.engine, err = stet.New(store, stet.Config{Pepper: []byte("pepper"), Holder: "host:1", StoreTimeout: 30 * time.Second}); err != nil {
			t.Fatal(err)
		}
		d.jobs = bulk.New(d.engine)
		const n = 100
		d.unknown(0, n)
		job := d.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: n})
		store.from = time.Now().Add(15 * time.Second)
		time.AfterFunc(65*time.Second, func() { // the lease with which the work began is over by then
			if err := newDesk(t, store.Store).jobs.Work(t.Context(), job.ID); !errors.Is(err, stet.ErrState) {
				t.Errorf("another process could take the job over: %v", err)
			}
		})
		if err := d.jobs.Work(t.Context(), job.ID); err != nil {
			t.Error(err)
		}
		d.is(job.ID, bulk.Completed, n, 0, 0)
	})
}

// hanging is a store that is slow once from is set, and does not answer the first write of a job
// after that instant until its caller has given up.
type hanging struct {
	stet.Store
	from time.Time
	hung atomic.Bool
}

func (s *hanging) Unwrap() stet.Store { return s.Store }

func (s *hanging) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	switch late := !s.from.IsZero() && time.Now().After(s.from); {
	case h.Scope != stet.OwnScope && !s.from.IsZero():
		time.Sleep(12 * time.Second)
	case late && s.hung.CompareAndSwap(false, true):
		<-ctx.Done()
		return stet.Head{}, ctx.Err()
	}
	return s.Store.Replace(ctx, prev, h, b)
}

// A store that is away for a minute costs a minute, and no record.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New(memstore.New(memstore.Config{}), 1)
		d := newDesk(t, store)
		const n = 600
		d.unknown(0, n)
		job := d.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: n})
		store.Slow(10 * time.Millisecond)
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = d.jobs.Run(ctx) })
		time.Sleep(200 * time.Millisecond)
		store.Down()
		time.Sleep(time.Minute)
		store.Up()
		time.Sleep(time.Minute + 15*time.Second)
		d.is(job.ID, bulk.Completed, n, 0, 0)
		stop()
		loop.Wait()
	})
}

// refusing is a store that answers nothing about clients' records until an instant, and all else.
type refusing struct {
	stet.Store
	until time.Time
}

func (s *refusing) Unwrap() stet.Store { return s.Store }

func (s *refusing) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if id.Scope != stet.OwnScope && time.Now().Before(s.until) {
		return stet.Record{}, errCut
	}
	return s.Store.Get(ctx, id)
}

// Where nothing of a page is answered, the page waits; where that lasts, its records are counted as
// failed, and named.
func TestPageWithoutAnswers(t *testing.T) {
	for away, failed := range map[time.Duration]int{10 * time.Second: 0, time.Hour: 100} {
		synctest.Test(t, func(t *testing.T) {
			store := &refusing{Store: memstore.New(memstore.Config{})}
			d := newDesk(t, store)
			d.unknown(0, 100)
			job := d.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: 100})
			store.until = time.Now().Add(away)
			ctx, stop := context.WithCancel(t.Context())
			var loop sync.WaitGroup
			loop.Go(func() { _ = d.jobs.Run(ctx) })
			time.Sleep(10 * time.Minute)
			if end := d.is(job.ID, bulk.Completed, 100-failed, failed, 0); failed > 0 && end.Errors[0].Cause != "store-unavailable" {
				t.Errorf("%+v", end.Errors)
			}
			stop()
			loop.Wait()
		})
	}
}

// Retries that go on meanwhile find their keys free, run once each, and are not undone.
func TestRetriesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New(memstore.New(memstore.Config{}), 1)
		d := newDesk(t, store)
		const n = 300
		d.unknown(0, n)
		job := d.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: n})
		store.Slow(time.Millisecond)
		ran := make([]int, n)
		var retries sync.WaitGroup
		for i := range n {
			retries.Go(func() {
				for {
					dec := d.begin(i)
					if dec.Verdict == stet.Execute {
						ran[i]++
						if err := dec.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err != nil {
							t.Error(err)
						}
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		if err := d.jobs.Work(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		retries.Wait()
		d.is(job.ID, bulk.Completed, n, 0, 0)
		for i := range n {
			if ran[i] != 1 || d.state(i) != stet.Completed {
				t.Errorf("record %d ran %d times and is %v", i, ran[i], d.state(i))
			}
		}
	})
}

// A job is seen only by tokens of its scope.
func TestJobsAreHidden(t *testing.T) {
	d := newDesk(t, memstore.New(memstore.Config{}))
	d.unknown(0, 3)
	job := d.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: 3})
	for scope, want := range map[stet.Scope]int{"": 3, "t1": 3, stet.OwnScope: 1} {
		heads, _, err := d.engine.Operator().List(t.Context(), stet.Query{Scope: scope})
		if err != nil || len(heads) != want {
			t.Errorf("%q: %d are listed, %v", scope, len(heads), err)
		}
		if n, err := d.engine.Operator().Count(t.Context(), stet.Query{Scope: scope}); err != nil || n != want {
			t.Errorf("%q: %d are counted, %v", scope, n, err)
		}
	}
	if n, err := d.engine.Operator().Count(t.Context(), stet.Query{States: []stet.State{stet.Running}}); err != nil || n != 0 {
		t.Errorf("%d run, %v", n, err)
	}
	if jobs, err := d.jobs.Recent(t.Context()); err != nil || len(jobs) != 1 || jobs[0].ID != job.ID {
		t.Errorf("%v, %v", jobs, err)
	}
	if _, err := d.jobs.Get(t.Context(), "bulk_none"); !errors.Is(err, stet.ErrNotFound) {
		t.Error(err)
	}
}

// A job of records that are named changes those, and none besides. It begins only if each can be
// changed.
func TestNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.New(memstore.Config{}))
		d.unknown(0, 4)
		d.completed(4, 1)
		order := bulk.Order{Action: bulk.Release, Query: stet.Query{Scope: "t1"}, Records: d.named(0, 2), Expect: 2, Note: why}
		for _, other := range []stet.ID{d.id(4), d.id(9)} {
			wrong := order
			wrong.Records, wrong.Expect = append(d.named(0), bulk.Named{ID: other}), 2
			var m *bulk.Mismatch
			if _, err := d.jobs.Start(t.Context(), wrong); !errors.As(err, &m) || m.Matching != 1 {
				t.Errorf("%s: %v", other.Key, err)
			}
		}
		many := order
		many.Records = make([]bulk.Named, bulk.MaxNamed+1)
		var bad *bulk.OrderError
		if _, err := d.jobs.Start(t.Context(), many); !errors.As(err, &bad) || bad.Field != "ids" {
			t.Errorf("too many: %v", err)
		}
		own := stet.ID{Scope: stet.OwnScope, Key: "bulk_1"}
		for field, change := range map[string]func(*bulk.Order){"limit": func(o *bulk.Order) { o.Limit = 1 },
			"ids": func(o *bulk.Order) { o.Records = append(o.Records, bulk.Named{ID: own}) }, "ids ": func(o *bulk.Order) { o.Records = append(o.Records, d.named(0)...) }} {
			wrong := order
			wrong.Records = d.named(0, 2)
			change(&wrong)
			if _, err := d.jobs.Start(t.Context(), wrong); !errors.As(err, &bad) || bad.Field != strings.TrimSpace(field) {
				t.Errorf("%s: %v", field, err)
			}
		}
		job := d.start(order)
		if job.Query.Scope != "t1" || job.Total != 2 || job.Left != 2 || len(job.Records) != 0 {
			t.Errorf("%+v", job)
		}
		if err := d.jobs.Work(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		d.is(job.ID, bulk.Completed, 2, 0, 0)
		for i, want := range []stet.State{stet.Retryable, stet.Unknown, stet.Retryable, stet.Unknown, stet.Completed} {
			if got := d.state(i); got != want {
				t.Errorf("record %d is %v", i, got)
			}
		}
	})
}
