package bulk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
)

// ErrStopped is returned by [Jobs.Work] for a job that was stopped.
var ErrStopped = errors.New("bulk: the job is stopped; resume it first")

// look is how often the process that works on a job looks whether it was stopped.
const look = time.Second

// The actions of entries about jobs: see [stet.Note].
const (
	actionStart  = "bulk"
	actionStop   = "bulk-stop"
	actionResume = "bulk-resume"
)

// JobOf is the id of the job that an entry of the history is about; "" if it is about none.
func JobOf(id stet.ID) string {
	job := strings.TrimPrefix(string(id.Key), stopped)
	if id.Scope != stet.OwnScope || !strings.HasPrefix(job, prefix) {
		return ""
	}
	return job
}

// stopped is what the key of a mark begins with.
const stopped = "stop_"

// mark is the record that says that a job is stopped, as long as it is there. It is one of its own,
// because the job's is written by who works on it.
func mark(id string) stet.ID { return stet.ID{Scope: stet.OwnScope, Key: stet.Key(stopped + id)} }

// Stop stops a job at the next record: it keeps its place until [Jobs.Resume]. What is being
// changed at that instant still is. The note's Who and Why are required. The error is
// [stet.ErrState] if the job has ended, or is stopped.
func (j *Jobs) Stop(ctx context.Context, id string, n stet.Note) (Job, error) {
	job, err := j.turning(ctx, id, n, func(s State) bool { return s == Running || s == Waiting })
	if err != nil {
		return job, err
	}
	n.Action, n.Evidence = actionStop, id
	if err := j.engine.Operator().Audit(ctx, mark(id), n); err != nil && !errors.Is(err, stet.ErrUnsupported) {
		return job, fmt.Errorf("bulk: stop: %w", err)
	}
	policy := j.engine.Policy()
	// The mark outlasts the job, which would go on without it. A process that dies here leaves it
	// to the next that stops the job.
	policy.Rules = stet.Rules{Retain: 3 * Retain, OnLapse: stet.LapseReexecute}
	d, err := j.engine.Begin(ctx, stet.Request{ID: mark(id), Policy: &policy})
	switch {
	case err != nil || d.Verdict == stet.Replay: // it is stopped: its worker has still to see it
	case d.Verdict == stet.Execute:
		d.Claim.Completed()
		err = d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 200}})
	default:
		err = fmt.Errorf("another process has begun to stop it, and not said that it did: %v", d.Verdict)
	}
	if err != nil {
		return job, fmt.Errorf("bulk: stop: %w", err)
	}
	return j.Get(ctx, id)
}

// Resume lets a stopped job go on from its place, in any process that runs [Jobs.Run]. The note's
// Who and Why are required. The error is [stet.ErrState] if the job is not stopped.
func (j *Jobs) Resume(ctx context.Context, id string, n stet.Note) (Job, error) {
	job, err := j.turning(ctx, id, n, func(s State) bool { return s == Stopped })
	if err != nil {
		return job, err
	}
	n.Action, n.Evidence = actionResume, id // no notice: a job may be resumed more than once
	if err := j.engine.Operator().Purge(ctx, mark(id), 0, n); err != nil && !errors.Is(err, stet.ErrNotFound) {
		return job, fmt.Errorf("bulk: resume: %w", err)
	}
	j.rouse()
	return j.Get(ctx, id)
}

// turning is a job that may be stopped or resumed.
func (j *Jobs) turning(ctx context.Context, id string, n stet.Note, from func(State) bool) (Job, error) {
	if n.Who == "" || n.Why == "" {
		return Job{}, stet.ErrNoReason
	}
	job, err := j.Get(ctx, id)
	if err == nil && !from(job.State) {
		err = fmt.Errorf("bulk: %w: it is %s", stet.ErrState, job.State)
	}
	return job, err
}

// stopped reports whether a job is stopped.
func (j *Jobs) stopped(ctx context.Context, id string) (bool, error) {
	r, err := j.engine.Get(ctx, mark(id))
	if errors.Is(err, stet.ErrNotFound) {
		return false, nil
	}
	return err == nil && r.State == stet.Completed, err
}

// watch ends the work on a job once it is stopped.
func (r *run) watch(ctx context.Context, end context.CancelCauseFunc) {
	for rest.For(ctx, look) {
		// A store that does not answer stops nothing.
		if stopped, err := r.j.stopped(ctx, string(r.c.ID().Key)); err == nil && stopped {
			end(ErrStopped)
			return
		}
	}
}
