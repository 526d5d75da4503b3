package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/operate"
)

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
	"fate": func(f *operate.Failure) any { return cmp.Or(given(f.Left, "left"), "failed") },
})

type bulkStopCmd struct {
	source
	Job string `arg:"" help:"The job (bulk_…)."`
	reasoned
	unasked
}

func (c *bulkStopCmd) Run(w *world, a *api) error {
	j, err := a.StopJob(w.ctx, c.Job, operate.Reason{Reason: c.Reason})
	text := fmt.Sprintf("it stops now; a moment ago %d of %s were left", j.Left, plural(j.Total, "record"))
	return c.told(w, j, text, noSuchJob(err))
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
