package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A filled database of each former schema, as sqlite3 dumps it, is brought up to date and used:
// what is in it is found, and it gets an identity (S12). A schema that is released later adds its
// dump to testdata.
func TestFormerSchemas(t *testing.T) {
	dumps, err := filepath.Glob("testdata/schema-*.sql")
	if err != nil || len(dumps) == 0 {
		t.Fatalf("%d dumps, %v", len(dumps), err)
	}
	for _, dump := range dumps {
		t.Run(filepath.Base(dump), func(t *testing.T) {
			text, err := os.ReadFile(dump)
			must(t, err)
			path := file(t)
			db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(path))
			must(t, err)
			_, err = db.ExecContext(t.Context(), string(text))
			must(t, errors.Join(err, db.Close()))

			db = database(t, path) // migrates
			s := over(t, db, sqlstore.Config{Clock: func() time.Time { return time.Date(2026, 11, 27, 12, 30, 0, 0, time.UTC) }})
			for key, state := range map[stet.Key]stet.State{"running": stet.Running, "completed": stet.Completed, "retryable": stet.Retryable,
				"unknown": stet.Unknown, "expired": stet.Expired, "a nul \x00 and \xff": stet.Running} {
				r := sample()
				r.Key = key
				got, err := s.Create(t.Context(), r)
				if err != stet.ErrExists || got.State != state {
					t.Errorf("%q is %s, %v; want %s", key, got.State, err, state)
				}
				if state == stet.Completed && string(got.Response.Body) != "you owe 5" {
					t.Errorf("%q has another result", key)
				}
				got.Version, got.Note = got.Version+1, nil
				if _, err := s.Replace(t.Context(), got.Version-1, got.Head, nil); err != nil {
					t.Errorf("%q: %v", key, err)
				}
			}
			historian, _ := stet.As[stet.Historian](s)
			if changes, _, err := historian.History(t.Context(), stet.HistoryQuery{}); err != nil || len(changes) != 1 || changes[0].Note.Why != "ticket 7" {
				t.Errorf("the history has %d entries (%v)", len(changes), err)
			}
			create(t, s, "new")
			identified, _ := stet.As[stet.Identified](s)
			if now, _, err := identified.Identity(t.Context()); err != nil || now.ID == "" {
				t.Errorf("identity %+v, %v", now, err)
			}
		})
	}
}

// SQLite numbers messages above the highest that is there, also where its own count of them was set
// back (S14).
func TestCountThatIsSetBack(t *testing.T) {
	db := database(t, file(t))
	add := func(name string) (id int64) {
		t.Helper()
		res, err := db.ExecContext(t.Context(), "INSERT INTO stet_outbox (version, state, behind, attempt, scope, key, life, topic, name, order_key,"+
			" downstream_key, downstream_id, payload, meta, errors, created_at, updated_at, due_at)"+
			" VALUES (1, 'pending', 0, 0, '', '', 0, 't', ?1, '', ?1, '', x'', '{}', '', 0, 0, 0)", name)
		must(t, err)
		id, err = res.LastInsertId()
		must(t, err)
		return id
	}
	add("first")
	last := add("second")
	exec1(t, db, "UPDATE sqlite_sequence SET seq = 0 WHERE name = 'stet_outbox'")
	if id := add("third"); id <= last {
		t.Errorf("message %d follows %d", id, last)
	}
}
