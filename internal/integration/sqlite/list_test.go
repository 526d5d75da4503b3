package sqlite

import (
	"context"
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

// A list goes to its rows: what lies beyond a page costs it nothing, and what is unknown is in the
// order of the list.
func TestListsSeekTheirRows(t *testing.T) { // D04
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	crowd(t, db, create(t, s, "first").ID, sqltext.Look+1)
	for want, q := range map[string]stet.Query{
		"PRIMARY KEY (rowid>?)":                   {Path: "/nowhere"},
		"PRIMARY KEY (rowid<?)":                   {TraceID: "nowhere", Oldest: true},
		"stet_records_unknown (state=?)":          {States: []stet.State{stet.Unknown}},
		"stet_records_unknown (state=? AND id>?)": {States: []stet.State{stet.Unknown}, Oldest: true, After: "3"},
		"stet_records_unknown (state=? AND id<?)": {States: []stet.State{stet.Unknown}, Route: "POST /v1/charges", After: "3"},
	} {
		var plan strings.Builder
		look := func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			plan.Reset() // the last statement reads the records
			rows, err := db.QueryContext(ctx, "EXPLAIN QUERY PLAN "+statement, args...)
			err = sqltext.EachRow(rows, err, func(s sqltext.Scanner) error {
				var id, parent, unused int
				var step string
				defer func() { plan.WriteString(step + " ") }()
				return s.Scan(&id, &parent, &unused, &step)
			})
			if err != nil {
				return err
			}
			rows, err = db.QueryContext(ctx, statement, args...)
			return sqltext.EachRow(rows, err, row)
		}
		r := &sqltext.Reader{Dialect: sqltext.SQLiteDialect, Clock: func() int64 { return 0 }, Run: look}
		if _, _, err := r.List(t.Context(), q); err != nil || !strings.Contains(plan.String(), want) || strings.Contains(plan.String(), "TEMP B-TREE") {
			t.Errorf("%+v: %v, %s", q, err, plan.String())
		}
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
