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
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/walk"
)

// Jobs starts, shows and runs the jobs of one store. It is safe for concurrent use.
type Jobs struct {
	engine *stet.Engine
	wake   chan struct{} // a value if a job was started with this Jobs
}

// New returns the jobs of an engine's store, which must be a [stet.Lister]. Nothing works on jobs
// before [Jobs.Run] is called.
func New(e *stet.Engine) *Jobs { return &Jobs{engine: e, wake: make(chan struct{}, 1)} }

// Retain is how long a job can be looked at after its end. A job that no process goes on with is
// given up after the same time.
const Retain = 7 * 24 * time.Hour

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
	count, err := j.Count(ctx, o.Action, o.Query)
	switch {
	case err != nil:
		return Job{}, err
	case count.Matching != o.Expect:
		return Job{}, &Mismatch{o.Expect, count.Matching}
	}
	if o.Query, err = selection(o.Action, o.Query); err != nil {
		return Job{}, err
	}
	s := stored{Order: o, Key: string(o.Query.Key), Before: count.at, Total: o.Expect}
	if o.Limit > 0 {
		s.Total = min(s.Total, o.Limit)
	}
	id := stet.ID{Scope: stet.OwnScope, Key: stet.Key("bulk_" + strings.ToLower(rand.Text()))}
	err = j.engine.Operator().Audit(ctx, id, stet.Note{Who: o.Note.Who, Why: o.Note.Why, Action: "bulk",
		Notice: string(id.Key), Evidence: fmt.Sprintf("%s of %d records", o.Action, s.Total)})
	if err != nil && !errors.Is(err, stet.ErrUnsupported) {
		return Job{}, fmt.Errorf("bulk: start: %w", err)
	}
	if err := j.store(ctx, id, &s); err != nil {
		return Job{}, fmt.Errorf("bulk: start: %w", err)
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
	return j.Get(ctx, string(id.Key))
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
	r, err := j.engine.Get(ctx, stet.ID{Scope: stet.OwnScope, Key: stet.Key(id)})
	if err != nil {
		return Job{}, err
	}
	return jobOf(&r)
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
		all = append(all, heads...)
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
