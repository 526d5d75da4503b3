package console

import (
	"errors"
	"net/url"

	"github.com/stet-dev/stet/internal/members"
	"github.com/stet-dev/stet/operate"
)

// pageRow is a page, and the role that it takes.
type pageRow struct {
	path, role string
	draw       pageFunc
}

// changeRow is a form, and the role that it takes: that of the call that it makes.
type changeRow struct {
	path, role string
	do         pageFunc
}

// pages are all pages.
var pages = []pageRow{
	{"/{$}", "viewer", drawOverview},
	{"/unknown", "viewer", drawUnknown},
	{"/unknown/{incident}", "viewer", drawIncident},
	{"/unknown/{incident}/{do}", "operator", answerMany},
	{"/keys", "viewer", drawKeys},
	{"/keys/{id}", "viewer", drawKey},
	{"/keys/{scope}/{id}", "viewer", redirectKey},
	{"/keys/{id}/happened", "operator", onForm("happened", drawHappened)},
	{"/keys/{id}/released", "operator", onForm("released", drawReleased)},
	{"/keys/{id}/forget", "admin", onForm("forget", drawForget)},
	{"/dead", "viewer", drawDead},
	{"/outbox/{message}", "viewer", drawMessage},
	{"/routes", "viewer", drawRoutes},
	{"/audit", "viewer", drawAudit},
	{"/audit/export", "viewer", exportAudit},
	{"/config", "viewer", drawConfig},
	{"/jobs", "viewer", drawJobs},
	{"/jobs/{job}", "viewer", drawJob},
	{"/jobs/{job}/report", "viewer", sendReport},
	{"/find", "viewer", drawFind},
}

// changes are the forms. Each makes a call that changes something, or that shows what is hidden.
var changes = []changeRow{
	{"/keys/{id}/resolve", "operator", onForm("happened", resolveKey)},
	{"/keys/{id}/release", "operator", onForm("released", releaseKey)},
	{"/keys/{id}/forget", "admin", onForm("forget", forgetKey)},
	{"/keys/{id}/probe", "operator", probeKey},
	{"/keys/{id}/snooze", "operator", snoozeKey},
	{"/keys/{id}/hand", "operator", handKey},
	{"/keys/{id}/note", "operator", noteKey},
	{"/keys/{id}/reveal", "operator", revealKey},
	{"/unknown/{incident}/{do}", "operator", answerMany},
	{"/jobs/{job}/stop", "operator", stopJob},
	{"/outbox/{message}/retry", "operator", settleMessage},
	{"/outbox/{message}/confirm", "operator", settleMessage},
	{"/outbox/{message}/discard", "operator", settleMessage},
	{"/outbox/{message}/reveal", "operator", revealMessage},
	{"/find", "viewer", answerFind},
}

// readFilter reads the part of the page's query that a list understands, with the cursor opened.
func readFilter(p *page, into any, allowed ...string) error {
	q := url.Values{}
	for _, name := range allowed {
		if v := p.r.URL.Query().Get(name); v != "" {
			q.Set(name, v)
		}
	}
	if c := p.r.URL.Query().Get("cursor"); c != "" {
		if opened, ok := p.console.box.Open(c, asCursor); ok {
			c = opened
		} // else the API says what is wrong with it
		q.Set("cursor", c)
	}
	if bad, is := errors.AsType[*members.Error](members.Query(q, into)); is {
		return fit(operate.BadParameter(bad.Member, bad.Problem))
	}
	return nil
}
