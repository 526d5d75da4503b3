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
	return fit(p.api.Get(p.r.Context(), at, into), into)
}

// post sends a change to the API, by the user who asks for the page.
func (p *page) post(at string, doc, into any) error {
	return fit(p.api.Post(p.r.Context(), at, doc, into), into)
}

// fit makes every text of a document, or of a problem, fit to be shown. All calls go through it.
func fit(err error, into any) error {
	if bad, is := errors.AsType[*problem](err); is {
		tidy(bad)
	} else if err == nil && into != nil {
		tidy(into)
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
