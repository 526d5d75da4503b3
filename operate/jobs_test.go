package operate_test

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
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

// shop is an engine with records, a desk and jobs, whose loop runs.
type shop struct {
	*testing.T
	engine *stet.Engine
	jobs   *operate.Jobs
	*operate.Desk
	end func() // of the process
}

func newShop(t *testing.T, s stet.Store, c operate.Config) *shop {
	t.Helper()
	e := newEngine(t, s)
	d := &shop{T: t, engine: e, jobs: operate.NewJobs()}
	if c.Engine, c.Jobs = e, d.jobs; c.Reconciler != nil {
		c.Reconciler.Engine = e
	}
	service, err := operate.New(c)
	if err != nil {
		t.Fatal(err)
	}
	d.Desk = service.For(operate.Caller{Name: "otto", Role: operate.Admin}, nil)
	ctx, end := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { _ = d.jobs.Run(ctx) })
	d.end = func() { end(); loop.Wait() }
	t.Cleanup(d.end)
	return d
}

func key(i int) stet.ID { return stet.ID{Scope: "t1", Key: stet.Key(fmt.Sprintf("key-%05d", i))} }

// put makes n records from first that end as said.
func (d *shop) put(first, n int, say func(c *stet.Claim) stet.Outcome) {
	d.Helper()
	for i := first; i < first+n; i++ {
		begun, err := d.engine.Begin(d.Context(), stet.Request{ID: key(i), Route: "POST /v1/payments"})
		if err == nil {
			err = begun.Claim.Settle(d.Context(), say(begun.Claim))
		}
		if err != nil {
			d.Fatal(err)
		}
	}
}

func doubt(c *stet.Claim) stet.Outcome { c.Unknown("panic"); return stet.Outcome{} }

// unknown makes n records of unknown outcome, of which a probe has found no trace once they had
// settled.
func (d *shop) unknown(n int) {
	d.Helper()
	d.put(0, n, doubt)
	time.Sleep(2 * settle)
	for i := range n {
		r, err := d.engine.Get(d.Context(), key(i))
		if err == nil {
			_, err = d.engine.Operator().Probed(d.Context(), &r.Head, stet.LastProbe{Found: "missing"}, nil)
		}
		if err != nil {
			d.Fatal(err)
		}
	}
}

func (d *shop) completed(n int) {
	d.Helper()
	d.put(0, n, func(*stet.Claim) stet.Outcome { return stet.Outcome{Response: stet.Response{Status: 201}} })
}

const settle = time.Second

var unknowns = operate.Parameters{"state": "unknown", "scope": "t1"}

func (d *shop) start(action operate.Action, expect int, more func(o *operate.Order)) string {
	d.Helper()
	o := operate.Order{Selection: operate.Selection{Action: action, Filter: unknowns}, Expect: expect, Reason: "the provider was away", Evidence: "ticket 7"}
	if more != nil {
		more(&o)
	}
	started, err := d.Start(d.Context(), o)
	if err != nil {
		d.Fatal(err)
	}
	return started.Job
}

// is demands what a job says, once it is in a state.
func (d *shop) is(id string, state operate.JobState, done, failed, left int) operate.Job {
	d.Helper()
	var j operate.Job
	for range 3600 {
		var err error
		if j, err = d.Job(d.Context(), id); err != nil {
			d.Fatal(err)
		}
		if j.State == state {
			break
		}
		time.Sleep(time.Second)
	}
	if j.State != state || j.Done != done || j.Failed != failed || j.Left != left {
		d.Fatalf("it is %s with %d done, %d failed, %d left; want %s, %d, %d, %d: %v", j.State, j.Done, j.Failed, j.Left,
			state, done, failed, left, j.Errors)
	}
	return j
}

// entries counts those of a job in the audit trail, by their actions.
func (d *shop) entries(job string) map[string]int {
	d.Helper()
	list, err := d.Audit(d.Context(), operate.AuditQuery{Notice: job, Page: operate.Page{Limit: stet.MaxLimit}})
	if err != nil {
		d.Fatal(err)
	}
	n := map[string]int{}
	for _, e := range list.Entries {
		n[e.Action]++
	}
	return n
}

