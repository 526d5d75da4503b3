package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet"
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
	return cmp.Or(ifTrue(s.Admin != "", " --admin "+s.Admin), ifTrue(s.Store != "", " --store "+s.Store))
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
		return fmt.Errorf("%w; the job goes on: stet keys bulk %s%s", v.a.explainError(err), v.id, v.lookAt)
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
		case exitOf(v.a.explainError(err)) != exitUnreachable || time.Since(since) > lookAgain:
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
		done := ifTrue(j.Action == operate.ActProbe, "asked about") // which may have changed nothing
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
		fmt.Fprintf(out, "%s in %s: %s\n", visible(f.ID), visible(string(f.Scope)), visible(f.Detail)+flagsFor(f.Cause))
		if !f.Left {
			failed++
		}
	}
	if more := j.Failed - failed; more > 0 {
		fmt.Fprintf(out, "and %d more: stet keys bulk report %s\n", more, visible(j.Job))
	}
}

// jobSelection is the records of a job, by a filter, an incident or their ids.
type jobSelection struct {
	source
	IDs []string `arg:"" optional:"" name:"id" help:"In place of a filter: ids (k_…), at most 10,000; k_…@BASIS is changed only while it has that basis, as --json shows it."`
	selected
	confirmed
}

// check implements [checked].
func (p *jobSelection) check(*world) error {
	byFilter := p.filter != (filter{})
	switch {
	case len(p.IDs) == 0 && p.Incident == "" && !byFilter:
		return failf(exitUsage, "no record is selected; give ids (k_…), --incident, or a filter: --state, --scope, --route")
	case len(p.IDs) > 0 && (p.Incident != "" || byFilter), p.Incident != "" && byFilter:
		return failf(exitUsage, "give ids, --incident or the flags of a filter: each selects by itself")
	case p.Limit < 0, p.Limit > 0 && !byFilter:
		return failf(exitUsage, "--limit is for a filter; give at least 1, or 0 for all that match")
	}
	for _, name := range p.IDs {
		switch id, basis, pinned := strings.Cut(name, "@"); {
		case !isID(id):
			return failf(exitUsage, "%q is no record's id; it is k_ and 16 hex digits, as lists and logs show it", name)
		case pinned && !isBasis(basis):
			return failf(exitUsage, "%q: a basis has 16 hex digits, as stet keys show --json shows it; without @ the record is changed as it is then", name)
		}
	}
	return nil
}

// start has an order carried out for what is selected.
func (p *jobSelection) start(w *world, a *api, action operate.Action, o operate.Order) error {
	o.Action, o.IDs = action, p.IDs
	return p.job(w, a, &p.confirmed, o, p.lookAt())
}

type bulkResolveCmd struct {
	jobSelection
	reasoned
	Evidence string `placeholder:"TEXT" help:"Evidence, such as the number of a ticket."`
}

func (c *bulkResolveCmd) Run(w *world, a *api) error {
	return c.start(w, a, operate.ActResolve, operate.Order{Reason: c.Reason, Evidence: c.Evidence})
}

type bulkProbeCmd struct {
	jobSelection
	reasoned
}

func (c *bulkProbeCmd) Run(w *world, a *api) error {
	return c.start(w, a, operate.ActProbe, operate.Order{Reason: c.Reason})
}

type bulkSnoozeCmd struct {
	jobSelection
	reasoned
	For time.Duration `required:"" placeholder:"30m" help:"For how long, up to 7 days."`
}

// check implements [checked].
func (c *bulkSnoozeCmd) check(*world) error {
	return refuse(c.For < time.Second || c.For > stet.MaxSnooze,
		"--for is %s; it must be at least 1s, and at most %d days", c.For, stet.MaxSnooze/(24*time.Hour))
}

func (c *bulkSnoozeCmd) Run(w *world, a *api) error {
	return c.start(w, a, operate.ActSnooze, operate.Order{Reason: c.Reason, Until: time.Now().Add(c.For)})
}

type bulkHandCmd struct {
	jobSelection
	To   string `required:"" placeholder:"NAME" help:"Who looks after them now."`
	Note string `placeholder:"TEXT" help:"What they have to know; it is kept in the audit trail."`
}

func (c *bulkHandCmd) Run(w *world, a *api) error {
	return c.start(w, a, operate.ActHand, operate.Order{To: c.To, Note: c.Note})
}

