package console

import (
	"errors"
	"net/http"
	"strings"

	"github.com/stet-dev/stet/operate"
)

// findView is what a search found.
type findView struct {
	operate.Search
	Asked  bool
	Typing bool // by index alone was looked
	Error  string
}

var foundBy = map[string]string{"key": "its key", "id": "its id", "trace": "its trace",
	"downstream-key": "its downstream key", "provider-id": "the provider's id"}

// drawFind draws GET /find.
func drawFind(p *page) error {
	return p.render(http.StatusOK, "find", view{Name: "keys", Title: "Find", D: findView{}})
}

// answerFind answers POST /find. What is looked for may be a key, and is in no address. One record that
// is found opens at once, except while the user still types.
func answerFind(p *page) error {
	q := strings.TrimSpace(p.r.PostForm.Get("q"))
	typing := p.r.Header.Get("HX-Request") != ""
	if q == "" || typing && len(q) < 3 {
		return drawFind(p)
	}
	d := findView{Asked: true, Typing: typing}
	var err error
	d.Search, err = tidied(p.api.Find(p.ctx(), operate.SearchQuery{Text: q, Quick: typing})) // Enter looks through all
	bad, is := errors.AsType[*problem](err)
	switch {
	case is:
		d.Error = bad.Detail
	case err != nil:
		return err
	case len(d.Found) == 1 && !d.More && !typing:
		return p.to(keyURL(d.Found[0].Key.ID))
	}
	return p.render(http.StatusOK, "find", view{Name: "keys", Title: "Find", D: d})
}