// Each action is done to each record once, by the rules of a single one, and leaves its entry.
func TestJobs(t *testing.T) {
	soon := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC) // synctest begins an hour before
	for _, c := range []struct {
		action operate.Action
		more   func(o *operate.Order)
		state  stet.State
		entry  string
	}{
		{operate.ActRelease, nil, stet.Retryable, "release"},
		{operate.ActSnooze, func(o *operate.Order) { o.Until = soon }, stet.Unknown, "snooze"},
		{operate.ActHand, func(o *operate.Order) { o.To, o.Note, o.Reason = "ben", "look", "" }, stet.Unknown, "hand"},
		{operate.ActDelete, func(o *operate.Order) { o.Filter = operate.Parameters{"state": "completed"} }, 0, "purge"},
		{operate.ActExtend, func(o *operate.Order) { o.Filter, o.Seconds = operate.Parameters{"state": "completed"}, 1e6 }, stet.Completed, "extend"},
	} {
		t.Run(string(c.action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newShop(t, memstore.New(memstore.Config{}), operate.Config{Settle: settle})
				const n = 40
				if c.action == operate.ActDelete || c.action == operate.ActExtend {
					d.completed(n)
				} else {
					d.unknown(n)
				}
				job := d.start(c.action, n, c.more)
				j := d.is(job, operate.JobCompleted, n, 0, 0)
				if j.Who != "otto" || j.Reason == "" || j.Total != n || j.CompletedAt.IsZero() {
					t.Errorf("%+v", j)
				}
				if got := d.entries(job); got[c.entry] != n || got["bulk"] != 1 || len(got) != 2 {
					t.Errorf("entries: %v", got)
				}
				for i := range n {
					if r, err := d.engine.Get(t.Context(), key(i)); r.State != c.state && !(c.state == 0 && errors.Is(err, stet.ErrNotFound)) {
						t.Fatalf("record %d is %s, %v", i, r.State, err)
					}
				}
				if list, err := d.RecentJobs(t.Context()); err != nil || len(list.Jobs) != 1 || list.Jobs[0].Job != job {
					t.Errorf("recent are %v, %v", list, err)
				}
			})
		})
	}
}

// What is known is adopted; the others are left with their reasons, and so is what nothing proves.
func TestJobsLeaveWhatIsNotProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShop(t, memstore.New(memstore.Config{}), operate.Config{Settle: settle})
		d.unknown(4)
		r, err := d.engine.Get(t.Context(), key(0))
		if err == nil {
			_, err = d.engine.Operator().Probed(t.Context(), &r.Head, stet.LastProbe{Found: stet.FoundHappened, Status: 201}, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		d.put(4, 2, doubt) // nothing has asked about them
		time.Sleep(2 * settle)
		causes := func(j operate.Job) (n map[string]int) {
			n = map[string]int{}
			for _, f := range j.Errors {
				n[fmt.Sprint(f.Cause, " ", f.Left)]++
			}
			return n
		}
		if got := causes(d.is(d.start(operate.ActRelease, 6, nil), operate.JobCompleted, 3, 1, 2)); fmt.Sprint(got) != "map[contradicted false:1 unproven true:2]" {
			t.Error(got)
		}
		if got := causes(d.is(d.start(operate.ActResolve, 3, nil), operate.JobCompleted, 1, 0, 2)); fmt.Sprint(got) != "map[no-answer true:2]" {
			t.Error(got)
		}
		d.is(d.start(operate.ActRelease, 2, func(o *operate.Order) { o.Now = true }), operate.JobCompleted, 2, 0, 0)
	})
}

