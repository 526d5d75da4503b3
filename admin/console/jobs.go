package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/stet-dev/stet/internal/age"
	"github.com/stet-dev/stet/internal/members"
	"github.com/stet-dev/stet/operate"
)

// drawJobs draws GET /jobs.
func drawJobs(p *page) error {
	doc, err := tidied(p.api.RecentJobs(p.ctx()))
	if err != nil {
		return err
	}
	return p.render(http.StatusOK, "jobs", view{Name: "audit", Title: "Jobs", D: doc.Jobs})
}

// jobView is a job and how far it has come.
type jobView struct {
	operate.Job
	Title string
	Over  bool
	Went  int // through
	Rest  string
	About []string // its filter: what the records are like that it is about
}

var jobTitles = map[operate.Action]string{operate.ActRelease: "Freeing %s", operate.ActDelete: "Forgetting %s",
	operate.ActExtend: "Keeping %s for longer", operate.ActResolve: "Giving retries the answers of %s", operate.ActProbe: "Asking about %s",
	operate.ActSnooze: "Snoozing %s", operate.ActHand: "Handing %s over"}

// drawJob draws GET /jobs/{job}.
func drawJob(p *page) error { return drawJobAs(p, http.StatusOK, nil) }

func drawJobAs(p *page, status int, n *note) error {
	j, err := tidied(p.api.Job(p.ctx(), p.r.PathValue("job")))
	if bad, is := errors.AsType[*problem](err); is && bad.Status == http.StatusNotFound {
		bad.Title, bad.Code = "There is no such job", ""
		bad.Detail = "A job is removed a week after its end. The audit trail has what it changed: filter it by the job's id."
	}
	if err != nil {
		return err
	}
	d := jobView{Job: j, Over: j.State != operate.JobRunning && j.State != operate.JobNewer, Went: j.Done + j.Failed}
	for name, value := range members.Values(j.Filter) {
		d.About = append(d.About, name+"="+value[0])
	}
	slices.Sort(d.About)
	d.Title = fmt.Sprintf(cmp.Or(jobTitles[j.Action], "A job about %s"), plural(j.Total, "key", "keys"))
	v := view{Name: "audit", Title: d.Title, Note: n}
	switch j.State {
	case operate.JobCompleted:
		d.Went = j.Total
	case operate.JobRunning:
		v.Live = 1
	case operate.JobStopped, operate.JobInterrupted, operate.JobNewer:
	}
	if spent := j.UpdatedAt.Sub(j.CreatedAt); j.State == operate.JobRunning && d.Went > 0 && spent > 0 {
		d.Rest = "about " + age.Long(time.Duration(float64(spent)*float64(j.Left)/float64(d.Went)))
	}
	v.D = d
	return p.render(status, "job", v)
}

// Changes is the address of the entries of the audit trail that a job has made.
func (d jobView) Changes() string {
	return "/audit?" + url.Values{"notice": {d.Job.Job}, "since": {stamp(d.CreatedAt)}}.Encode()
}

// stopJob answers POST /jobs/{job}/stop.
func stopJob(p *page) error {
	_, err := p.api.StopJob(p.ctx(), p.r.PathValue("job"), operate.Reason{Reason: p.Typed("reason")})
	return p.answered(fit(err), address("/jobs/%s", p.r.PathValue("job")), nil,
		func(status int, n *note) error { return drawJobAs(p, status, n) })
}

// sendReport answers GET /jobs/{job}/report: each key that the job could not change or left as it is, a
// line of JSON as the API sends it.
func sendReport(p *page) error {
	id := p.r.PathValue("job")
	failures, err := p.api.Report(p.ctx(), id)
	if err != nil {
		return fit(err)
	}
	p.w.Header().Set("Content-Type", "application/x-ndjson")
	p.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": id + ".ndjson"}))
	lines := json.NewEncoder(p.w)
	for i := range failures {
		if lines.Encode(&failures[i]) != nil {
			return nil // the user has left
		}
	}
	return nil
}
