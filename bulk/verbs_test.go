package bulk_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

// late makes a record whose handler came back too late, with 201.
func (d *desk) late(i int) {
	d.Helper()
	c := d.begin(i).Claim
	time.Sleep(d.engine.Policy().Lease)
	if n, _, err := d.engine.Operator().Sweep(d.Context(), "", 0); n != 1 || err != nil {
		d.Fatal(n, err)
	}
	_ = c.Settle(d.Context(), stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("late")}})
	if r, err := d.engine.Get(d.Context(), d.id(i)); err != nil || r.Response == nil || r.State != stet.Unknown {
		d.Fatal(r.State, r.Response, err)
	}
}

// asked leaves with a record what its last probe was answered.
func (d *desk) asked(i int, f reconcile.Finding) {
	d.Helper()
	r, err := d.engine.Get(d.Context(), d.id(i))
	if err != nil {
		d.Fatal(err)
	}
	asker := reconcile.Reconciler{Engine: d.engine, Settle: stet.Never, Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) { return f, nil }}
	if _, err := asker.Ask(d.Context(), &r.Head, stet.Note{Who: "ann"}); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) work(o bulk.Order) bulk.Job {
	d.Helper()
	job := d.start(o)
	if err := d.jobs.Work(d.Context(), job.ID); err != nil {
		d.Fatal(err)
	}
	return d.get(job.ID)
}

// A job that says "it happened" gives each retry the answer that is known, and leaves what nothing
// is known of.
func TestResolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.New(memstore.Config{}))
		d.late(0)
		d.unknown(1, 3)
		d.asked(1, reconcile.Finding{Effect: reconcile.Happened, Status: 202})
		d.asked(2, reconcile.Finding{Effect: reconcile.Missing, Status: 404})
		end := d.work(bulk.Order{Action: bulk.Resolve, Query: stet.Query{Scope: "t1"}, Expect: 4})
		if end.Done != 2 || end.Left != 2 || end.Failed != 0 || len(end.Errors) != 2 || end.Errors[0].Cause != "no-answer" || !end.Errors[0].Left || end.Errors[0].Detail == "" {
			t.Fatalf("%+v", end)
		}
		for i, status := range []int{201, 202, 0, 0} {
			r, err := d.engine.Get(t.Context(), d.id(i))
			if err != nil || r.Status != status && status != 0 || (r.State == stet.Completed) != (status != 0) {
				t.Errorf("record %d is %v with %d, %v", i, r.State, r.Status, err)
			}
			if i == 0 && (r.Response == nil || string(r.Response.Body) != "late") {
				t.Errorf("%+v", r.Response)
			}
		}
		changes, _, err := d.engine.Operator().History(t.Context(), stet.HistoryQuery{ID: d.id(0)})
		if err != nil || changes[0].Note.Notice != end.ID || changes[0].Note.Evidence != why.Evidence+"; the answer is the one that came too late" {
			t.Errorf("%+v, %v", changes, err)
		}
	})
}

// A release is refused where the last probe speaks against it, as it is for a single record, and of
// many records those are left of which nothing has shown that they did not happen (O04).
func TestReleaseAgainstAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.New(memstore.Config{}))
		d.unknown(0, 2)
		d.begin(2) // and its process dies
		time.Sleep(d.engine.Policy().Lease)
		d.asked(0, reconcile.Finding{Effect: reconcile.Happened, Status: 200})
		d.asked(2, reconcile.Finding{Effect: reconcile.Happened, Status: 200})
		d.unasked(3, 2)
		d.asked(4, reconcile.Finding{})
		order := bulk.Order{Action: bulk.Release, Query: unknowns, Expect: 5}
		end := d.work(order)
		causes := map[string]int{}
		for _, e := range end.Errors {
			causes[e.Cause]++
		}
		if end.Done != 1 || end.Failed != 2 || end.Left != 2 || causes["found"] != 2 || causes["unproven"] != 2 {
			t.Fatalf("%+v", end)
		}
		order.Expect, order.Override = 4, true
		if end := d.work(order); end.Done != 4 {
			t.Errorf("%+v", end)
		}
	})
}