// A job is about the records that matched when it was started, as they were then.
func TestMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		d := newShop(t, memstore.New(memstore.Config{}), operate.Config{Settle: settle, Reconciler: &reconcile.Reconciler{
			Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) {
				<-hold
				return reconcile.Finding{}, errors.New("none")
			}}})
		d.unknown(3)
		before := d.start(operate.ActProbe, 1, func(o *operate.Order) { o.Filter = operate.Parameters{"q": "key-00000"} })
		job := d.start(operate.ActHand, 3, func(o *operate.Order) { o.To = "ben" }) // which waits for its turn
		if _, err := d.Hand(t.Context(), operate.Name{Key: d.engine.Tag(key(1))}, operate.Handing{To: "ann"}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Release(t.Context(), operate.Name{Key: d.engine.Tag(key(2))}, operate.Resolution{Change: operate.Change{Reason: "x"}}); err != nil {
			t.Fatal(err)
		}
		close(hold)
		d.is(before, operate.JobCompleted, 0, 1, 0)
		j := d.is(job, operate.JobCompleted, 1, 0, 2)
		for _, f := range j.Errors {
			if f.Cause != "state-changed" || !f.Left || f.Detail == "" || f.Scope != "t1" {
				t.Errorf("%+v", f)
			}
		}
	})
}

// A job that its process leaves says so at once; one whose process is killed, when its lease is over.
func TestInterruptedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		defer close(hold)
		d := newShop(t, memstore.New(memstore.Config{}), operate.Config{Settle: settle, Reconciler: &reconcile.Reconciler{Timeout: time.Hour,
			Resolver: func(ctx context.Context, h stet.Head) (reconcile.Finding, error) {
				if h.ID != key(0) {
					return reconcile.Finding{Effect: reconcile.Happened, Response: &stet.Response{Status: 201}}, nil
				}
				select {
				case <-hold:
				case <-ctx.Done():
				}
				return reconcile.Finding{}, ctx.Err()
			}}})
		d.unknown(3)
		job := d.start(operate.ActProbe, 3, nil)
		time.Sleep(time.Minute) // longer than its lease, which is kept
		d.is(job, operate.JobRunning, 2, 0, 1)
		d.end()
		d.is(job, operate.JobInterrupted, 2, 0, 1)

		dead := newShop(t, memstore.New(memstore.Config{}), operate.Config{Settle: settle})
		dead.end()
		dead.unknown(1)
		lost := dead.start(operate.ActRelease, 1, nil) // nothing works on it, or keeps its lease
		dead.is(lost, operate.JobRunning, 0, 0, 1)
		time.Sleep(time.Minute)
		dead.is(lost, operate.JobInterrupted, 0, 0, 1)
	})
}

// A job that is stopped ends within a second, whatever its probes do, and those that wait for their
// turn go on.
func TestStoppedJobs(t *testing.T) { // K07
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		defer close(hold)
		d := newShop(t, memstore.New(memstore.Config{}), operate.Config{Settle: settle, Reconciler: &reconcile.Reconciler{Timeout: time.Hour,
			Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) { <-hold; return reconcile.Finding{}, nil }}})
		d.unknown(3)
		job := d.start(operate.ActProbe, 3, nil)
		hand := func(o *operate.Order) { o.To = "ben" }
		later := d.start(operate.ActHand, 3, hand)
		var waits string
		for range 14 {
			waits = d.start(operate.ActHand, 3, hand)
		}
		_, err := d.Start(t.Context(), operate.Order{Selection: operate.Selection{Action: operate.ActHand, Filter: unknowns}, Expect: 3, To: "ben"})
		if operate.ProblemOf(err).Code != "rate-limited" {
			t.Errorf("a seventeenth job: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := d.StopJob(t.Context(), waits, operate.Reason{Reason: "a doubt"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		d.is(waits, operate.JobStopped, 0, 0, 3)
		if j, err := d.StopJob(t.Context(), job, operate.Reason{Reason: "a doubt"}); err != nil || j.State != operate.JobRunning {
			t.Fatal(j, err)
		}
		time.Sleep(time.Second)
		d.is(job, operate.JobStopped, 0, 0, 3)
		d.is(later, operate.JobCompleted, 3, 0, 0)
		for _, id := range []string{job, later} {
			if _, err := d.StopJob(t.Context(), id, operate.Reason{Reason: "a doubt"}); operate.ProblemOf(err).Code != "state-changed" {
				t.Error(err)
			}
		}
	})
}

