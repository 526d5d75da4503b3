package bulk

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/walk"
	"github.com/stet-dev/stet/reconcile"
)

// Jobs starts, shows and runs the jobs of one store. It is safe for concurrent use.
type Jobs struct {
	engine *stet.Engine
	asks   atomic.Pointer[reconcile.Reconciler] // of a Probe; nil: there is nothing to ask
	wake   chan struct{}                        // a value if a job was started with this Jobs
}

// New returns the jobs of an engine's store, which must be a [stet.Lister]. Nothing works on jobs
// before [Jobs.Run] is called.
func New(e *stet.Engine) *Jobs { return &Jobs{engine: e, wake: make(chan struct{}, 1)} }

// AskWith says what a [Probe] asks with, from now on. With nil, as at first, such a job is refused.
func (j *Jobs) AskWith(r *reconcile.Reconciler) { j.asks.Store(r) }

// Retain is how long a job can be looked at after its end. A job that no process goes on with is
// given up after the same time.
const Retain = 7 * 24 * time.Hour

// prefix is what the key of every job begins with: there are other records in [stet.OwnScope].
const prefix = "bulk_"

// point is the recovery point of every job; how far it has come is in its progress.
const point = "walk"

// Count is what matches a query.
type Count struct {
	Matching int
	States   map[string]int // by the state's name, or failed: completed with a status of 500 and above
	Oldest   time.Time      // the CreatedAt of the oldest; zero where nothing matches
	at       time.Time      // the store's clock when the count began
}

// Count counts what a job would be about. It reads the head of every record that matches, at most
// [MaxRecords]: with more of them the error is [ErrTooMany]. Otherwise it is an [OrderError], or
// the store's.
func (j *Jobs) Count(ctx context.Context, a Action, q stet.Query) (Count, error) {
	c := Count{States: map[string]int{}}
	q, err := selection(a, q)
	if err != nil {
		return c, err
	}
	for heads, err := range j.all(ctx, q) {
		if err != nil {
			return c, fmt.Errorf("bulk: count: %w", err)
		}
		for i := range heads {
			h := &heads[i]
			if c.at.IsZero() {
				c.at = h.AsOf
			}
			if selects(&q, h, c.at) {
				c.add(h)
			}
		}
		if c.Matching > MaxRecords {
			return c, ErrTooMany
		}
	}
	return c, nil
}

// all returns the pages of the records that a query selects.
func (j *Jobs) all(ctx context.Context, q stet.Query) iter.Seq2[[]stet.Head, error] {
	return walk.Pages(func(after string) ([]stet.Head, string, error) {
		q.After, q.Limit = after, stet.MaxLimit
		return j.engine.Operator().List(ctx, q)
	})
}

func (c *Count) add(h *stet.Head) {
	state := h.State.String()
	if h.Failed() {
		state = "failed"
	}
	c.Matching++
	c.States[state]++
	if c.Oldest.IsZero() || h.CreatedAt.Before(c.Oldest) {
		c.Oldest = h.CreatedAt
	}
}

// Start stores a job for [Jobs.Run] to work on, of this process or of another. The error is an
// [OrderError], a [Mismatch], [ErrTooMany], [stet.ErrNoReason], or the store's; after that of a
// store the job may have been started.
func (j *Jobs) Start(ctx context.Context, o Order) (Job, error) {
	if err := o.validate(); err != nil {
		return Job{}, err
	}
	if o.Action == Probe && j.asks.Load() == nil {
		return Job{}, &OrderError{"action", "no probe is configured: set reconcile.probe.url to where the upstream says what it has done"}
	}
	s, err := j.selected(ctx, &o)
	if err != nil {
		return Job{}, err
	}
	if in := o.Until.Sub(s.Before); o.Action == Snooze && (in <= 0 || in > stet.MaxSnooze) {
		return Job{}, &OrderError{"until", fmt.Sprintf("it is an instant ahead, at most %d hours from now", stet.MaxSnooze/time.Hour)}
	}
	if o.Limit > 0 {
		s.Total = min(s.Total, o.Limit)
	}
	id := stet.ID{Scope: stet.OwnScope, Key: stet.Key(prefix + strings.ToLower(rand.Text()))}
	err = j.engine.Operator().Audit(ctx, id, stet.Note{Who: o.Note.Who, Why: o.Note.Why, Action: actionStart,
		Notice: string(id.Key), Evidence: fmt.Sprintf("%s of %d records", o.Action, s.Total)})
	if err != nil && !errors.Is(err, stet.ErrUnsupported) {
		return Job{}, fmt.Errorf("bulk: start: %w", err)
	}
	if err := j.store(ctx, id, &s); err != nil {
		return Job{}, fmt.Errorf("bulk: start: %w", err)
	}
	j.rouse()
	return j.Get(ctx, string(id.Key))
}

// rouse has [Jobs.Run] look for a job at once.
func (j *Jobs) rouse() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// selected is the job of an order, before any of its records was changed.
func (j *Jobs) selected(ctx context.Context, o *Order) (s stored, err error) {
	if len(o.Records) > 0 {
		return j.named(ctx, o)
	}
	count, err := j.Count(ctx, o.Action, o.Query)
	switch {
	case err != nil:
		return s, err
	case count.Matching != o.Expect:
		return s, &Mismatch{o.Expect, count.Matching}
	}
	s = stored{Order: *o, Key: string(o.Query.Key), Before: count.at, Total: o.Expect}
	s.Order.Query, err = selection(o.Action, o.Query)
	return s, err
}

