package console

import (
	"net/http"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
)

// auditFilters are the parameters of the audit trail that are in the address of its page.
var auditFilters = []string{"id", "scope", "who", "action", "notice", "since", "until", "limit"}

// auditView is the audit trail.
type auditView struct {
	Filter  filterView
	Entries []operate.Entry
	Next    cursor
}

// audit draws GET /audit.
func (p *page) audit() error {
	f, doc, status, err := p.filtered("/api/v1/audit", auditFilters)
	if err != nil {
		return err
	}
	return p.render(status, "audit", view{Title: "Audit", Live: 30, D: auditView{f, doc.Entries, doc.Next}})
}

// jobOf is the id of the job that an entry is about, or that made it. Other notices are those of
// webhooks.
func jobOf(e *operate.Entry) string {
	if e.Job == "" && strings.HasPrefix(e.Notice, "bulk_") {
		return e.Notice
	}
	return e.Job
}

// export answers GET /audit/export: all entries that the page's filter selects, newest first, each a
// line of JSON as the API sends it. They are read as fast as the user takes them.
func (p *page) export() error {
	q := operate.AuditQuery{Action: p.r.URL.Query().Get("action"), ID: p.r.URL.Query().Get("id"),
		Scope: stet.Scope(p.r.URL.Query().Get("scope")), Who: p.r.URL.Query().Get("who"), Notice: p.r.URL.Query().Get("notice")}
	for name, at := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if v := p.r.URL.Query().Get(name); v != "" {
			var err error
			if *at, err = time.Parse(time.RFC3339, v); err != nil {
				return &problem{Status: http.StatusBadRequest, Title: "The filter cannot be used",
					Detail: name + " is an instant such as 2026-03-01T02:40:00Z."}
			}
		}
	}
	n := 0
	for entry, err := range p.api.Audit(q).Raw().All(p.r.Context()) {
		switch {
		case err != nil && n == 0:
			return fit(err)
		case err != nil:
			panic(http.ErrAbortHandler) // a download that breaks off does not look whole
		case n == 0:
			p.w.Header().Set("Content-Type", "application/x-ndjson")
			p.w.Header().Set("Content-Disposition", `attachment; filename="audit.ndjson"`)
		}
		n++
		if _, err := p.w.Write(append(entry, '\n')); err != nil {
			return nil // the user has left
		}
	}
	return nil
}
