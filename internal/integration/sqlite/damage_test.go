package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// damage is what a failing disk, another program or a newer version can leave in a row.
var damage = map[string]string{
	"a newer format":        "schema = 99",
	"an unknown state":      "state = 'paused'",
	"a torn head":           "head = substr(head, 1, 20)",
	"half a checksum":       "head = substr(head, 1, 2)",
	"no version":            "version = 0",
	"text for a number":     "status = 'many'",
	"another fingerprint":   "head = substr(head, 1, 10) || x'01' || substr(head, 12)",
	"an unknown field":      "head = substr(head, 1, 4) || x'80' || substr(head, 6)",
	"more of a head":        "head = head || x'00'",
	"no head":               "head = x''",
	"another sum of a head": "head = x'00000000' || substr(head, 5)",
	"another body":          "body = 'you owe nothing'",
	"no body":               "body = x''",
	"an empty body":         "body = x'00000000'",
	"a torn body":           "body = substr(body, 1, 6)",
	"another exchange":      "body = substr(body, 1, 4) || x'00' || substr(body, 6)",
	"another checksum":      "body = x'00000000' || substr(body, 5)",
	"text for a body":       "body = 'many'",
	"another retention":     "due_at = due_at - 1000000000",
	"another status":        "status = 500",
	"another birth":         "created_at = created_at + 1",
	"another end":           "completed_at = NULL",
	"another route":         "route = 'GET /'",
	"another cause":         "cause = 'panic'",
	"a provider's name":     "downstream_id = 'thief'",
	"an end to its refusal": "flags = 2",
	"a dead letter":         "flags = 1",
	"an unknown flag":       "flags = 4",
	"another id":            "tag = 1",
}

// A record that cannot be read is refused for its key alone, and nothing overwrites it (SF-06,
// W29).
func TestDamagedRecordIsRefusedAlone(t *testing.T) {
	for name, set := range damage {
		t.Run(name, func(t *testing.T) {
			db := database(t, file(t))
			s := over(t, db, sqlstore.Config{})
			r := create(t, s, "damaged")
			create(t, s, "healthy")
			h, b := completed(r, "you owe 5")
			h, err := s.Replace(t.Context(), r.Version, h, b)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range []string{"PRAGMA ignore_check_constraints = 1",
				"UPDATE stet_records SET " + set + " WHERE key = 'damaged'", "PRAGMA ignore_check_constraints = 0"} {
				if _, err := conn.ExecContext(t.Context(), q); err != nil {
					t.Fatal(err)
				}
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			_, err = s.Get(t.Context(), r.ID)
			if !errors.Is(err, stet.ErrCorrupt) {
				t.Fatalf("get: %v", err)
			}
			if strings.Contains(err.Error(), "many") || strings.Contains(err.Error(), "you owe") || strings.Contains(err.Error(), "damaged") {
				t.Errorf("the error tells what is in the record: %v", err)
			}
			if _, err := s.Create(t.Context(), r); !errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("create: %v", err)
			}
			if strings.HasPrefix(set, "schema") { // the row of a newer program is not ours to change
				if _, err := s.Replace(t.Context(), h.Version, h, nil); !errors.Is(err, stet.ErrCorrupt) {
					t.Errorf("replace: %v", err)
				}
				if err := s.Delete(t.Context(), r.ID, h.Version); !errors.Is(err, stet.ErrCorrupt) {
					t.Errorf("delete: %v", err)
				}
			}
			if _, err := s.Get(t.Context(), stet.ID{Scope: r.Scope, Key: "healthy"}); err != nil {
				t.Errorf("its neighbour: %v", err)
			}
			heads, _, err := s.List(t.Context(), stet.Query{})
			if err != nil || len(heads) == 0 || heads[0].Key != "healthy" {
				t.Errorf("list: %d, %v", len(heads), err)
			}
		})
	}
}

// An index that leads to the row of another key: its response is not for who asks.
func TestIndexThatLies(t *testing.T) {
	path := file(t)
	db := database(t, path)
	s := over(t, db, sqlstore.Config{})
	r := create(t, s, "mine")
	if err := errors.Join(s.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path) // closing has moved everything into the file
	if err != nil {
		t.Fatal(err)
	}
	row := bytes.Index(b, []byte("mine"))
	index := bytes.LastIndex(b, []byte("mine")) // made later than the table
	if index <= row {
		t.Fatalf("row at %d, index at %d", row, index)
	}
	copy(b[index:], "your")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if got, err := s.Get(t.Context(), stet.ID{Scope: r.Scope, Key: "your"}); !errors.Is(err, stet.ErrCorrupt) {
		t.Fatalf("got the record of version %d, %v", got.Version, err)
	}
}