// named is the job of an order that names its records: they are its only page.
func (j *Jobs) named(ctx context.Context, o *Order) (s stored, err error) {
	s = stored{Order: *o, Total: o.Expect}
	s.Order.Records, s.Order.Query = nil, stet.Query{Scope: o.Query.Scope}
	if _, err := selection(o.Action, stet.Query{Scope: o.Records[0].ID.Scope}); err != nil {
		return s, err
	}
	for _, n := range o.Records {
		r, err := j.engine.Get(ctx, n.ID)
		moved := n.Basis != "" && r.Basis() != n.Basis // it is left, when the job comes to it
		switch {
		case errors.Is(err, stet.ErrNotFound), err == nil && o.Action.ofUnknown() && r.State != stet.Unknown:
			if !moved {
				continue
			}
		case err != nil:
			return s, fmt.Errorf("bulk: start: %w", err)
		}
		if !r.AsOf.IsZero() {
			s.Before = r.AsOf
		}
		r.ID = n.ID
		t := newTarget(&r.Head)
		t.Basis = cmp.Or(n.Basis, t.Basis)
		s.Page = append(s.Page, t)
	}
	s.Taken, s.Last = len(s.Page), true
	if s.Taken != o.Expect {
		return s, &Mismatch{o.Expect, s.Taken}
	}
	return s, nil
}

// store creates the job's record, and suspends it at its recovery point. The first process that
// finds it works on it.
func (j *Jobs) store(ctx context.Context, id stet.ID, s *stored) error {
	doc, err := s.encode()
	if err != nil {
		return err
	}
	policy := j.engine.Policy()
	policy.Rules = stet.Rules{Retain: Retain, OnLapse: stet.LapseResume}
	d, err := j.engine.Begin(ctx, stet.Request{ID: id, Subject: stet.Subject{Body: doc}, Policy: &policy, Point: point, Keep: doc})
	switch {
	case err != nil:
		return err
	case d.Verdict != stet.Execute:
		return fmt.Errorf("its id is taken: %v", d.Verdict)
	}
	// If this fails, the job is stored all the same, and can be taken when its lease ends.
	_ = d.Claim.Suspend(ctx, stet.Step{Point: point}, 0)
	return nil
}

// Get returns a job, or [stet.ErrNotFound].
func (j *Jobs) Get(ctx context.Context, id string) (Job, error) {
	if !strings.HasPrefix(id, prefix) {
		return Job{}, stet.ErrNotFound
	}
	r, err := j.engine.Get(ctx, stet.ID{Scope: stet.OwnScope, Key: stet.Key(id)})
	if err != nil {
		return Job{}, err
	}
	job, err := jobOf(&r)
	if err != nil || job.State != Waiting {
		return job, err
	}
	stopped, err := j.stopped(ctx, id)
	if stopped {
		job.State = Stopped
	}
	return job, err
}

const maxRecent = 20

// Recent returns the 20 jobs that were started last, newest first. On stores that find a scope by
// looking at every record it takes as long as that.
func (j *Jobs) Recent(ctx context.Context) (jobs []Job, err error) {
	var all []stet.Head
	for heads, err := range j.all(ctx, stet.Query{Scope: stet.OwnScope}) {
		if err != nil {
			return nil, err
		}
		for i := range heads {
			if strings.HasPrefix(string(heads[i].Key), prefix) {
				all = append(all, heads[i])
			}
		}
	}
	slices.SortFunc(all, func(a, b stet.Head) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(string(a.Key), string(b.Key)))
	})
	for _, h := range all[:min(len(all), maxRecent)] {
		switch job, err := j.Get(ctx, string(h.Key)); {
		case err == nil:
			jobs = append(jobs, job)
		case !errors.Is(err, stet.ErrNotFound) && !errors.Is(err, stet.ErrCorrupt):
			return nil, err
		}
	}
	return jobs, nil
}

// every is the time between two searches for jobs that no process works on.
const every = 5 * time.Second

// Run works on jobs, one at a time, until ctx ends, and then returns nil: on those that were
// started with j, and on those whose process has died or was stopped. It leaves the job it works on
// at a recovery point. Errors of the store never end it.
func (j *Jobs) Run(ctx context.Context) error {
	for {
		j.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-j.wake:
		case <-time.After(rest.Spread(every)):
		}
	}
}

// round works on the jobs that no process works on. The engine's observer is told of errors.
func (j *Jobs) round(ctx context.Context) {
	abandoned := func(after string) ([]stet.Head, string, error) {
		return j.engine.Operator().Abandoned(ctx, stet.Query{Scope: stet.OwnScope, After: after, Limit: stet.MaxLimit})
	}
	for heads := range walk.Pages(abandoned) {
		for i := range heads {
			if strings.HasPrefix(string(heads[i].Key), prefix) && ctx.Err() == nil {
				_ = j.Work(ctx, string(heads[i].Key)) // another process may be working on it
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}