// A probe that hangs costs a job one record, and holds up neither the others nor later jobs.
func TestAProbeThatHangsHoldsUpNoJob(t *testing.T) { // K07
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		defer close(hold)
		var hung atomic.Int64
		d := newShop(t, memstore.New(memstore.Config{}), operate.Config{Reconciler: &reconcile.Reconciler{
			Resolver: func(_ context.Context, h stet.Head) (reconcile.Finding, error) {
				if h.ID == key(3) {
					hung.Add(1)
					<-hold
				}
				return reconcile.Finding{Effect: reconcile.Happened, Response: &stet.Response{Status: 201}}, nil
			}}})
		d.unknown(40)
		if j := d.is(d.start(operate.ActProbe, 40, nil), operate.JobCompleted, 39, 1, 0); j.Errors[0].Cause != "probe-failed" || j.Errors[0].Left {
			t.Errorf("%+v", j.Errors)
		}
		d.is(d.start(operate.ActHand, 1, func(o *operate.Order) { o.To = "bob" }), operate.JobCompleted, 1, 0, 0)
		d.is(d.start(operate.ActProbe, 1, nil), operate.JobCompleted, 0, 1, 0)
		if n := hung.Load(); n != 1 {
			t.Errorf("the probe that hangs was made %d times", n)
		}
	})
}

// A write that the store made without answering is counted once, as done; a record that it never
// answers about has failed.
func TestJobsWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var until sync.Map // when a record that was written without an answer can be read again
		s := ability.Wrap(memstore.New(memstore.Config{}), func(ctx context.Context, c *ability.Call) error {
			if !away.Load() || c.ID.Scope != "t1" {
				return c.Do(ctx)
			}
			if at, written := until.Load(c.ID); c.ID == key(1) || written && time.Now().Before(at.(time.Time)) {
				return errors.New("away")
			}
			err := c.Do(ctx)
			if c.Op == ability.Replace && err == nil {
				if _, again := until.LoadOrStore(c.ID, time.Now().Add(2*time.Second)); !again {
					return errors.New("no answer")
				}
			}
			return err
		}, false)
		d := newShop(t, s, operate.Config{Settle: settle})
		d.unknown(3)
		job := d.start(operate.ActHand, 3, func(o *operate.Order) { o.To = "ben" })
		away.Store(true)
		j := d.is(job, operate.JobCompleted, 2, 1, 0)
		away.Store(false)
		if j.Errors[0].Cause != "store-unavailable" || d.entries(job)["hand"] != 2 {
			t.Errorf("%+v, %v", j.Errors, d.entries(job))
		}
	})
}

