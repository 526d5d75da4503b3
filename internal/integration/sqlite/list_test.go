package sqlite

import (
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/integration/paging"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/store/sqlstore"
)

func TestAPageLooksThroughSoManyRows(t *testing.T) { // D04
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	first := create(t, s, "first")
	crowd(t, db, first.ID, 2*sqltext.Look)
	paging.Check(t, s, first, 2*sqltext.Look+1, sqltext.Look)
}

// One record is found by its id in an index: without statistics the planner would as soon walk all
// rows in their order.
func TestATagIsSought(t *testing.T) { // D04
	db := database(t, file(t))
	var id, parent, unused int
	var plan string
	row := db.QueryRow("EXPLAIN QUERY PLAN "+sqltext.SQLiteSelectHeads+" WHERE tag = ? ORDER BY id DESC LIMIT 3", 1)
	if err := row.Scan(&id, &parent, &unused, &plan); err != nil || !strings.Contains(plan, "stet_records_tag (tag=?)") {
		t.Errorf("%s, %v", plan, err)
	}
}

// A path is sought within the packed head, where another field may have the same bytes.
func TestLookalikesAreNotListed(t *testing.T) {
	s := over(t, database(t, file(t)), sqlstore.Config{})
	sought, lookalike := sample(), sample()
	sought.Key, sought.Path = "sought", "/sought"
	lookalike.Key, lookalike.Path = "lookalike", "/other"
	lookalike.Holder = "<" + string(codec.AppendHead(nil, &stet.Head{Path: sought.Path})) + ">"
	for _, r := range []stet.Record{sought, lookalike} {
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	q := stet.Query{Path: sought.Path}
	heads, _, err := s.List(t.Context(), q)
	if err != nil || len(heads) != 1 || heads[0].Key != "sought" {
		t.Errorf("%d records are listed, %v", len(heads), err)
	}
	if n, err := s.Count(t.Context(), q); err != nil || n != 1 {
		t.Errorf("%d records are counted, %v", n, err)
	}
}
