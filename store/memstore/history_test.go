package memstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// noted replaces a record with a note that is a number, for each from from up to to, and returns
// its head.
func noted(t *testing.T, s *memstore.Store, h stet.Head, from, to int) stet.Head {
	t.Helper()
	for i := from; i < to; i++ {
		next := h
		next.Version, next.Note, next.DownstreamID = h.Version+1, &stet.Note{Why: fmt.Sprint(i)}, fmt.Sprint("ch_", i%2)
		var err error
		if h, err = s.Replace(t.Context(), h.Version, next, nil); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// Of more changes than there is room for the latest are kept, and a page that was begun before goes
// on where they are.
func TestHistoryIsBounded(t *testing.T) {
	s := memstore.New(memstore.Config{MaxHistory: 10})
	r, err := s.Create(t.Context(), record(0, stet.Unknown, 0))
	if err != nil {
		t.Fatal(err)
	}
	h := noted(t, s, r.Head, 0, 23)
	page, next, err := s.History(t.Context(), stet.HistoryQuery{Limit: 4})
	if err != nil || len(page) != 4 || page[0].Note.Why != "22" || page[3].Note.Why != "19" || next == "" {
		t.Fatalf("first page: %+v, %q, %v", page, next, err)
	}
	noted(t, s, h, 23, 27) // 17 is the oldest now
	page, next, err = s.History(t.Context(), stet.HistoryQuery{After: next})
	if err != nil || len(page) != 2 || page[0].Note.Why != "18" || page[1].Note.Why != "17" || next != "" {
		t.Errorf("second page: %+v, %q, %v", page, next, err)
	}
	for _, cursor := range []string{"-1", "28", "x", "1e1"} {
		if _, _, err := s.History(t.Context(), stet.HistoryQuery{After: cursor}); err == nil {
			t.Errorf("the cursor %q was taken", cursor)
		}
	}
}

// What is found has the name, also while records change theirs.
func TestFindWhileNamesChange(t *testing.T) {
	s := memstore.New(memstore.Config{})
	var wg sync.WaitGroup
	for i := range 4 {
		r, err := s.Create(t.Context(), record(i, stet.Unknown, 0))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { noted(t, s, r.Head, 0, 300) })
	}
	for range 300 {
		heads, err := s.Find(t.Context(), "", "ch_1")
		for _, h := range heads {
			if h.DownstreamID != "ch_1" {
				t.Fatalf("found %q", h.DownstreamID)
			}
		}
		if err != nil || len(heads) > 4 {
			t.Fatalf("%d found, %v", len(heads), err)
		}
	}
	wg.Wait()
	if heads, err := s.Find(t.Context(), "", "ch_1"); err != nil || len(heads) != 4 {
		t.Errorf("%d found, %v; want 4", len(heads), err)
	}
	if heads, err := s.Find(t.Context(), "", "ch_0"); err != nil || len(heads) != 0 {
		t.Errorf("%d found by a name they had, %v", len(heads), err)
	}
}
