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

// The documents that have no type in package admin.
type (
	keysDoc struct {
		Keys []admin.Record `json:"keys"`
		Next cursor         `json:"next_cursor"`
	}
	auditDoc struct {
		Entries []admin.Entry `json:"entries"`
		Next    cursor        `json:"next_cursor"`
	}
	outboxDoc struct {
		Messages []admin.Message `json:"messages"`
		Next     cursor          `json:"next_cursor"`
	}
	incidentsDoc struct {
		Incidents []admin.Incident `json:"incidents"`
	}
	routesDoc struct {
		Routes []admin.RouteFigures `json:"routes"`
	}
	scopesDoc struct {
		Scopes []admin.ScopeFigures `json:"scopes"`
	}
	configDoc struct {
		Settings []admin.Setting `json:"settings"`
	}
)
