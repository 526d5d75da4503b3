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
	{"/{$}", "viewer", (*page).overview},
	{"/unknown", "viewer", (*page).unknown},
	{"/unknown/{incident}", "viewer", (*page).incident},
	{"/unknown/{incident}/{do}", "operator", (*page).many},
	{"/keys", "viewer", (*page).keys},
	{"/keys/{id}", "viewer", (*page).key},
	{"/keys/{scope}/{id}", "viewer", (*page).keyOfScope},
	{"/keys/{id}/happened", "operator", onForm("happened", (*page).happened)},
	{"/keys/{id}/released", "operator", onForm("released", (*page).released)},
	{"/keys/{id}/forget", "admin", onForm("forget", (*page).forgetting)},
	{"/dead", "viewer", (*page).dead},
	{"/outbox/{message}", "viewer", (*page).message},
	{"/routes", "viewer", (*page).routes},
	{"/audit", "viewer", (*page).audit},
	{"/audit/export", "viewer", (*page).export},
	{"/config", "viewer", (*page).config},
	{"/jobs", "viewer", (*page).jobs},
	{"/jobs/{job}", "viewer", (*page).job},
	{"/jobs/{job}/report", "viewer", (*page).report},
	{"/find", "viewer", (*page).findPage},
}

// changes are the forms. Each makes a call that changes something, or that shows what is hidden.
var changes = []changeRow{
	{"/keys/{id}/resolve", "operator", onForm("happened", (*page).resolve)},
	{"/keys/{id}/release", "operator", onForm("released", (*page).release)},
	{"/keys/{id}/forget", "admin", onForm("forget", (*page).forget)},
	{"/keys/{id}/probe", "operator", (*page).probe},
	{"/keys/{id}/snooze", "operator", (*page).snooze},
	{"/keys/{id}/hand", "operator", (*page).hand},
	{"/keys/{id}/note", "operator", (*page).annotate},
	{"/keys/{id}/reveal", "operator", (*page).reveal},
	{"/unknown/{incident}/{do}", "operator", (*page).many},
	{"/jobs/{job}/stop", "operator", (*page).stopJob},
	{"/outbox/{message}/retry", "operator", (*page).settleMessage},
	{"/outbox/{message}/confirm", "operator", (*page).settleMessage},
	{"/outbox/{message}/discard", "operator", (*page).settleMessage},
	{"/outbox/{message}/reveal", "operator", (*page).revealMessage},
	{"/find", "viewer", (*page).find},
}

// filter reads the part of the page's query that a list understands, with the cursor opened.
func (p *page) filter(into any, allowed ...string) error {
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
