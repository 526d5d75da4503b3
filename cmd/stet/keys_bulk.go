package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/internal/rest"
)

// order is the body of POST /api/v1/bulk.
type order struct {
	Action   bulk.Action       `json:"action"`
	Filter   map[string]string `json:"filter"`
	Expect   int               `json:"expect"`
	Limit    int               `json:"limit,omitempty"`
	Reason   string            `json:"reason"`
	Evidence string            `json:"evidence,omitempty"`
	Now      bool              `json:"now,omitempty"`
	Override bool              `json:"override,omitempty"`
}

// count is what a job would be about, as POST /api/v1/bulk/count has it.
type count struct {
	Matching int
	States   map[string]int
	Oldest   time.Time
}

// bulk changes what the filter selects, by a job: it counts, asks, starts, watches and reports.
func (c *chosen) bulk(w *world, a *api, o order) error {
	o.Filter, o.Limit, o.Reason = c.parameters(), c.Limit, c.Reason
	var n count
	if err := a.do(w.ctx, http.MethodPost, "/api/v1/bulk/count", map[string]any{"action": o.Action, "filter": o.Filter}, &n); err != nil {
		return err
	}
	if n.Matching == 0 {
		fmt.Fprintln(w.stderr, noRecords)
		return c.done(w, 0)
	}
	what := n.text(o.Action, o.Limit)
	if c.Yes && !c.JSON {
		fmt.Fprintln(w.stderr, what)
	}
	if err := c.sure(w, what); err != nil {
		return err
	}
	o.Expect = n.Matching
	var started struct{ Job string }
	if err := a.do(w.ctx, http.MethodPost, "/api/v1/bulk", o, &started); err != nil {
		return err
	}
	return (&watch{w: w, a: a, id: started.Job, json: c.JSON, lookAt: c.lookAt()}).run()
}

// text says what is about to happen.
func (n *count) text(action bulk.Action, limit int) string {
	number := fmt.Sprint(n.Matching)
	if limit > 0 && limit < n.Matching {
		number = fmt.Sprintf("%d of %d", limit, n.Matching)
	}
	var states []string
	for _, s := range sortedKeys(n.States) {
		states = append(states, fmt.Sprint(n.States[s], " ", s))
	}
	return fmt.Sprintf("%s %s records (%s; the oldest was created %s)", action, number, strings.Join(states, ", "), instant(n.Oldest))
}

// lookAt is the command line's part that says where the job is.
func (s *source) lookAt() string {
	switch {
	case s.Admin != "":
		return " --admin " + s.Admin
	case s.Store != "":
		return " --store " + s.Store
	}
	return ""
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

	last admin.Job
	told time.Time
	bar  bool // the last line of the terminal is a bar
}

func (v *watch) run() error {
	working, stop := context.WithCancel(v.w.ctx)
	var work sync.WaitGroup
	if v.a.jobs != nil {
		work.Go(func() { v.work(working) })
	}
	err := v.follow()
	stop()
	work.Wait()
	if v.bar {
		fmt.Fprintln(v.w.stderr)
	}
	if err != nil && v.w.ctx.Err() == nil {
		return fmt.Errorf("%w; the job goes on: stet keys bulk %s%s", err, v.id, v.lookAt)
	}
	if err := v.look(context.WithoutCancel(v.w.ctx)); err != nil {
		return err
	}
	return v.report()
}

// work does what a gateway's loop does for its own. Where a gateway is on the same store it may be
// the one that does it.
func (v *watch) work(ctx context.Context) {
	for v.a.jobs.Work(ctx, v.id) != nil && rest.For(ctx, time.Second) {
	}
}

// follow returns when the job has ended, or the world's context.
func (v *watch) follow() error {
	for since := time.Now(); ; {
		switch err := v.look(v.w.ctx); {
		case err == nil && v.last.State != bulk.Running && v.last.State != bulk.Waiting:
			return nil
		case err == nil:
			since = time.Now()
			v.tell()
		case exitOf(err) != exitUnreachable || time.Since(since) > lookAgain:
			return err
		}
		if !rest.For(v.w.ctx, lookEvery) {
			return v.w.ctx.Err()
		}
	}
}

func (v *watch) look(ctx context.Context) error {
	return v.a.get(ctx, "/api/v1/bulk/"+segment(v.id), &v.last)
}

