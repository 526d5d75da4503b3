package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/internal/age"
	"github.com/stet-dev/stet/operate"
)

// jobs draws GET /jobs.
func (p *page) jobs(doc *lists) error {
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

// job draws GET /jobs/{job}.
func (p *page) job() error { return p.jobPage(http.StatusOK, nil) }

func (p *page) jobAt(verb string) string {
	return address("/api/v1/bulk/%s", p.r.PathValue("job")) + verb
}

func (p *page) jobPage(status int, n *note) error {
	var j operate.Job
	err := p.get(p.jobAt(""), &j)
	if bad, is := errors.AsType[*problem](err); is && bad.Status == http.StatusNotFound {
		bad.Title, bad.Code = "There is no such job", ""
		bad.Detail = "A job is removed a week after its end. The audit trail has what it changed: filter it by the job's id."
	}
	if err != nil {
		return err
	}
	d := jobView{Job: j, Over: j.State != operate.JobRunning && j.State != operate.JobNewer, Went: j.Done + j.Failed}
	for name, value := range adminclient.Parameters(operate.RecordQuery{Filter: j.Filter}) {
		d.About = append(d.About, fmt.Sprint(name, "=", value))
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
func (p *page) stopJob() error {
	err := p.post(p.jobAt("/stop"), operate.Reason{Reason: p.Typed("reason")})
	return p.answered(err, address("/jobs/%s", p.r.PathValue("job")), nil, p.jobPage)
}

// report answers GET /jobs/{job}/report: each key that the job could not change or left as it is, a
// line of JSON as the API sends it.
func (p *page) report() error {
	var j operate.Job
	if err := p.get(p.jobAt(""), &j); err != nil {
		return err
	}
	p.w.Header().Set("Content-Disposition", `attachment; filename="`+j.Job+`.ndjson"`)
	return p.api.Relay(p.r.Context(), p.w, p.jobAt("/report"))
}
