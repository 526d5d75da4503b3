// Package paging checks how far a store looks for one page of a list.
package paging

import (
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// Check walks a store of so many records, of which known is one, by what no index has and no record
// is. A page looks through look records, and then says where the next one begins: it would
// otherwise end with its deadline, and begin anew each time (D04).
func Check(t *testing.T, s stet.Store, known stet.Record, records, look int) {
	t.Helper()
	l, ok := stet.As[stet.Lister](s)
	if !ok {
		t.Fatal("the store has no lists")
	}
	for _, q := range []stet.Query{{Path: known.Path + "?"}, {Path: known.Path + "?", Oldest: true}, {Scope: known.Scope, Method: "PUT"}} {
		want := (records + look - 1) / look
		pages := 1
		for ; pages <= 10*want; pages++ {
			heads, next, err := l.List(t.Context(), q)
			if err != nil || len(heads) > 0 {
				t.Fatalf("%+v: %d records, %v", q, len(heads), err)
			}
			if q.After = next; next == "" {
				break
			}
		}
		if pages != want {
			t.Errorf("%d records were looked through on %d pages by %+v; want %d", records, pages, q, want)
		}
	}
	if heads, next, err := l.List(t.Context(), stet.Query{Scope: known.Scope, Key: known.Key}); err != nil || next != "" || len(heads) != 1 {
		t.Errorf("by scope and key: %d records, the next page at %q, %v", len(heads), next, err)
	}
	young := stet.Query{Path: known.Path, NewerThan: time.Hour, Limit: stet.MaxLimit}
	if c, ok := stet.As[stet.Counter](s); ok && known.Path != "" {
		if n, err := c.Count(t.Context(), young); err != nil || n == 0 {
			t.Errorf("young ones by path: %d, %v", n, err) // those behind many others count, too
		}
	}
}
