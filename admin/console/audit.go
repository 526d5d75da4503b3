package console

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/walk"
	"github.com/stet-dev/stet/operate"
)

// auditFilters are the parameters of the audit trail that are in the address of its page.
var auditFilters = []string{"id", "scope", "who", "action", "notice", "since", "until", "limit"}

// auditView is the audit trail.
type auditView struct {
	Filter  filterView
	Entries []operate.Entry
	Next    string
}

// drawAudit draws GET /audit.
func drawAudit(p *page) error {
	f, doc, status, err := filtered(p, p.api.Audit, auditFilters)
	if err != nil {
		return err
	}
	return p.render(status, "audit", view{Title: "Audit", Live: 30, D: auditView{f, doc.Entries, doc.NextCursor}})
}

// jobOf is the id of the job that an entry is about, or that made it. Other notices are those of
// webhooks.
func jobOf(e *operate.Entry) string {
	if e.Job == "" && strings.HasPrefix(e.Notice, "bulk_") {
		return e.Notice
	}
	return e.Job
}

// exportAudit answers GET /audit/export: all entries that the page's filter selects, newest first, each a
// line of JSON as the API sends it. They are read as fast as the user takes them.
func exportAudit(p *page) error {
	var q operate.AuditQuery
	if err := readFilter(p, &q, auditFilters...); err != nil {
		return err
	}
	q.Limit = stet.MaxLimit
	lines := json.NewEncoder(p.w)
	began := false
	for entries, err := range walk.Pages(func(after string) ([]operate.Entry, string, error) {
		q.Cursor = after
		list, err := p.api.Audit(p.ctx(), q)
		return list.Entries, list.NextCursor, err
	}) {
		switch {
		case err != nil && !began:
			return fit(err)
		case err != nil:
			panic(http.ErrAbortHandler) // a download that breaks off does not look whole
		case !began:
			p.w.Header().Set("Content-Type", "application/x-ndjson")
			p.w.Header().Set("Content-Disposition", `attachment; filename="audit.ndjson"`)
			began = true
		}
		for i := range entries {
			if lines.Encode(&entries[i]) != nil {
				return nil // the user has left
			}
		}
	}
	return nil
}
