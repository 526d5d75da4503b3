package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/operate"
)

// selected are the records of a job.
type selected struct {
	filter
	Incident string `placeholder:"INCIDENT" help:"In place of a filter: the records of this incident (i_…), as they are now."`
	Limit    int    `help:"Maximum number of matching records to change (all)."`
}

// job changes what is selected: it counts, asks, starts, watches and reports. Where more match than a
// job takes, further ones follow, until one of them changes nothing: of an action after which records
// do not match any more. Another would be done to the same ones for ever.
func (s *selected) job(w *world, a *api, c *confirmed, o operate.Order, lookAt string) error {
	if o.Incident = s.Incident; len(o.IDs) == 0 && o.Incident == "" {
		o.Filter = adminclient.Parameters(s.query())
	}
	o.Limit = s.Limit
	for first := true; ; first = false {
		n, err := a.Preview(w.ctx, o.Selection)
		switch {
		case !first && adminclient.Is(err, "not-found"): // nothing is left of the incident
			return nil
		case err != nil && o.Incident != "":
			return noSuchIncident(err)
		case err != nil:
			return err
		case n.Matching == 0 && !first:
			return nil
		case n.Matching == 0:
			fmt.Fprintln(w.stderr, noRecords)
			return c.done(w, 0)
		}
		if first {
			what := bulkText(&n, o.Action, o.Limit)
			if c.Yes && !c.JSON {
				fmt.Fprintln(w.stderr, what)
			}
			if err := c.sure(w, what); err != nil {
				return err
			}
		}
		o.Expect = n.Matching
		job, err := a.Start(w.ctx, o)
		if err != nil {
			return err
		}
		v := watch{w: w, a: a, id: job.Job, json: c.JSON, lookAt: lookAt}
		if err := v.run(); err != nil || !n.More || v.last.Done == 0 || o.Limit > 0 && o.Limit <= v.last.Total {
			return err
		}
		if !ends[o.Action] {
			fmt.Fprintln(w.stderr, "further ones match, and are as they were: narrow the filter to them")
			return nil
		}
		o.Limit = max(0, o.Limit-v.last.Total)
	}
}

// ends are the actions after which a record is in another state, or gone.
var ends = map[operate.Action]bool{operate.ActRelease: true, operate.ActResolve: true, operate.ActDelete: true}

// bulkText says what is about to happen.
func bulkText(n *operate.Count, action operate.Action, limit int) string {
	number := plural(n.Matching, "record")
	switch {
	case limit > 0 && (limit < n.Matching || n.More):
		number = fmt.Sprintf("%d of %s", limit, number)
	case n.More && ends[action]:
		number += ", and then further ones"
	case n.More:
		number = "the first " + number
	}
	states := each(sortedKeys(n.States), func(s *string) string { return fmt.Sprint(n.States[*s], " ", visible(*s)) })
	return fmt.Sprintf("%s %s (%s; the oldest was created %s)", action, number, strings.Join(states, ", "),
		instant(n.Oldest))
}

// lookAt is the command line's part that says where the job is.
func (s *source) lookAt() string {
	return cmp.Or(given(s.Admin != "", " --admin "+s.Admin), given(s.Store != "", " --store "+s.Store))
}

// How often a watched job is looked at, how often its progress is printed where there is no
// terminal, and how long a gateway may not answer before watching ends: it may be restarting.
const (
	lookEvery = 200 * time.Millisecond
	tellEvery = 5 * time.Second
	lookAgain = 30 * time.Second
)

// watch follows a job to its end, and, on a store, does its work meanwhile.
type watch struct {
	w      *world
	a      *api
	id     string
	json   bool
	lookAt string

	last operate.Job
	told time.Time
	bar  bool // the last line of the terminal is a bar
}

func (v *watch) run() error {
	working, stop := context.WithCancel(v.w.ctx)
	var work sync.WaitGroup
	if v.a.jobs != nil {
		work.Go(func() { _ = v.a.jobs.Run(working) })
	}
	err := v.follow()
	stop()
	work.Wait()
	if v.bar {
		fmt.Fprintln(v.w.stderr)
	}
	if err != nil && v.w.ctx.Err() == nil {
		return fmt.Errorf("%w; the job goes on: stet keys bulk %s%s", v.a.told(err), v.id, v.lookAt)
	}
	if v.last, err = v.a.Job(context.WithoutCancel(v.w.ctx), v.id); err != nil {
		return err
	}
	return v.report()
}

