package sqlite

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// The table is for people as well: the sqlite3 shell shows words, dates and keys.
func TestReadableByTheShell(t *testing.T) {
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("the sqlite3 shell is not installed (make test installs it)")
	}
	path := file(t)
	db := database(t, path)
	s := over(t, db, sqlstore.Config{Clock: func() time.Time { return time.Date(2026, 11, 21, 8, 9, 10, 123_000_000, time.UTC) }})
	r := create(t, s, "order-4711")
	h, b := completed(r, "paid")
	h.Status, h.DueIn = 502, time.Hour
	h.Note = &stet.Note{Who: "anna", Why: "ticket 12", Evidence: "ch_1"}
	if _, err := s.Replace(t.Context(), r.Version, h, b); err != nil {
		t.Fatal(err)
	}
	create(t, s, "nul\x00byte")
	out, err := exec.CommandContext(t.Context(), shell, "-readonly", path,
		"SELECT id, scope, key, state, status, route, created_at, completed_at, due_at FROM stet_keys WHERE key = 'order-4711';"+
			"SELECT state, instr(body, 'paid') > 0 FROM stet_records WHERE key = 'order-4711'; SELECT who, why, evidence FROM stet_history;"+
			"SELECT hex(key), state FROM stet_keys WHERE typeof(key) = 'blob'").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := r.Tag + "|tenant-1|order-4711|failed|502|POST /v1/payments|2026-11-21T08:09:10.123Z|2026-11-21T08:09:10.123Z|2026-11-21T09:09:10.123Z\n" +
		"completed|1\nanna|ticket 12|ch_1\n" +
		"6E756C0062797465|running\n"
	if string(out) != want {
		t.Errorf("got:\n%swant:\n%s", out, want)
	}
}

// The store's time does not go back with the host's (W10), and is in whole microseconds.
func TestClockNeverGoesBack(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 678_901_999, time.FixedZone("", 3600))
	s := over(t, database(t, file(t)), sqlstore.Config{Clock: func() time.Time { return now }})
	first := create(t, s, "k")
	if want := time.Date(2026, 1, 2, 2, 4, 5, 678_901_000, time.UTC); first.CreatedAt != want || first.AsOf != want {
		t.Fatalf("created at %s, as of %s", first.CreatedAt, first.AsOf)
	}
	now = now.Add(-time.Hour)
	h, b := completed(first, "")
	got, err := s.Replace(t.Context(), first.Version, h, b)
	if err != nil || got.UpdatedAt.Before(first.UpdatedAt) || got.AsOf.Before(first.AsOf) {
		t.Fatalf("updated at %s after %s, %v", got.UpdatedAt, first.UpdatedAt, err)
	}
}

// What falls due at this very instant is due: that is what [stet.Head.Over] says, and the sweeper
// does not ask twice.
func TestDueAtTheInstant(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := over(t, database(t, file(t)), sqlstore.Config{Clock: func() time.Time { return now }})
	r := sample()
	r.DueIn = 0
	if _, err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if heads, _, err := s.Due(t.Context(), stet.Query{}); err != nil || len(heads) != 1 || !heads[0].Over() {
		t.Fatalf("%d are due, %v", len(heads), err)
	}
}
