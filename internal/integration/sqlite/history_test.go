package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/store/sqlstore"
)

func finder(t testing.TB, s stet.Store) stet.Finder {
	t.Helper()
	f, ok := stet.As[stet.Finder](s)
	if !ok {
		t.Fatal("the store finds nothing by name")
	}
	return f
}

func historian(t testing.TB, s stet.Store) stet.Historian {
	t.Helper()
	h, ok := stet.As[stet.Historian](s)
	if !ok {
		t.Fatal("the store has no history")
	}
	return h
}

// A group that is rolled back for one bad write is tried again, write by write: no change is in the
// history twice, and none that did not happen.
func TestHistoryOfAPoisonedGroup(t *testing.T) {
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	const n, poisoned = 12, 7
	records := make([]stet.Record, n)
	for i := range records {
		records[i] = create(t, s, fmt.Sprint("key-", i))
	}
	if _, err := db.Exec(fmt.Sprintf(`CREATE TRIGGER poison BEFORE UPDATE ON stet_records WHEN NEW.key = 'key-%d'
		BEGIN SELECT RAISE(ABORT, 'poisoned'); END`, poisoned)); err != nil {
		t.Fatal(err)
	}
	group(t, s, lock(t, db), contexts(t, n), func(ctx context.Context, i int) error {
		h, b := completed(records[i], "done")
		h.Note = &stet.Note{Who: "w", Why: fmt.Sprint(i)}
		_, err := s.Replace(ctx, records[i].Version, h, b)
		return err
	})
	changes, _, err := historian(t, s).History(t.Context(), stet.HistoryQuery{})
	seen := map[string]bool{}
	for _, c := range changes {
		seen[c.Note.Why] = true
	}
	if err != nil || len(changes) != n-1 || len(seen) != n-1 || seen[fmt.Sprint(poisoned)] {
		t.Errorf("%d entries, of %d changes, of %d: %v", len(changes), len(seen), n-1, err)
	}
}

// An entry that was damaged is not passed over in silence, and the error does not say what is in
// it.
func TestDamagedHistory(t *testing.T) {
	for _, damage := range []string{"became = 'sold'", "was = x'00'", "at = 'secret'", "attempt = 'secret'"} {
		db := database(t, file(t))
		s := over(t, db, sqlstore.Config{})
		r := create(t, s, "k")
		h, b := completed(r, "done")
		h.Note = &stet.Note{Who: "w"}
		if _, err := s.Replace(t.Context(), r.Version, h, b); err != nil {
			t.Fatal(err)
		}
		exec1(t, db, "UPDATE stet_history SET "+damage)
		_, _, err := historian(t, s).History(t.Context(), stet.HistoryQuery{})
		if !errors.Is(err, stet.ErrCorrupt) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", damage, err)
		}
	}
}

// To find a record among millions no row is passed over.
func TestFindWalksIndexes(t *testing.T) {
	db := database(t, file(t))
	rows, err := db.Query("EXPLAIN QUERY PLAN "+sqltext.SQLiteFind, "ch_1", "ch_1", 100)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(step + "\n")
	}
	for _, index := range []string{"stet_records_downstream_key", "stet_records_downstream_id"} {
		if !strings.Contains(plan.String(), index) {
			t.Errorf("%s is not used", index)
		}
	}
	if strings.Contains(plan.String(), "SCAN stet_records") {
		t.Errorf("all rows are read:\n%s", plan.String())
	}
}
