package mysql

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/storeid"
)

// dump is what mariadb-dump makes of a database, as an administrator calls it.
func dump(t testing.TB, dsn string) string {
	t.Helper()
	out, err := exec.Command("mariadb-dump", client(dsn, "--single-transaction")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func restore(t testing.TB, dsn, dump string) {
	t.Helper()
	cmd := exec.Command("mariadb", client(dsn)...)
	cmd.Stdin = strings.NewReader(dump)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// client are the arguments for a database of a data source name.
func client(dsn string, options ...string) []string {
	addr, database, _ := strings.Cut(strings.TrimPrefix(dsn, "root@tcp("), ")/")
	host, port, _ := strings.Cut(addr, ":")
	return append(append([]string{"--no-defaults", "-uroot", "-h" + host, "-P" + port}, options...), database)
}

// A dump that is restored while a gateway has the store open, as docs/operate.md says it: what came
// after it is refused and not run again, what is in it is replayed, and once the store is accepted
// it goes on (S-I, U11).
func TestARestoredDump(t *testing.T) {
	dsn := fresh(t, testserver.MariaDB(t).Addr)
	s := over(t, migrated(t, dsn))
	kept := create(t, s, "kept")
	backup := dump(t, dsn)
	identified, _ := stet.As[stet.Identified](s)
	known, _, err := identified.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "after")
	eventually(t, "a higher mark", func() bool {
		_, _ = s.Create(t.Context(), named(fmt.Sprint("more-", time.Now())))
		now, _, err := identified.Identity(t.Context())
		return err == nil && now.Mark > known.Mark
	})
	restore(t, dsn, backup)
	// Not a second later, but with the statement itself, also in the groups of many.
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if _, err := s.Create(within(t, 30*time.Second), named(fmt.Sprint("after", strings.Repeat("-", i)))); !errors.Is(err, stet.ErrForeign) {
				t.Errorf("Create %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if got, err := s.Create(t.Context(), named("kept")); !errors.Is(err, stet.ErrForeign) && !errors.Is(err, stet.ErrExists) {
		t.Errorf("what is in the dump: %v, %v", got.State, err)
	}
	if got, err := s.Get(t.Context(), kept.ID); err != nil || got.Version != kept.Version {
		t.Errorf("what is in the dump: %v", err)
	}
	if _, err := identified.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	create(t, s, "after")
}

// The raise of another process holds up no write.
func TestARaiseHoldsUpNoWrite(t *testing.T) {
	s, db := open(t)
	create(t, s, "before")
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "UPDATE stet_store SET mark = mark + 1"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if _, err := s.Create(within(t, 5*time.Second), named(fmt.Sprint("during-", i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

// A connection to another server than before, as after a failover, is looked at before its first
// write: the first change of a record is refused, and not the next after a second.
func TestANewConnectionIsLookedAt(t *testing.T) {
	root := fresh(t, testserver.NewMariaDB(t).Addr)
	db := migrated(t, root)
	s := over(t, connect(t, user(t, db, root, "plain", plainRights)))
	made := create(t, s, "made")
	identified, _ := stet.As[stet.Identified](s)
	eventually(t, "a higher mark", func() bool {
		_, _ = s.Create(t.Context(), named(fmt.Sprint("more-", time.Now())))
		now, _, err := identified.Identity(t.Context())
		return err == nil && now.Mark > 1
	})
	if _, _, err := identified.Identity(t.Context()); err != nil { // the gate looks again in a second
		t.Fatal(err)
	}
	execute(t, db, "UPDATE stet_store SET mark = 0, trail = ''")
	execute(t, db, "KILL USER plain")
	h, body := completed(made, "answer")
	eventually(t, "a connection", func() bool {
		_, err := s.Replace(t.Context(), made.Version, h, body)
		if err == nil {
			t.Fatal("a record of another store was changed")
		}
		return errors.Is(err, stet.ErrForeign)
	})
}

// A store that was set back in this moment is seen by the statement that would store a new record,
// without a look, of one caller or of many at once.
func TestTheStatementSeesAnotherStore(t *testing.T) {
	for _, callers := range []int{1, 64} {
		t.Run(fmt.Sprint(callers), func(t *testing.T) {
			s, db := open(t)
			identified, _ := stet.As[stet.Identified](s)
			eventually(t, "a mark", func() bool {
				_, _ = s.Create(t.Context(), named(fmt.Sprint("more-", time.Now())))
				now, _, err := identified.Identity(t.Context())
				return err == nil && now.Mark > 1
			})
			create(t, s, "before") // it was looked at in this second
			execute(t, db, "UPDATE stet_store SET mark = 0, trail = ''")
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					if _, err := s.Create(within(t, 30*time.Second), named(fmt.Sprint("new-", i))); !errors.Is(err, stet.ErrForeign) {
						t.Errorf("Create: %v", err)
					}
				})
			}
			all.Wait()
			var stored int
			if err := db.QueryRow("SELECT COUNT(*) FROM stet_records WHERE `key` LIKE 'new-%'").Scan(&stored); err != nil || stored != 0 {
				t.Errorf("%d were stored, %v", stored, err)
			}
		})
	}
}

// Every verb that writes is refused by another store, also within a transaction, and changes
// nothing; the transaction goes on.
func TestEveryWriteIsRefusedByAnotherStore(t *testing.T) {
	s, db := open(t)
	made, over := create(t, s, "made"), named("over")
	over.DueIn, over.State, over.Cause = 0, stet.Retryable, stet.CauseGivenUp
	if _, err := s.Create(t.Context(), over); err != nil {
		t.Fatal(err)
	}
	tx, bound := begin(t, s, db)
	identified, _ := stet.As[stet.Identified](s)
	identified.Know(stet.Identity{ID: "st_other"})
	h, body := completed(made, "answer")
	for name, in := range map[string]stet.Store{"the store": s, "in a transaction": bound} {
		historian, _ := stet.As[stet.Historian](in)
		writes := map[string]func() error{
			"Create":  func() error { _, err := in.Create(t.Context(), named("new")); return err },
			"Replace": func() error { _, err := in.Replace(t.Context(), made.Version, h, body); return err },
			"Delete":  func() error { return in.Delete(t.Context(), made.ID, made.Version) },
			"Append": func() error {
				return historian.Append(t.Context(), stet.Change{Note: stet.Note{Who: "ops", Why: "asked"}})
			},
		}
		if reaper, reaps := stet.As[stet.Reaper](in); reaps {
			writes["Reap"] = func() error { _, err := reaper.Reap(t.Context(), 10); return err }
		}
		for verb, write := range writes {
			if err := write(); !errors.Is(err, stet.ErrForeign) {
				t.Errorf("%s, %s: %v", name, verb, err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	var records, notes int
	err := db.QueryRow("SELECT (SELECT COUNT(*) FROM stet_records WHERE state <> 'completed'), (SELECT COUNT(*) FROM stet_history)").Scan(&records, &notes)
	if err != nil || records != 2 || notes != 0 {
		t.Errorf("%d records and %d notes, %v", records, notes, err)
	}
}

// The statement that raises the mark raises it by one, also while others do so. It never lowers it,
// and leaves a store alone that is not the known one: one raise of a store that was set back would
// lift it to where it was, and hide that (S04, S13).
func TestTheMarkOnlyRises(t *testing.T) {
	s, db := open(t)
	identified, _ := stet.As[stet.Identified](s)
	known, _, err := identified.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raise := func(id string, mark int64) (rows int64) {
		q := new(sqltext.MySQL).Fill(sqltext.MySQLRaise, "12345678", storeid.TrailSize, id, mark)
		result, err := db.ExecContext(t.Context(), string(q.Text), q.Args...)
		if err == nil {
			rows, err = result.RowsAffected()
		}
		if err != nil {
			t.Error(err)
		}
		return rows
	}
	mark := func() (now int64) {
		if err := db.QueryRowContext(t.Context(), "SELECT mark FROM stet_store").Scan(&now); err != nil {
			t.Error(err)
		}
		return now
	}
	for what, rows := range map[string]int64{
		"one that is at a lower mark": raise(known.ID, known.Mark+1), "another one": raise("st_another", known.Mark),
	} {
		if rows != 0 || mark() != known.Mark {
			t.Errorf("%s was raised, to %d", what, mark())
		}
	}
	var all sync.WaitGroup
	for range 4 { // who knows an old mark raises the one that is there
		all.Go(func() {
			for range 10 {
				before := mark()
				if rows := raise(known.ID, known.Mark); rows != 1 {
					t.Errorf("%d rows were raised", rows)
				}
				if after := mark(); after <= before {
					t.Errorf("the mark is %d after %d", after, before)
				}
			}
		})
	}
	all.Wait()
	if now := mark(); now != known.Mark+40 {
		t.Errorf("the mark is %d after 40 raises of %d", now, known.Mark)
	}
}