type bulkCmds struct {
	Show   bulkShowCmd   `cmd:"" default:"withargs" help:"Show the latest jobs, or one of them."`
	Report bulkReportCmd `cmd:"" help:"List the records that a job could not change, or left for a reason."`
	Stop   bulkStopCmd   `cmd:"" help:"Stop a job; what it has not come to stays as it is."`

	Resolve bulkResolveCmd `cmd:"" help:"Complete unknown records that a late answer, or the last probe, says have happened."`
	Probe   bulkProbeCmd   `cmd:"" help:"Ask the upstream now what became of unknown records."`
	Snooze  bulkSnoozeCmd  `cmd:"" help:"Take unknown records out of lists and alerts for a while."`
	Hand    bulkHandCmd    `cmd:"" help:"Hand unknown records to a colleague."`
}

type bulkShowCmd struct {
	source
	Job string `arg:"" optional:"" help:"The job (bulk_…). Without one the latest jobs are listed."`
	printed
}

// check implements [checked].
func (c *bulkShowCmd) check(*world) error { return jobsList.check(&c.printed) }

func (c *bulkShowCmd) Run(w *world, a *api) error {
	if c.Job == "" {
		return jobsList.whole(w, a, "/api/v1/bulk", &c.printed, "no jobs")
	}
	return noSuchJob(errorOf(shown(w, a, adminclient.JobPath(c.Job), c.JSON, showJob)))
}

type bulkReportCmd struct {
	source
	Job     string   `arg:"" help:"The job (bulk_…)."`
	Columns []string `placeholder:"NAME,…" help:"Columns to print, in this order; --columns help names them all."`
	JSON    bool     `name:"json" help:"Print a JSON document per line."`
}

// check implements [checked].
func (c *bulkReportCmd) check(*world) error { return reportList.check(&printed{Columns: c.Columns}) }

func (c *bulkReportCmd) Run(w *world, a *api) error {
	all, err := a.Report(w.ctx, c.Job)
	switch {
	case err != nil:
		return noSuchJob(err)
	case c.JSON:
		lines := json.NewEncoder(w.stdout)
		for i := range all {
			_ = lines.Encode(&all[i])
		}
		return nil
	case len(all) == 0:
		fmt.Fprintln(w.stderr, "nothing failed, and nothing was left for a reason")
		return nil
	}
	return reportList.rows(w, all, &printed{Columns: c.Columns})
}

var reportList = listOf("report", 5, "id scope fate cause detail", map[string]func(*operate.Failure) any{
	"fate": func(f *operate.Failure) any { return cmp.Or(ifTrue(f.Left, "left"), "failed") },
})

type bulkStopCmd struct {
	source
	Job string `arg:"" help:"The job (bulk_…)."`
	reasoned
	noConfirmation
}

func (c *bulkStopCmd) Run(w *world, a *api) error {
	j, err := a.StopJob(w.ctx, c.Job, operate.Reason{Reason: c.Reason})
	text := fmt.Sprintf("it stops now; a moment ago %d of %s were left", j.Left, plural(j.Total, "record"))
	return c.printResult(w, j, text, noSuchJob(err))
}

// noSuchJob puts the API's 404 into words about jobs.
func noSuchJob(err error) error {
	return absent(err, exitNotFound,
		"there is no such job; stet keys bulk lists the latest, and they are kept for %d days", operate.JobRetain/(24*time.Hour))
}

var jobsList = listOf("jobs", 10, "job action state total done failed left created who reason filter evidence updated "+
	"completed", map[string]func(*operate.Job) any{"filter": func(j *operate.Job) any { return filterText(&j.Filter) }})

// showJob prints what there is, a line each.
func showJob(j *operate.Job, w *world) error {
	err := pairs(w.stdout, "job", j.Job, "action", string(j.Action), "filter", filterText(&j.Filter),
		"state", string(j.State), "total", fmt.Sprint(j.Total), "done", fmt.Sprint(j.Done), "failed", fmt.Sprint(j.Failed),
		"left", fmt.Sprint(j.Left), "who", visible(j.Who), "reason", visible(j.Reason), "evidence", j.Evidence,
		"created", w.when(j.CreatedAt), "updated", w.when(j.UpdatedAt), "completed", w.when(j.CompletedAt))
	reasons(w.stdout, j)
	return err
}

// filterText is the filter in the words of the API.
func filterText(f *operate.Filter) string {
	doc, err := json.Marshal(f)
	if err != nil {
		return "-"
	}
	return visible(strings.ReplaceAll(strings.Trim(string(doc), "{}"), `"`, ""))
}