// What was named with its basis is changed at that one alone, whether it has changed before the
// start or after it, and is not left for a probe that went on meanwhile; and who sees the report
// sees each.
func TestPinned(t *testing.T) {
	for _, o := range []bulk.Order{{Action: bulk.Release}, {Action: bulk.Resolve}, {Action: bulk.Snooze, Until: time.Now().Add(time.Hour)}, {Action: bulk.Hand, To: "bob"}, {Action: bulk.Probe}} {
		t.Run(string(o.Action), func(t *testing.T) {
			d := newDesk(t, memstore.New(memstore.Config{}))
			found := reconcile.Finding{Effect: reconcile.Happened, Status: 200}
			d.jobs.AskWith(&reconcile.Reconciler{Engine: d.engine, Resolver: func(context.Context, stet.Head) (reconcile.Finding, error) { return found, nil }})
			d.unknown(0, 4)
			for i := range 4 {
				if o.Action == bulk.Resolve {
					d.asked(i, found)
				}
				r, err := d.engine.Get(t.Context(), d.id(i))
				if err != nil {
					t.Fatal(err)
				}
				o.Records = append(o.Records, bulk.Named{ID: d.id(i), Basis: r.Basis()})
			}
			move := func(i int) {
				if _, err := d.engine.Operator().Hand(t.Context(), d.id(i), 0, "carl", why); err != nil {
					t.Fatal(err)
				}
			}
			move(0)
			if _, err := d.engine.Operator().Resolve(t.Context(), d.id(1), execution.Of(t.Context(), d.engine, d.id(1)), stet.Resolution{Override: true}, why); err != nil {
				t.Fatal(err)
			}
			o.Expect = 4
			job := d.start(o)
			move(2)
			if r, err := d.engine.Get(t.Context(), d.id(3)); err != nil {
				t.Fatal(err)
			} else if _, ok, err := d.engine.Operator().Probing(t.Context(), &r.Head, time.Minute, nil); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if err := d.jobs.Work(t.Context(), job.ID); err != nil {
				t.Fatal(err)
			}
			end := d.is(job.ID, bulk.Completed, 1, 0, 3)
			if len(end.Errors) != 3 || end.Errors[0].Cause != "changed-meanwhile" || !end.Errors[0].Left {
				t.Errorf("%+v", end.Errors)
			}
			for i, id := range []int{0, 2} {
				r, err := d.engine.Get(t.Context(), d.id(id))
				to, _ := r.Handover()
				if _, snoozed := r.Snooze(); err != nil || r.State != stet.Unknown || to.To != "carl" || snoozed {
					t.Errorf("%d: record %d is %v, with %q, %v", i, id, r.State, to.To, err)
				}
			}
		})
	}
}

