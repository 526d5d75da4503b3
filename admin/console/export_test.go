package console

import (
	"net/http"
	"time"
)

// Patience is how long a page waits.
const Patience = patience

// SetPatience has the pages of a console wait for so long.
func SetPatience(h http.Handler, d time.Duration) { h.(*console).patience = d }

// Pages are the patterns of all pages.
func Pages() (all []string) {
	for _, one := range pages {
		all = append(all, one.path)
	}
	return all
}

// Changes are the patterns of all forms, with the roles that they take.
func Changes() map[string]string {
	all := map[string]string{}
	for _, one := range changes {
		all[one.path] = one.role
	}
	return all
}

// BodyText is what a page shows of a body.
var BodyText = bodyText

// Tidied is a document as pages show it.
func Tidied[D any](doc D) D {
	doc, _ = tidied(doc, nil)
	return doc
}

// EndSessions ends so many sessions, and returns how many of them are remembered.
func EndSessions(n int) int {
	s := NewSessions()
	for range n {
		s.end(newSession(""))
	}
	return len(s.all)
}
