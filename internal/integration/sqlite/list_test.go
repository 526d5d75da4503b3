package sqlite

import (
	"strings"
	"testing"

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
