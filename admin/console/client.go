package console

import (
	"errors"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/adminclient"
)

// problem is what the API answers instead of a document, or the console of its own.
type problem = adminclient.Problem

// get reads a document of the API, for the user who asks for the page.
func (p *page) get(at string, into any) error {
	err := p.api.Get(p.r.Context(), at, into)
	if err == nil {
		tidy(into)
	}
	return fit(err)
}

// post sends a change to the API, by the user who asks for the page.
func (p *page) post(at string, doc any) error { return fit(p.api.Post(p.r.Context(), at, doc, nil)) }

// fit makes every text of a problem fit to be shown, as [page.get] does with those of a document.
// All calls go through it.
func fit(err error) error {
	if bad, is := errors.AsType[*problem](err); is {
		tidy(bad)
	}
	return err
}

// cursor is where a list goes on. It is a name, and is not made fit to be shown.
type cursor string

// lists are those of the API. A document has one of them, by its name.
type lists struct {
	Keys      []admin.Record       `json:"keys"`
	Incidents []admin.Incident     `json:"incidents"`
	Entries   []admin.Entry        `json:"entries"`
	Messages  []admin.Message      `json:"messages"`
	Jobs      []admin.Job          `json:"jobs"`
	Routes    []admin.RouteFigures `json:"routes"`
	Scopes    []admin.ScopeFigures `json:"scopes"`
	Settings  []admin.Setting      `json:"settings"`
	Next      cursor               `json:"next_cursor"`
}
