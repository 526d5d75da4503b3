package postgres

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/store/pgxstore"
)

// filled makes a database with a store as a dump in testdata has it.
func filled(t *testing.T, version string) string {
	t.Helper()
	dump, err := os.ReadFile("testdata/" + version + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	at := database(t, address(t), t.Name()+version)
	conn := connected(t, at)
	if _, err := conn.PgConn().Exec(t.Context(), string(dump)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return at
}

// A database with the schema and the records of an earlier version is brought up to date, and has
// them all (S12).
func TestEarlierSchemas(t *testing.T) {
	for _, version := range []string{"v1"} {
		at := filled(t, version)
		if _, err := pgxstore.Open(t.Context(), pool(t, at), pgxstore.Config{}); !errors.Is(err, pgxstore.ErrSchema) || !strings.Contains(err.Error(), "migrate up") {
			t.Errorf("%s: opened as it is: %v", version, err)
		}
		s := opened(t, at, pgxstore.Config{})
		want := map[stet.Key]stet.State{"running": stet.Running, "Zürich \\ \x00": stet.Completed, "unknown": stet.Unknown}
		for key, state := range want {
			got, err := s.Create(t.Context(), running(string(key)))
			if !errors.Is(err, stet.ErrExists) || got.State != state {
				t.Errorf("%s: %q is %s, %v; want %s", version, key, got.State, err, state)
			}
			if state == stet.Completed && (got.Response == nil || string(got.Response.Body) != `{"id":"ch_1"}`) {
				t.Errorf("%s: the response of %q is %+v", version, key, got.Response)
			}
		}
		if heads, _, err := s.List(t.Context(), stet.Query{}); err != nil || len(heads) != len(want) {
			t.Errorf("%s: %d are listed, %v", version, len(heads), err)
		}
		if changes, _, err := s.History(t.Context(), stet.HistoryQuery{}); err != nil || len(changes) != 1 || changes[0].Note.Who != "ann" {
			t.Errorf("%s: the history is %+v, %v", version, changes, err)
		}
		var messages int
		if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM stet_outbox WHERE key_honoured = 0").Scan(&messages); err != nil || messages != 1 {
			t.Errorf("%s: %d messages, %v", version, messages, err)
		}
		if now, _, err := s.Identity(t.Context()); err != nil || now.ID == "" {
			t.Errorf("%s: it is %+v, %v", version, now, err)
		}
		if err := usable.Prove(t.Context(), s, true); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// Numbers of rows that were set back, as by a restore of rows alone, are set to where they were; a
// role that may not is told what its owner has to do (S14).
func TestNumbersSetBack(t *testing.T) {
	owner, its := restricted(t, "stet_numbering")
	admin := connected(t, owner)
	s := opened(t, owner, pgxstore.Config{})
	for i := range 5 {
		create(t, s, fmt.Sprint(i))
		if err := usable.Prove(t.Context(), s, true); err != nil {
			t.Fatal(err)
		}
	}
	setBack := func() {
		execute(t, admin, "SELECT setval('stet_records_id_seq', 1)", "ALTER SEQUENCE stet_history_id_seq RESTART")
	}
	setBack()
	execute(t, admin, append(grants(t, "stet_numbering"), "GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO stet_numbering")...)
	_, err := pgxstore.Open(t.Context(), pool(t, its), pgxstore.Config{})
	if err == nil || !strings.Contains(err.Error(), "setval('public.stet_records_id_seq', ") {
		t.Errorf("opened by a role that may not set them: %v", err)
	}
	again := opened(t, owner, pgxstore.Config{})
	if err := usable.Prove(t.Context(), again, true); err != nil {
		t.Error(err)
	}
	create(t, again, "latest")
	heads, _, err := again.List(t.Context(), stet.Query{Limit: 1})
	if err != nil || len(heads) != 1 || heads[0].Key != "latest" {
		t.Errorf("the newest is %+v, %v", heads, err)
	}
	var last, max int64
	row := admin.QueryRow(t.Context(), "SELECT last_value, (SELECT max(id) FROM stet_records) FROM stet_records_id_seq")
	if err := row.Scan(&last, &max); err != nil || last < max {
		t.Errorf("the sequence is at %d, %v, and a row has %d", last, err, max)
	}
	if err := pgx.BeginFunc(t.Context(), again.pool, func(tx pgx.Tx) error { _, err := again.Bind(tx); return err }); err != nil {
		t.Error(err)
	}
}

// A row of another format that is due is left where it is (S13).
func TestReapLeavesOtherFormats(t *testing.T) {
	s := opened(t, database(t, address(t), t.Name()), pgxstore.Config{})
	for _, key := range []string{"ours", "another"} {
		made := create(t, s, key)
		h, b := completed(made.Head)
		h.DueIn = 0
		if _, err := s.Replace(t.Context(), made.Version, h, b); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, connected(t, s.pool.Config().ConnString()), "UPDATE stet_records SET schema = schema + 1 WHERE key = 'another'")
	if n, err := s.Reap(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("%d were reaped, %v", n, err)
	}
	if _, err := s.Get(t.Context(), running("another").ID); !errors.Is(err, stet.ErrCorrupt) {
		t.Errorf("the row of another format: %v", err)
	}
}