// A job of a newer version is shown as that, and no more.
func TestAJobOfANewerVersion(t *testing.T) { // K13
	for name, c := range map[string][2]string{
		"a format":  {`"format":2`, `"format":3`},
		"a member":  {`"format":2`, `"format":2,"sample":2`},
		"an action": {`"action":"release"`, `"action":"archive"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New(memstore.Config{})
				d := newShop(t, s, operate.Config{Settle: settle})
				d.end()
				d.unknown(1)
				id := stet.ID{Scope: stet.OwnScope, Key: stet.Key(d.start(operate.ActRelease, 1, nil))}
				r, err := s.Get(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				doc := strings.Replace(string(r.Request), c[0], c[1], 1)
				if doc == string(r.Request) {
					t.Fatalf("nothing to replace in %s", doc)
				}
				h := r.Head
				h.Version++
				if _, err = s.Replace(t.Context(), r.Version, h, &stet.Body{Request: []byte(doc)}); err != nil {
					t.Fatal(err)
				}
				if j, err := d.Job(t.Context(), string(id.Key)); err != nil || j.State != operate.JobNewer || j.CreatedAt.IsZero() || j.Action != "" {
					t.Errorf("%+v, %v", j, err)
				}
				if _, err := d.StopJob(t.Context(), string(id.Key), operate.Reason{Reason: "x"}); operate.ProblemOf(err).Code != "state-changed" {
					t.Error(err)
				}
			})
		})
	}
}

// A job takes the first records where more match than it may be about, an incident all that it has,
// and a limit fewer.
func TestWhatAJobTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newShop(t, memstore.New(memstore.Config{}), operate.Config{Settle: settle})
		d.completed(operate.MaxRecords + 1)
		all := operate.Selection{Action: operate.ActDelete, Filter: operate.Parameters{"scope": "t1"}}
		if n, err := d.Preview(t.Context(), all); err != nil || n.Matching != operate.MaxRecords || !n.More || n.States["completed"] != operate.MaxRecords {
			t.Errorf("%+v, %v", n, err)
		}
		d.is(d.start(operate.ActDelete, operate.MaxRecords, func(o *operate.Order) { o.Selection, o.Limit = all, operate.MaxRecords-599 }), operate.JobCompleted, operate.MaxRecords-599, 0, 0)
		d.is(d.start(operate.ActDelete, 600, func(o *operate.Order) { o.Selection = all }), operate.JobCompleted, 600, 0, 0)

		d.unknown(600)
		in, err := d.Incidents(t.Context(), operate.IncidentQuery{})
		if err != nil || len(in.Incidents) != 1 {
			t.Fatal(in, err)
		}
		of := operate.Selection{Action: operate.ActRelease, Incident: in.Incidents[0].ID}
		if n, err := d.Preview(t.Context(), of); err != nil || n.Matching != 600 || n.More {
			t.Errorf("%+v, %v", n, err)
		}
		j := d.is(d.start(operate.ActRelease, 600, func(o *operate.Order) { o.Selection = of }), operate.JobCompleted, 600, 0, 0)
		if j.Filter.Scope != "t1" || j.Incident != of.Incident {
			t.Errorf("%+v", j)
		}
		if _, err := d.Preview(t.Context(), of); operate.ProblemOf(err).Code != "not-found" {
			t.Error(err)
		}
	})
}

// No job is about what an incident was when it was read last: where the store does not answer in
// time, nothing is decided.
func TestNoJobRestsOnAnOldReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		e, err := stet.New(ability.Wrap(memstore.New(memstore.Config{}), func(ctx context.Context, c *ability.Call) error {
			if c.Op == ability.List && slow.Load() {
				time.Sleep(20 * time.Second)
			}
			return c.Do(ctx)
		}, false), stet.Config{StoreTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		s, err := operate.New(operate.Config{Engine: e, Jobs: operate.NewJobs()})
		if err != nil {
			t.Fatal(err)
		}
		begun, err := e.Begin(t.Context(), stet.Request{ID: key(1)})
		if err == nil {
			begun.Claim.Unknown("panic")
			err = begun.Claim.Settle(t.Context(), stet.Outcome{})
		}
		desk := s.For(operate.Caller{Name: "kim", Role: operate.Operator}, nil)
		all, errs := desk.Incidents(t.Context(), operate.IncidentQuery{})
		if err != nil || errs != nil || len(all.Incidents) != 1 {
			t.Fatal(all, err, errs)
		}
		about := operate.Selection{Action: operate.ActProbe, Incident: all.Incidents[0].ID}
		if n, err := desk.Preview(t.Context(), about); err != nil || n.Matching != 1 {
			t.Errorf("%d, %v", n.Matching, err)
		}
		slow.Store(true)
		time.Sleep(time.Minute)
		if n, err := desk.Preview(t.Context(), about); err == nil || operate.ProblemOf(err).Status != 503 {
			t.Errorf("beside a slow store: %d, %v", n.Matching, err)
		}
		time.Sleep(time.Minute)
	})
}