// tell shows the progress: a bar on a terminal, otherwise a line every tellEvery.
func (v *watch) tell() {
	const width = 30
	j := &v.last
	f, _ := v.w.stderr.(*os.File)
	switch seen := j.Total - j.Left; {
	case v.json || j.Total == 0:
	case f != nil && isTerminal(f):
		full := width * seen / j.Total
		fmt.Fprintf(f, "\r[%s%s] %d of %d, %d failed ", strings.Repeat("#", full), strings.Repeat(".", width-full), seen, j.Total, j.Failed)
		v.bar = true
	case v.told.IsZero():
		v.told = time.Now()
	case time.Since(v.told) >= tellEvery:
		fmt.Fprintf(v.w.stderr, "%d of %d records, %d failed\n", seen, j.Total, j.Failed)
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
		if err := writeJSON(v.w.stdout, doc); err != nil {
			return err
		}
	} else {
		reasons(v.w.stderr, j)
		if _, err := fmt.Fprintf(v.w.stdout, "changed %d\n", j.Done); err != nil {
			return err
		}
	}
	again := "stet keys bulk " + j.Job + v.lookAt
	switch {
	case j.State == bulk.Completed && j.Failed > 0:
		return fmt.Errorf("%d of %d records could not be changed; %s shows the job", j.Failed, j.Total, again)
	case j.State == bulk.Completed:
		if j.Left > 0 && !v.json {
			fmt.Fprintf(v.w.stderr, "%d were changed by others meanwhile, and left alone\n", j.Left)
		}
		return nil
	case v.a.jobs != nil:
		return fmt.Errorf("stopped with %d records left; a gateway on this store goes on by itself, or: %s --resume", j.Left, again)
	}
	return fmt.Errorf("no longer watching; the job goes on at the gateway, with %d records left: %s shows it", j.Left, again)
}

// reasons prints the records that could not be changed, as far as they are named.
func reasons(out io.Writer, j *admin.Job) {
	for _, f := range j.Errors {
		fmt.Fprintf(out, "%s in %s: %s\n", f.ID, visible(string(f.Scope)), f.Detail)
	}
	if more := j.Failed - len(j.Errors); more > 0 {
		fmt.Fprintf(out, "and %d more\n", more)
	}
}

type keysBulkCmd struct {
	source
	Job    string `arg:"" optional:"" help:"The job (bulk_…). Without one the latest jobs are listed."`
	Resume bool   `help:"With --store: go on with a job that was stopped, where no gateway does."`
	JSON   bool   `name:"json" help:"Print the API's document."`
}

// check implements [checked].
func (c *keysBulkCmd) check(*world) error {
	if c.Resume && c.Job == "" {
		return failf(exitUsage, "--resume needs a job; stet keys bulk lists them")
	}
	return nil
}

func (c *keysBulkCmd) Run(w *world, a *api) error {
	if c.Resume {
		return noSuchJob((&watch{w: w, a: a, id: c.Job, json: c.JSON, lookAt: c.lookAt()}).run())
	}
	if c.Job == "" {
		return shown(w, a, "/api/v1/bulk", c.JSON, func(all *struct{ Jobs []json.RawMessage }, _ io.Writer) error {
			return jobsList.show(w, listing{docs: all.Jobs}, false, "no jobs")
		})
	}
	return noSuchJob(shown(w, a, "/api/v1/bulk/"+segment(c.Job), c.JSON, showJob))
}

// noSuchJob puts the API's 404 into words about jobs.
func noSuchJob(err error) error {
	if err != nil && exitOf(err) == exitNotFound {
		return failf(exitNotFound, "there is no such job; stet keys bulk lists the latest, and they are kept for %d days", bulk.Retain/(24*time.Hour))
	}
	return err
}

var jobsList = list{header: "JOB\tACTION\tSTATE\tTOTAL\tDONE\tFAILED\tLEFT\tCREATED\tWHO\tREASON", row: func(doc json.RawMessage) (string, error) {
	var j admin.Job
	err := json.Unmarshal(doc, &j)
	return cells(j.Job, j.Action, j.State, j.Total, j.Done, j.Failed, j.Left, instant(j.CreatedAt), visible(j.Who), visible(j.Reason)), err
}}

// showJob prints what there is, a line each.
func showJob(j *admin.Job, out io.Writer) error {
	if err := pairs(out, "job", j.Job, "action", string(j.Action), "filter", filterText(&j.Filter), "state", string(j.State), "total", fmt.Sprint(j.Total),
		"done", fmt.Sprint(j.Done), "failed", fmt.Sprint(j.Failed), "left", fmt.Sprint(j.Left), "who", visible(j.Who), "reason", visible(j.Reason),
		"evidence", j.Evidence, "created", instant(j.CreatedAt), "updated", instant(j.UpdatedAt), "completed", instant(j.CompletedAt)); err != nil {
		return err
	}
	reasons(out, j)
	return nil
}

// filterText is the filter in the words of the API.
func filterText(f *admin.Filter) string {
	doc, err := json.Marshal(f)
	if err != nil {
		return "-"
	}
	return visible(strings.ReplaceAll(strings.Trim(string(doc), "{}"), `"`, ""))
}
