package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/stet-dev/stet/operate"
)

// keyFilters are the parameters of the list of keys that are in the address of its page. A key is
// none of them.
var keyFilters = []string{"state", "scope", "route", "path", "method", "cause", "escalated", "trace",
	"older_than_s", "sort", "limit"}

// filterView is the form of a list: what is in it, and what is wrong with it.
type filterView struct {
	Values url.Values
	fault
}

// filtered reads the list that the page's filter selects. What the API says about the filter, if it
// is about one, is noted.
func filtered[Q, L any](p *page, list func(context.Context, Q) (L, error), names []string) (f filterView, doc L, status int, err error) {
	f.Values = p.r.URL.Query()
	var q Q
	if err = readFilter(p, &q, names...); err == nil {
		doc, err = tidied(list(p.ctx(), q))
	}
	if bad, is := errors.AsType[*problem](err); is && bad.Status == http.StatusBadRequest && bad.Parameter != "" {
		f.Error, f.At = first(bad.Detail)+".", bad.Parameter
		return f, doc, bad.Status, nil
	}
	return f, doc, http.StatusOK, err
}

// keysView is the list of all keys.
type keysView struct {
	Filter filterView
	Keys   []operate.Record
	Next   string
	States []string
	Empty  bool // there is no filter, and no key
}

// searchFor is how long a page looks for the first key that its filter selects: a store looks through
// a bounded number of records for each call, and none of them may be like it.
const searchFor = time.Second

// readFirstKeys reads the first page of a list that has a key. A page that is left open and asks for
// itself looks no further than the first.
func readFirstKeys(p *page, ctx context.Context, q operate.RecordQuery) (list operate.RecordList, err error) {
	for began := time.Now(); ; q.Cursor = list.NextCursor {
		list, err = p.api.Records(ctx, q)
		if err != nil || len(list.Keys) > 0 || list.NextCursor == "" || ticks(p.r) || time.Since(began) >= searchFor {
			return list, err
		}
	}
}

// drawKeys draws GET /keys.
func drawKeys(p *page) error {
	f, doc, status, err := filtered(p, func(ctx context.Context, q operate.RecordQuery) (operate.RecordList, error) {
		return readFirstKeys(p, ctx, q)
	}, keyFilters)
	if err != nil {
		return err
	}
	d := keysView{Filter: f, Keys: doc.Keys, Next: doc.NextCursor, Empty: len(doc.Keys) == 0 && p.r.URL.RawQuery == "",
		States: []string{"running", "completed", "failed", "retryable", "unknown", "expired"}}
	return p.render(status, "keys", view{Title: "Keys", Live: 5, D: d})
}