// One bit of a row turns over on the disk, each byte's in turn: the record is read as it was, or
// not at all (W29).
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	path := file(t)
	db := database(t, path)
	s := over(t, db, sqlstore.Config{})
	r := create(t, s, "the-key")
	h, b := completed(r, "the-body")
	h.Meta, h.Note, h.DueIn = map[string]string{"m": "n"}, &stet.Note{Who: "w", Why: "y", Evidence: "e"}, time.Hour
	if _, err := s.Replace(t.Context(), r.Version, h, b); err != nil {
		t.Fatal(err)
	}
	want, err := s.Get(t.Context(), r.ID)
	if err := errors.Join(err, s.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	from, to := bytes.Index(good, []byte("tenant-1the-key")), bytes.Index(good, []byte("the-body"))
	if from < 0 || to < from || to-from > 1000 {
		t.Fatalf("the row is not where it was thought to be: %d to %d", from, to)
	}
	refused := 0
	step := 3
	if os.Getenv("STET_SOAK") != "" {
		step = 1
	}
	for at := from - 60; at < to+20; at += step { // 60: the lengths of the columns
		bad := bytes.Clone(good)
		bad[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := reread(t, path, r.ID)
		if err != nil {
			refused++
			continue
		}
		got.AsOf = want.AsOf
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("byte %d of the row: read as\n%+v %+v, was\n%+v %+v", at-from, got.Head, got.Response, want.Head, want.Response)
		}
	}
	if refused < (to-from)/2/step {
		t.Errorf("%d bytes were noticed: the test does not reach the row", refused)
	}
}

func reread(t *testing.T, path string, id stet.ID) (stet.Record, error) {
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		return stet.Record{}, err
	}
	defer s.Close()
	return s.Get(t.Context(), id)
}

// Damaged records are left out of what enumerates, and hide no other record.
func TestDamagedRecordsHideNobody(t *testing.T) {
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	want := map[stet.Key]bool{}
	for i := range 20 {
		r := sample()
		r.Key, r.DueIn = stet.Key(fmt.Sprintf("key-%02d", i)), 0
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		want[r.Key] = i%5 > 1
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE stet_records SET head = x'ff' WHERE (id - 1) % 5 <= 1"); err != nil {
		t.Fatal(err)
	}
	pages, q := 0, stet.Query{Limit: 3}
	for {
		heads, next, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range heads {
			if !want[h.Key] {
				t.Errorf("list: %s is damaged, or came twice", string(h.Key))
			}
			want[h.Key] = false
		}
		if pages++; next == "" {
			break
		}
		q.After = next
	}
	if pages != 7 {
		t.Errorf("%d pages", pages)
	}
	for key, missing := range want {
		if missing {
			t.Errorf("list: %s is missing", string(key))
		}
	}
	heads, _, err := s.Due(t.Context(), stet.Query{Limit: 10})
	if err != nil || len(heads) != 10 || heads[0].Key != "key-02" || heads[9].Key != "key-17" {
		t.Errorf("due: %d, %v", len(heads), err)
	}
	if _, _, err := s.List(t.Context(), stet.Query{After: "key-02"}); err == nil || strings.Contains(err.Error(), "key-02") {
		t.Errorf("a cursor of another store: %v", err)
	}
}

// An index that hides a row: its key is refused, and the check of the whole file finds it (S06).
func TestIndexThatHides(t *testing.T) {
	path := file(t)
	db := database(t, path)
	s := over(t, db, sqlstore.Config{})
	r := create(t, s, "mine")
	must(t, errors.Join(s.Close(), db.Close()))
	b, err := os.ReadFile(path)
	must(t, err)
	copy(b[bytes.LastIndex(b, []byte("mine")):], "your")
	must(t, os.WriteFile(path, b, 0o600))
	s = open(t, path)
	r.Version = draw()
	if _, err := s.Create(t.Context(), r); !errors.Is(err, stet.ErrCorrupt) || !strings.Contains(err.Error(), "REINDEX") {
		t.Errorf("Create: %v", err)
	}
	reaper, _ := stet.As[stet.Reaper](s)
	if _, err := reaper.Reap(t.Context(), 10); !errors.Is(err, stet.ErrCorrupt) { // it compares some rows with each call
		t.Errorf("Reap: %v", err)
	}
	v, _ := stet.As[interface {
		Verify(ctx context.Context) ([]string, error)
	}](s)
	if found, err := v.Verify(t.Context()); err != nil || len(found) == 0 || strings.Contains(found[0], "mine") {
		t.Errorf("found %q, %v", found, err)
	}
}