// Snooze, Hand and Probe do to each record what is done to a single one.
func TestRegard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.New(memstore.Config{}))
		d.unknown(0, 3)
		until := time.Now().Add(time.Hour)
		if end := d.work(bulk.Order{Action: bulk.Snooze, Query: unknowns, Expect: 3, Until: until}); end.Done != 3 {
			t.Fatalf("%+v", end)
		}
		if end := d.work(bulk.Order{Action: bulk.Hand, Query: unknowns, Expect: 3, To: "bob"}); end.Done != 3 {
			t.Fatalf("%+v", end)
		}
		for i := range 3 {
			r, err := d.engine.Get(t.Context(), d.id(i))
			s, _ := r.Snooze()
			if to, _ := r.Handover(); err != nil || to.To != "bob" || !s.Until.Equal(until) || s.Who != why.Who {
				t.Errorf("%+v, %+v, %v", to, s, err)
			}
		}
		asked := errors.New("away")
		d.jobs.AskWith(&reconcile.Reconciler{Engine: d.engine, Resolver: func(_ context.Context, h stet.Head) (reconcile.Finding, error) {
			switch h.ID {
			case d.id(0):
				return reconcile.Finding{Effect: reconcile.Happened, Response: &stet.Response{Status: 201}}, nil
			case d.id(1):
				return reconcile.Finding{}, asked
			}
			return reconcile.Finding{}, nil
		}})
		end := d.work(bulk.Order{Action: bulk.Probe, Query: unknowns, Expect: 3})
		if end.Done != 2 || end.Failed != 1 || end.Errors[0].Cause != "probe-failed" || d.state(0) != stet.Completed || d.state(1) != stet.Unknown {
			t.Errorf("%+v", end)
		}
		job := d.start(bulk.Order{Action: bulk.Snooze, Query: unknowns, Expect: 2, Until: time.Now().Add(time.Hour)})
		time.Sleep(2 * time.Hour)
		if err := d.jobs.Work(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		if end := d.is(job.ID, bulk.Completed, 0, 2, 0); end.Errors[0].Cause != "past" {
			t.Errorf("%+v", end.Errors)
		}
	})
}

func TestBadVerbs(t *testing.T) {
	d := newDesk(t, memstore.New(memstore.Config{}))
	d.unknown(0, 1)
	for want, o := range map[string]bulk.Order{
		"action": {Action: bulk.Probe}, "until": {Action: bulk.Snooze}, "until ": {Action: bulk.Release, Until: time.Now()},
		"until  ": {Action: bulk.Snooze, Until: time.Now().Add(-time.Second)}, "until   ": {Action: bulk.Snooze, Until: time.Now().Add(stet.MaxSnooze + time.Hour)},
		"to": {Action: bulk.Hand}, "to ": {Action: bulk.Resolve, To: "bob"}, "ids": {Action: bulk.Resolve, Records: []bulk.Named{}},
	} {
		o.Query, o.Expect, o.Note = unknowns, 1, why
		_, err := d.jobs.Start(t.Context(), o)
		if bad, ok := errors.AsType[*bulk.OrderError](err); !ok || bad.Field != strings.TrimSpace(want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// A record that has gone on in another attempt since the start is not the one that was chosen.
func TestAnotherAttempt(t *testing.T) {
	for _, o := range []bulk.Order{{Action: bulk.Hand, To: "bob"}, {Action: bulk.Snooze, Until: time.Now().Add(time.Hour)}, {Action: bulk.Release}} {
		d := newDesk(t, memstore.New(memstore.Config{}))
		d.unknown(0, 1)
		o.Records, o.Expect = d.named(0), 1
		job := d.start(o)
		if _, err := d.engine.Operator().Resolve(t.Context(), d.id(0), execution.Of(t.Context(), d.engine, d.id(0)), stet.Resolution{}, why); err != nil {
			t.Fatal(err)
		}
		d.unknown(0, 1)
		before, err := d.engine.Get(t.Context(), d.id(0))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.jobs.Work(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		d.is(job.ID, bulk.Completed, 0, 0, 1)
		if r, err := d.engine.Get(t.Context(), d.id(0)); err != nil || r.Version != before.Version {
			t.Errorf("%s changed it: %v", o.Action, err)
		}
	}
}

// Nothing frees a key in bulk before its client was told.
func TestExtendOnlyLengthens(t *testing.T) {
	d := newDesk(t, memstore.New(memstore.Config{}))
	d.completed(0, 2)
	for _, c := range []struct {
		retain     time.Duration
		done, left int
	}{{time.Millisecond, 0, 2}, {48 * time.Hour, 2, 0}} {
		end := d.work(bulk.Order{Action: bulk.Extend, Query: results, Expect: 2, Retain: c.retain})
		if end.Done != c.done || end.Left != c.left || end.Failed != 0 || c.left > 0 && (end.Errors[0].Cause != "kept-longer" || !end.Errors[0].Left) {
			t.Errorf("%s: %+v", c.retain, end)
		}
	}
}
