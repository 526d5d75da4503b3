package paging

import (
	"sync"
	"testing"

	"github.com/stet-dev/stet"
)

// Backlog puts n records in s, many at a time.
func Backlog(t *testing.T, s stet.Store, n int, record func(i int) stet.Record) {
	t.Helper()
	const fillers = 64
	var filling sync.WaitGroup
	for f := range fillers {
		filling.Go(func() {
			for i := f; i < n; i += fillers {
				if _, err := s.Create(t.Context(), record(i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	filling.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// Walk follows the cursor of what is due to its end, and fails the test if a record is met twice.
func Walk(t *testing.T, s stet.Store, q stet.Query) (met, pages int) {
	t.Helper()
	seen := map[stet.ID]bool{}
	for more := true; more; more = q.After != "" {
		heads, next, err := s.Due(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range heads {
			if seen[h.ID] {
				t.Errorf("%s is met twice", string(h.Key))
			}
			seen[h.ID] = true
		}
		q.After = next
		pages++
	}
	return len(seen), pages
}