// follow returns when the job has ended, or the world's context.
func (v *watch) follow() error {
	for since := time.Now(); ; {
		var err error
		switch v.last, err = v.a.Job(v.w.ctx, v.id); {
		case err == nil && v.last.State != operate.JobRunning:
			return nil
		case err == nil:
			since = time.Now()
			v.tell()
		case exitOf(v.a.told(err)) != exitUnreachable || time.Since(since) > lookAgain:
			return err
		}
		if !rest.For(v.w.ctx, lookEvery) {
			return v.w.ctx.Err()
		}
	}
}

// tell shows the progress: a bar on a terminal, otherwise a line every tellEvery.
func (v *watch) tell() {
	const width = 30
	j := &v.last
	switch seen := j.Total - j.Left; {
	case v.json || j.Total == 0:
	case isTerminal(v.w.stderr):
		full := width * seen / j.Total
		fmt.Fprintf(v.w.stderr, "\r[%s%s] %d of %d, %d failed ", strings.Repeat("#", full), strings.Repeat(".", width-full), seen,
			j.Total, j.Failed)
		v.bar = true
	case v.told.IsZero():
		v.told = time.Now()
	case time.Since(v.told) >= tellEvery:
		fmt.Fprintf(v.w.stderr, "%d of %s, %d failed\n", seen, plural(j.Total, "record"), j.Failed)
		v.told = time.Now()
	}
}

// report says what became of it, also of a job that was left.
func (v *watch) report() error {
	j := &v.last
	if v.json {
		doc := struct {
			Changed int    `json:"changed"`
			Job     string `json:"job"`
			Failed  int    `json:"failed"`
			Left    int    `json:"left"`
		}{j.Done, j.Job, j.Failed, j.Left}
		_ = writeJSON(v.w.stdout, doc)
	} else {
		reasons(v.w.stderr, j)
		done := given(j.Action == operate.ActProbe, "asked about") // which may have changed nothing
		fmt.Fprintln(v.w.stdout, cmp.Or(done, "changed"), j.Done)
	}
	again := "stet keys bulk " + j.Job + v.lookAt
	left := plural(j.Left, "record")
	switch {
	case j.State == operate.JobCompleted && j.Failed > 0:
		return fmt.Errorf("%d of %s could not be changed; %s shows the job", j.Failed, plural(j.Total, "record"), again)
	case j.State == operate.JobCompleted:
		if j.Left > 0 && !v.json {
			left = "1 was left as it is"
			if j.Left > 1 {
				left = fmt.Sprintf("%d were left as they are", j.Left)
			}
			fmt.Fprintf(v.w.stderr, "%s: %s\n", left, v.whyLeft())
		}
		return nil
	case j.State == operate.JobNewer:
		return errors.New("a newer version of Stet has written this job, which this one cannot read")
	case j.State == operate.JobStopped:
		return fmt.Errorf("an operator stopped the job, with %s left, which stay as they are; %s shows it", left, again)
	case j.State == operate.JobInterrupted:
		return fmt.Errorf("interrupted with %s left; give the command again for the rest", left)
	}
	return fmt.Errorf("no longer watching; the job goes on at the gateway, with %s left: %s shows it", left, again)
}

// whyLeft says why records were left: what a job no longer finds by its filter, it does not name.
func (v *watch) whyLeft() string {
	if slices.ContainsFunc(v.last.Errors, func(f operate.Failure) bool { return f.Left }) {
		return "stet keys bulk report " + v.last.Job + v.lookAt + " says why"
	}
	return "changed by others meanwhile"
}

// reasons prints the records that could not be changed or were left for a reason, as far as they
// are named.
func reasons(out io.Writer, j *operate.Job) {
	failed := 0
	for _, f := range j.Errors {
		fmt.Fprintf(out, "%s in %s: %s\n", visible(f.ID), visible(string(f.Scope)), visible(asFlags.Replace(f.Detail)))
		if !f.Left {
			failed++
		}
	}
	if more := j.Failed - failed; more > 0 {
		fmt.Fprintf(out, "and %d more: stet keys bulk report %s\n", more, visible(j.Job))
	}
}
