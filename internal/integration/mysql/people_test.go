package mysql

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
)

// People read the view. Its dates are UTC, whatever the time zones of the server, the session and
// the driver.
func TestPeopleReadTheView(t *testing.T) {
	dsn := fresh(t, testserver.MariaDB(t).Addr)
	db := migrated(t, dsn+"?time_zone=%27%2B05%3A30%27&loc=Asia%2FKolkata&parseTime=true")
	s := over(t, db)
	before := time.Now().UTC().Add(-2 * time.Second)
	made := create(t, s, "order-ä")
	if made.CreatedAt.Before(before) || made.CreatedAt.After(time.Now().Add(2*time.Second)) {
		t.Errorf("created at %v, it is %v", made.CreatedAt, before)
	}
	h, body := completed(made, "no")
	h.Status = 503
	h.Note = &stet.Note{Who: "ops", Why: "asked", Evidence: "ch_1"}
	h, err := s.Replace(t.Context(), made.Version, h, body)
	if err != nil {
		t.Fatal(err)
	}
	var id, key, state, created, completed, due, why string
	var status int
	if err := db.QueryRow("SELECT id, `key`, state, status, created_at, completed_at, due_at, (SELECT CONVERT(why USING utf8mb4) FROM stet_history) FROM stet_keys WHERE route = 'POST /v1/payments'").
		Scan(&id, &key, &state, &status, &created, &completed, &due, &why); err != nil {
		t.Fatal(err)
	}
	const form = "2006-01-02T15:04:05.000000Z"
	if id != h.Tag || key != "order-ä" || state != "failed" || status != 503 || why != "asked" ||
		created != h.CreatedAt.Format(form) || completed != h.CompletedAt.Format(form) || due != h.DueAt.Format(form) {
		t.Errorf("%s %s %s %d %s, created %s, completed %s, due %s; want %v", id, key, state, status, why, created, completed, due, h.DueAt)
	}
}

// A row that was changed by hand, or by a newer program, is refused, alone, and not overwritten
// (W29).
func TestChangedRowsAreRefused(t *testing.T) {
	s, db := open(t)
	for name, change := range map[string]string{
		"state": "state = 'unknown'", "status": "status = status + 1", "head": "head = CONCAT(head, 'x')", "a short head": "head = 'x'",
		"route": "route = ''", "flags": "flags = flags + 1", "id": "tag = tag + 1", "body": "body = 'other'", "format": "`schema` = 99",
	} {
		t.Run(name, func(t *testing.T) {
			made := create(t, s, "secret-"+name)
			h, body := completed(made, "answer")
			if _, err := s.Replace(t.Context(), made.Version, h, body); err != nil {
				t.Fatal(err)
			}
			execute(t, db, "UPDATE stet_records SET "+change+" WHERE `key` = 'secret-"+name+"'")
			_, err := s.Get(t.Context(), made.ID)
			if !errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("Get: %v", err)
			}
			quiet(t, err, "secret-")
			if _, err := s.Create(t.Context(), named("secret-"+name)); !errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("Create: %v", err)
			}
			if name == "format" {
				prev := h.Version
				h.Version = draw()
				if _, err := s.Replace(t.Context(), prev, h, body); !errors.Is(err, stet.ErrCorrupt) {
					t.Errorf("Replace: %v", err)
				}
				if err := s.Delete(t.Context(), made.ID, prev); !errors.Is(err, stet.ErrCorrupt) {
					t.Errorf("Delete: %v", err)
				}
			}
		})
	}
	create(t, s, "neighbour")
	if heads, _, err := s.List(t.Context(), stet.Query{}); err != nil || len(heads) != 2 || heads[0].Key != "neighbour" { // and the one whose body was changed
		t.Errorf("%d are listed, %v", len(heads), err)
	}
}

// What no column holds is refused before it is sent.
func TestTooLong(t *testing.T) {
	s, _ := open(t)
	for name, spoil := range map[string]func(r *stet.Record){
		"scope": func(r *stet.Record) { r.Scope = stet.Scope(strings.Repeat("s", 1025)) },
		"key":   func(r *stet.Record) { r.Key = stet.Key(strings.Repeat("k", 1025)) },
		"path":  func(r *stet.Record) { r.Path = strings.Repeat("p", 1<<24) },
	} {
		r := sample()
		spoil(&r)
		if _, err := s.Create(t.Context(), r); !errors.Is(err, stet.ErrRefused) {
			t.Errorf("%s: %.100v", name, err)
		}
	}
	r := sample()
	r.Scope, r.Key = stet.Scope(strings.Repeat("\xff", 1024)), stet.Key(strings.Repeat("\x00", 1024))
	if _, err := s.Create(t.Context(), r); err != nil {
		t.Error(err)
	}
}
