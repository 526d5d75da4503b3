package operate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/walk"
	"github.com/stet-dev/stet/reconcile"
)

// JobState is how far a job has come.
type JobState string

// The states of a job.
const (
	JobRunning     JobState = "running"
	JobCompleted   JobState = "completed"   // nothing is left to do
	JobStopped     JobState = "stopped"     // an operator stopped it: what it had not come to stays as it is
	JobInterrupted JobState = "interrupted" // its process has ended: likewise
	JobNewer       JobState = "newer"       // a newer version of Stet has written it: this one cannot read it
)

// over reports whether the job does nothing any more.
func (s JobState) over() bool { return s != JobRunning }

// Job is a bulk job: an order, and what has become of it. Its numbers are a moment old while it
// runs.
type Job struct {
	Job         string    `json:"job"`
	Action      Action    `json:"action"`
	Filter      Filter    `json:"filter"`
	Incident    string    `json:"incident,omitzero"`
	State       JobState  `json:"state"`
	Total       int       `json:"total"`
	Done        int       `json:"done"`
	Failed      int       `json:"failed"`
	Left        int       `json:"left"`   // still to be changed; of a completed job: what was left as it is, each for a reason
	Errors      []Failure `json:"errors"` // the first 20 that failed or were left; GET …/report has the others
	Limit       int       `json:"limit,omitzero"`
	Seconds     float64   `json:"seconds,omitzero"`
	Until       time.Time `json:"until,omitzero"` // of snooze
	To          string    `json:"to,omitzero"`    // of hand
	Who         string    `json:"who"`
	Reason      string    `json:"reason"`
	Evidence    string    `json:"evidence,omitzero"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
}

// Failure is a record that a job could not change, or left as it is, and why.
type Failure struct {
	ID     string     `json:"id"`
	Scope  stet.Scope `json:"scope"`
	Cause  string     `json:"cause"`         // a problem's code, or unproven
	Detail string     `json:"detail"`        // a sentence, for people
	Left   bool       `json:"left,omitzero"` // it is counted as left, not as failed
}

const (
	maxNamed = 1000 // failures of a job that are named; they are written with its progress
	maxShown = 20   // those that are shown with it

	jobsAtOnce = 16              // records that a job changes at a time: a request may have to wait for so many writes
	jobTries   = 3               // of a record, if the store does not answer
	jobPause   = time.Second     // before each repetition
	jobTick    = time.Second / 4 // between two writes of a job's progress, and two looks whether it was stopped
	maxQueued  = 16              // jobs of a process that work or wait for their turn
	maxRecent  = 20              // jobs that are listed

	// JobRetain is how long a job can be looked at after its end.
	JobRetain = 7 * 24 * time.Hour

	jobPrefix = "bulk_" // what the key of every job begins with: there are other records in [stet.OwnScope]
	jobFormat = 2       // of the jobs that this version writes
	jobPoint  = "walk"  // the recovery point of every job

	actionBulk     = "bulk"      // a job was started
	actionBulkStop = "bulk-stop" // a job is to stop
)

// Jobs runs bulk jobs, one at a time. Each is a record in [stet.OwnScope]: its lease says that a
// process works on it, and its progress how far it has come. A job ends with its process: what is
// left stays as it is, and the same order takes the rest. Jobs is safe for concurrent use.
type Jobs struct {
	queue chan *jobRun
	room  chan struct{} // a value for each job that works or waits
}

// NewJobs returns the jobs of a process. None is worked on before [Jobs.Run] is called.
func NewJobs() *Jobs {
	return &Jobs{make(chan *jobRun, maxQueued), make(chan struct{}, maxQueued)}
}

// Run works on the jobs that are started with j until ctx ends, and then returns nil.
func (j *Jobs) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	before := make(chan struct{})
	close(before)
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-j.queue:
			turn, over := before, make(chan struct{})
			before = over
			all.Go(func() {
				r.run(ctx, turn)
				close(over)
				<-j.room
			})
		}
	}
}

var queueFull = &Problem{Status: 429, Code: "rate-limited", Title: "Too many jobs wait", Detail: "Nothing was changed. Start it when one of them has ended.", Retryable: true}

// start stores a job, and hands it to [Jobs.Run].
func (j *Jobs) start(ctx context.Context, d *Desk, o *Order, c *chosen) (job string, err error) {
	select {
	case j.room <- struct{}{}:
	default:
		return "", queueFull
	}
	defer func() {
		if err != nil {
			<-j.room
		}
	}()
	r := &jobRun{Desk: *d, order: o, targets: c.targets, job: Job{Job: jobPrefix + strings.ToLower(rand.Text()), Action: o.Action, Filter: c.filter, Incident: o.Incident,
		Total: len(c.targets), Left: len(c.targets), Errors: []Failure{}, Limit: o.Limit, Seconds: o.Seconds, Until: o.Until.UTC(), To: o.To,
		Who: d.caller.Name, Reason: o.Reason, Evidence: o.Evidence}}
	r.notice, r.room = r.job.Job, nil
	id, policy := jobID(r.job.Job), d.engine.Policy()
	entry := stet.Note{Who: d.caller.Name, Why: o.Reason, Action: actionBulk, Notice: r.notice, Evidence: fmt.Sprintf("%s of %d records", o.Action, r.job.Total)}
	if err := d.engine.Operator().Audit(ctx, id, entry); err != nil && !errors.Is(err, stet.ErrUnsupported) {
		return "", err
	}
	policy.Rules, policy.Execution = stet.Rules{Retain: JobRetain, OnLapse: stet.LapseResume}, stet.Never
	begun, err := d.engine.Begin(ctx, stet.Request{ID: id, Policy: &policy, Point: jobPoint, Keep: r.document()})
	if err != nil {
		return "", err
	}
	r.claim = begun.Claim
	j.queue <- r // it has room
	return r.job.Job, nil
}

func jobID(job string) stet.ID { return stet.ID{Scope: stet.OwnScope, Key: stet.Key(job)} }

// jobOf is the id of the job that an entry of the history is about; "" if it is about none.
func jobOf(id stet.ID) string {
	if id.Scope != stet.OwnScope || !strings.HasPrefix(string(id.Key), jobPrefix) {
		return ""
	}
	return string(id.Key)
}

// jobRun is one process's work on a job, for the caller who ordered it.
type jobRun struct {
	Desk
	claim   *stet.Claim
	order   *Order
	targets []target

	mu  sync.Mutex
	job Job
}

// storedJob is a job as its record keeps it.
type storedJob struct {
	Format int `json:"format"`
	Job
}

func (r *jobRun) document() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	doc, err := json.Marshal(storedJob{jobFormat, r.job})
	if err != nil {
		panic("operate: a job that is not JSON: " + err.Error())
	}
	return doc
}

var errStopped = errors.New("operate: the job was stopped")

// run changes the records once it is the job's turn, and stores what has become of them.
func (r *jobRun) run(ctx context.Context, turn <-chan struct{}) {
	held := r.claim.Hold(ctx, keptLease{})
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(held, func() { end(context.Cause(held)) })()
	going, stop := context.WithCancelCause(ctx) // a job that is stopped ends what it has begun
	var telling sync.WaitGroup
	r.look(going, stop) // it may have been stopped before this process had come to it
	telling.Go(func() { r.tell(going, stop) })
	select {
	case <-turn:
	case <-going.Done():
	}
	within := ctx
	if r.order.Action == ActProbe { // a question that is cut off has changed nothing
		within = going
	}
	workers := walk.NewWorkers(jobsAtOnce)
	for i := range r.targets {
		if !workers.Go(going, func() { r.count(within, &r.targets[i], r.one(within, &r.targets[i])) }) {
			break
		}
	}
	workers.Wait()
	why := context.Cause(going)
	stop(nil)
	telling.Wait()
	r.readings.forget()
	switch r.job.State = JobCompleted; {
	case ctx.Err() != nil:
		r.leave(ctx)
		return
	case errors.Is(why, errStopped):
		r.job.State = JobStopped
	}
	r.claim.Completed()
	r.warn(r.claim.Settle(context.WithoutCancel(ctx), stet.Outcome{Response: stet.Response{Status: 200, Body: r.document()}}))
}

// keptLease leaves a job whose lease was lost as its record is.
type keptLease struct{}

func (keptLease) Lost(error) {}

// leave gives the job up at what it has come to.
func (r *jobRun) leave(ctx context.Context) {
	r.warn(r.claim.Suspend(context.WithoutCancel(ctx), stet.Step{Point: jobPoint, Progress: r.document()}, 0))
}

func (r *jobRun) warn(err error) {
	if err != nil {
		r.log.Warn("the end of a job is not stored: it will be shown as interrupted", "job", r.job.Job, "error", err.Error())
	}
}

// tell stores the job's progress, and looks whether the job was stopped.
func (r *jobRun) tell(ctx context.Context, stop context.CancelCauseFunc) {
	told := r.document()
	for rest.For(ctx, jobTick) {
		r.look(ctx, stop)
		if doc := r.document(); !bytes.Equal(doc, told) && r.claim.Step(ctx, stet.Step{Point: jobPoint, Progress: doc}) == nil {
			told = doc
			r.readings.forget()
		}
	}
}

// look stops the job if it is to stop. A store that does not answer stops nothing.
func (r *jobRun) look(ctx context.Context, stop context.CancelCauseFunc) {
	if stopped, err := r.stopped(ctx, r.job.Job); err == nil && stopped {
		stop(errStopped)
	}
}

// stopped reports whether a job is to stop: the entry of the audit trail is the mark.
func (s *service) stopped(ctx context.Context, job string) (bool, error) {
	entries, _, err := s.engine.Operator().History(ctx, stet.HistoryQuery{ID: jobID(job), Limit: stet.MaxLimit})
	return slices.ContainsFunc(entries, func(c stet.Change) bool { return c.Action() == actionBulkStop }), err
}

// count counts what became of a record. What was cut off with the process is not counted.
func (r *jobRun) count(ctx context.Context, t *target, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.job.Done++
		r.job.Left--
		return
	}
	if ctx.Err() != nil {
		return
	}
	f := Failure{ID: t.tag, Scope: stet.Scope(t.Scope), Cause: "unproven", Detail: unproven.Error(), Left: true}
	if p := ProblemOf(err); !errors.Is(err, unproven) {
		f.Cause, f.Detail = p.Code, p.Detail
		f.Left = slices.Contains([]string{"state-changed", "not-found", "no-answer"}, p.Code)
	}
	if !f.Left {
		r.job.Failed++
		r.job.Left--
	}
	if len(r.job.Errors) < maxNamed {
		r.job.Errors = append(r.job.Errors, f)
	}
}

// one changes a record. If the store did not answer, it is tried again; where it then has changed,
// this job may have done that.
func (r *jobRun) one(ctx context.Context, t *target) error {
	for try := 1; ; try++ {
		err := r.act(ctx, t)
		if err == nil {
			return nil
		}
		switch p := ProblemOf(err); {
		case try > 1 && (p.Code == "state-changed" || p.Code == notFound.Code) && r.mine(ctx, t):
			return nil
		case p != unavailable || try == jobTries || !rest.For(ctx, jobPause):
			return err
		}
	}
}

// mine reports whether this job has changed the record, which only the history can tell.
func (r *jobRun) mine(ctx context.Context, t *target) bool {
	entries, _, _ := r.engine.Operator().History(ctx, stet.HistoryQuery{Tag: t.tag, Limit: stet.MaxLimit})
	return slices.ContainsFunc(entries, func(c stet.Change) bool { return c.Note.Notice == r.notice })
}

var unproven = errors.New("nothing proves that it did not happen: no probe has found that out, or no trace is no proof here; look at it, and release it by itself")

// act does to one record what an operator does to a single one, and by the same rules. Many are
// released only where a trace was looked for and not found.
func (r *jobRun) act(ctx context.Context, t *target) (err error) {
	o, n, at := r.order, t.Name, Condition{Basis: Basis(t.basis)}
	c := Change{at, o.Reason, o.Evidence}
	switch o.Action {
	case ActRelease:
		_, err = r.change(ctx, n, &c, nil, func(rec *stet.Record) (stet.Head, error) {
			ruling := reconcile.Plan{Settle: r.settle}.Release(&rec.Head)
			if ruling.May() && !ruling.Many() && !o.Now && !o.Override {
				return rec.Head, unproven
			}
			return r.resolve(ctx, rec, stet.Resolution{Settle: r.settle, Now: o.Now, Override: o.Override}, r.by(&c))
		})
	case ActResolve:
		_, err = r.change(ctx, n, &c, nil, func(rec *stet.Record) (stet.Head, error) {
			if rec.State != stet.Unknown {
				return rec.Head, stet.ErrState
			}
			return reconcile.Adopt(ctx, r.engine, rec, r.by(&c))
		})
	case ActProbe:
		_, err = r.Probe(ctx, n, Question{at, o.Reason})
	case ActSnooze:
		_, err = r.Snooze(ctx, n, Snoozing{Condition: at, Until: o.Until, Reason: o.Reason})
	case ActHand:
		_, err = r.Hand(ctx, n, Handing{at, o.To, o.Reason})
	case ActDelete:
		err = r.Delete(ctx, n, c)
	case ActExtend:
		_, err = r.Extend(ctx, n, Extension{c, o.Seconds})
	default:
		err = fmt.Errorf("operate: no such action: %s", o.Action)
	}
	return err
}

// Job shows a job. It takes a viewer.
func (d *Desk) Job(ctx context.Context, id string) (Job, error) {
	job, err := d.job(ctx, id)
	job.Errors = job.Errors[:min(len(job.Errors), maxShown)]
	return job, err
}

// Report lists the records that a job failed to change, or left, as far as the job names them. It
// takes a viewer.
func (d *Desk) Report(ctx context.Context, id string) ([]Failure, error) {
	job, err := d.job(ctx, id)
	return job.Errors, err
}

// job reads a job. Its record has the latest of it in its end, its progress, or the order.
func (d *Desk) job(ctx context.Context, id string) (Job, error) {
	if d.conf.Jobs == nil || jobOf(jobID(id)) == "" {
		return Job{}, notFound
	}
	rec, err := d.engine.Get(ctx, jobID(id))
	if err != nil {
		return Job{}, err
	}
	doc := rec.Request
	switch {
	case rec.Response != nil:
		doc = rec.Response.Body
	case rec.Progress != nil:
		doc = rec.Progress
	}
	var s storedJob
	strict := json.NewDecoder(bytes.NewReader(doc))
	strict.DisallowUnknownFields()
	switch err := strict.Decode(&s); {
	case err != nil || s.Format != jobFormat || !slices.Contains(Actions, s.Action):
		s = storedJob{Job: Job{Job: id, State: JobNewer}}
	case rec.State == stet.Completed:
	case rec.State != stet.Running || rec.Over() || rec.Cause == stet.CauseSuspended:
		s.State = JobInterrupted
	default:
		s.State = JobRunning
	}
	if !d.caller.Allows(s.Filter.Scope) {
		return Job{}, notFound
	}
	s.Errors, s.CreatedAt, s.UpdatedAt, s.CompletedAt = some(s.Errors), rec.CreatedAt.UTC(), rec.UpdatedAt.UTC(), rec.CompletedAt.UTC()
	return s.Job, nil
}

// Reason is why a job is stopped.
type Reason struct {
	Reason string `json:"reason"`
}

// StopJob has a job stop within a second: what is being changed still is. It returns the job
// as it was. It takes an operator.
func (d *Desk) StopJob(ctx context.Context, id string, why Reason) (Job, error) {
	c := Change{Reason: why.Reason}
	if err := cmp.Or(d.caller.Takes(Operator), c.check()); err != nil {
		return Job{}, err
	}
	job, err := d.Job(ctx, id)
	switch {
	case err != nil:
		return job, err
	case job.State.over():
		return job, &Problem{Status: 409, Code: "state-changed", Title: "The job's state does not allow this",
			Detail: fmt.Sprintf("It is %s. Look at it again.", job.State)}
	}
	if stopped, err := d.stopped(ctx, id); err != nil && !errors.Is(err, stet.ErrUnsupported) {
		return job, err
	} else if stopped {
		return job, &Problem{Status: 409, Code: "state-changed", Title: "The job's state does not allow this", Detail: "It is being stopped already. Look at it again."}
	}
	entry := d.by(&c)
	entry.Action, entry.Evidence = actionBulkStop, id
	if err := d.engine.Operator().Audit(ctx, jobID(id), entry); errors.Is(err, stet.ErrUnsupported) {
		return job, noHistory
	} else if err != nil {
		return job, err
	}
	return job, nil
}

// JobList is the latest jobs.
type JobList struct {
	Jobs []Job `json:"jobs"`
}

// RecentJobs lists the latest 20 jobs that the caller may see. On stores that find a scope by looking
// at every record it takes as long as that. It takes a viewer.
func (d *Desk) RecentJobs(ctx context.Context) (list JobList, err error) {
	list.Jobs = []Job{}
	if d.conf.Jobs == nil {
		return list, notFound
	}
	q := stet.Query{Scope: stet.OwnScope, Limit: stet.MaxLimit}
	var all []stet.Head
	for heads, err := range walk.Pages(func(after string) ([]stet.Head, string, error) {
		q.After = after
		return d.engine.Operator().List(ctx, q)
	}) {
		if err != nil {
			return list, err
		}
		all = append(all, slices.DeleteFunc(heads, func(h stet.Head) bool { return jobOf(h.ID) == "" })...)
	}
	slices.SortFunc(all, func(a, b stet.Head) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(string(a.Key), string(b.Key)))
	})
	for _, h := range all[:min(len(all), maxRecent)] {
		switch job, err := d.Job(ctx, string(h.Key)); {
		case err == nil:
			list.Jobs = append(list.Jobs, job)
		case !errors.Is(err, stet.ErrNotFound) && !errors.Is(err, stet.ErrCorrupt) && err != error(notFound):
			return list, err
		}
	}
	return list, nil
}
