package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// What may happen to the files while the store is open, and the words by which it is refused (S04).
var exchanges = map[string]struct {
	do   func(t *testing.T, path string)
	says string
}{
	"moved, and another put in its place": {func(t *testing.T, path string) {
		must(t, os.Rename(path, path+".old"))
		other := filepath.Join(t.TempDir(), "stet.db")
		s := open(t, other)
		must(t, s.Close())
		b, err := os.ReadFile(other)
		must(t, errors.Join(err, os.WriteFile(path, b, 0o600)))
	}, "another one than the one that is open has the name"},
	"removed": {func(t *testing.T, path string) { must(t, os.Remove(path)) }, "is not there any more"},
	"a copy of itself in its place": {func(t *testing.T, path string) {
		b, err := os.ReadFile(path)
		must(t, errors.Join(err, os.Remove(path), os.WriteFile(path, b, 0o600)))
	}, "another one than the one that is open has the name"},
	"another name": {func(t *testing.T, path string) { must(t, os.Link(path, path+"2")) }, "2 names (hard links)"},
	"its log removed": {func(t *testing.T, path string) { must(t, os.Remove(path+"-wal")) },
		"stet.db-wal is not there any more"},
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFileThatIsExchanged(t *testing.T) { // S04
	for what, x := range exchanges {
		t.Run(what, func(t *testing.T) {
			path := file(t)
			s := open(t, path)
			kept := create(t, s, "kept")
			x.do(t, path)
			if err := refused(t, s); !strings.Contains(err.Error(), x.says) {
				t.Errorf("it says %v", err)
			}
			if got, err := s.Get(t.Context(), kept.ID); err != nil || got.Version != kept.Version {
				t.Errorf("what it has cannot be read: %v", err)
			}
		})
	}
}

// refused waits until the store takes no new key, and returns why.
func refused(t testing.TB, s stet.Store) (err error) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !errors.Is(err, stet.ErrForeign); {
		if time.Now().After(end) {
			t.Fatalf("it takes new keys (%v)", err)
		}
		r := sample()
		r.Key = stet.Key("unseen-" + time.Now().String())
		_, err = s.Create(t.Context(), r)
	}
	return err
}

// A path that is a symbolic link is looked at by its own name as well (S04).
func TestLinkThatIsTurned(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "current.db")
	open := func() *sqlstore.Store {
		return over(t, database(t, link), sqlstore.Config{Path: link})
	}
	for _, name := range []string{"one.db", "two.db"} {
		must(t, overFile(t, filepath.Join(dir, name)).Close())
	}
	must(t, os.Symlink("one.db", link))
	s := open()
	create(t, s, "kept")
	must(t, errors.Join(os.Remove(link), os.Symlink("two.db", link)))
	if err := refused(t, s); !strings.Contains(err.Error(), "current.db") {
		t.Error(err)
	}
	must(t, s.Close())
	if err := refused(t, open()); !strings.Contains(err.Error(), "was here") {
		t.Errorf("opened again: %v", err)
	}
}

func overFile(t testing.TB, path string) *sqlstore.Store {
	t.Helper()
	return over(t, database(t, path), sqlstore.Config{})
}

// What was remembered tells, when the store is opened again, that another one has the name, or that
// it lacks its last writes (S04, S06).
func TestFileThatIsExchangedWhileClosed(t *testing.T) {
	for what, do := range map[string]func(t *testing.T, path string){
		"another":  func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"set back": func(t *testing.T, path string) { must(t, os.Rename(path+".old", path)) },
	} {
		t.Run(what, func(t *testing.T) {
			path := file(t)
			db := database(t, path)
			s := over(t, db, sqlstore.Config{})
			marked(t, s, 0)
			if _, err := db.ExecContext(t.Context(), "VACUUM INTO ?", path+".old"); err != nil {
				t.Fatal(err)
			}
			marked(t, s, 1)
			must(t, errors.Join(s.Close(), db.Close()))
			do(t, path)
			s = open(t, path)
			_ = refused(t, s)
			i, _ := stet.As[stet.Identified](s)
			if _, err := i.Accept(t.Context()); err != nil {
				t.Fatal(err)
			}
			create(t, s, "accepted")
			must(t, s.Close())
			create(t, open(t, path), "accepted, opened again")
		})
	}
}

// marked writes until the store has a higher mark, and that is remembered.
func marked(t testing.TB, s *sqlstore.Store, above int64) {
	t.Helper()
	i, _ := stet.As[stet.Identified](s)
	pause := time.NewTicker(20 * time.Millisecond) // many records would leave the log for the file
	defer pause.Stop()
	for end := time.Now().Add(time.Minute); ; <-pause.C {
		create(t, s, "marked-"+time.Now().String())
		now, _, err := i.Identity(t.Context())
		must(t, err)
		if now.Mark > above {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the mark is %d", now.Mark)
		}
	}
}

// An identity is that of one store, also for a transaction that another file's pool brings.
func TestTransactionOnACopy(t *testing.T) { // S10
	path := file(t)
	db := database(t, path)
	s := over(t, db, sqlstore.Config{})
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	binder, _ := stet.As[stet.Binder](s)
	bound, err := binder.Bind(tx)
	must(t, err)
	if _, err := tx.ExecContext(t.Context(), "UPDATE stet_store SET id = 'st_other'"); err != nil {
		t.Fatal(err)
	}
	if _, err := bound.Create(t.Context(), sample()); !errors.Is(err, stet.ErrForeign) {
		t.Errorf("Create: %v", err)
	}
}

// A caller's transaction that has only read sees an older mark than is known by then. That is no
// store that was set back.
func TestTransactionThatIsOlderThanTheMark(t *testing.T) {
	path := file(t)
	s := open(t, path)
	pool, err := sql.Open("sqlite", strings.ReplaceAll(sqlstore.SQLiteDSN(path), "&_txlock=immediate", ""))
	must(t, err)
	defer pool.Close()
	tx, err := pool.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	binder, _ := stet.As[stet.Binder](s)
	bound, err := binder.Bind(tx)
	must(t, err)
	if _, err := bound.Get(t.Context(), sample().ID); !errors.Is(err, stet.ErrNotFound) {
		t.Fatal(err)
	}
	marked(t, s, 0)
	if _, err := bound.Create(t.Context(), sample()); err == nil || errors.Is(err, stet.ErrForeign) {
		t.Errorf("Create: %v", err)
	}
	create(t, s, "others go on")
}

// The writer reads the identity and the horizon again as soon as another connection has written,
// although it was told which store it is a moment ago.
func TestWriterSeesWhatOthersWrite(t *testing.T) { // S10, S05
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	create(t, s, "a")
	create(t, s, "b") // for which nothing was read
	ahead := time.Now().Add(time.Hour)
	if _, err := db.ExecContext(t.Context(), "UPDATE stet_store SET horizon = ?", ahead.UnixMicro()); err != nil {
		t.Fatal(err)
	}
	if r := create(t, s, "c"); r.CreatedAt.Before(ahead.Truncate(time.Microsecond)) {
		t.Errorf("created at %s, before the horizon %s", r.CreatedAt, ahead)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE stet_store SET id = 'st_other'"); err != nil {
		t.Fatal(err)
	}
	r := sample()
	r.ID.Key = "d"
	if _, err := s.Create(t.Context(), r); !errors.Is(err, stet.ErrForeign) {
		t.Errorf("Create in another store: %v", err)
	}
}
