package console

import (
	"errors"
	"net/http"

	"github.com/stet-dev/stet/admin"
)

// keyFilters are the parameters of the list of keys that are in the address of its page. A key is
// none of them.
var keyFilters = []string{"state", "scope", "route", "path", "method", "cause", "escalated", "trace",
	"older_than_s", "sort", "limit"}

// filterView is the form of a list: what is in it, and what is wrong with it.
type filterView struct {
	Values map[string]string
	Error  string
	At     string // the parameter that the error is about
}

func (p *page) filters(names []string) filterView {
	f := filterView{Values: map[string]string{}}
	for _, n := range names {
		f.Values[n] = p.r.URL.Query().Get(n)
	}
	return f
}

// wrong notes what the API says about a filter, if it is about one.
func (f *filterView) wrong(err error) bool {
	bad, is := errors.AsType[*problem](err)
	if !is || bad.Status != http.StatusBadRequest || bad.Parameter == "" {
		return false
	}
	f.Error, f.At = first(bad.Detail)+".", bad.Parameter
	return true
}

// keysView is the list of all keys.
type keysView struct {
	Filter filterView
	Keys   []keyRow
	Next   cursor
	States []statePill
	Empty  bool // there is no filter, and no key
}

type keyRow struct {
	admin.Record
	Mark mark
}

type statePill struct {
	Mark  mark
	Value string
}

// keys draws GET /keys.
func (p *page) keys() error {
	d := keysView{Filter: p.filters(keyFilters)}
	for _, s := range []string{"running", "completed", "failed", "retryable", "unknown", "expired"} {
		d.States = append(d.States, statePill{marks[s], s})
	}
	var doc keysDoc
	status, err := http.StatusOK, p.get("/api/v1/keys"+p.filter(keyFilters...), &doc)
	if err != nil {
		if !d.Filter.wrong(err) {
			return err
		}
		status = http.StatusBadRequest
	}
	for i := range doc.Keys {
		d.Keys = append(d.Keys, keyRow{doc.Keys[i], markOf(&doc.Keys[i])})
	}
	d.Next = doc.Next
	d.Empty = len(d.Keys) == 0 && p.r.URL.RawQuery == ""
	live := 5
	if p.r.URL.Query().Get("cursor") != "" {
		live = 0 // the list stands still while it is read
	}
	return p.render(status, "keys", view{Title: "Keys", Live: live, D: d})
}
