package sqlite

import (
	"bufio"
	"database/sql"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// As long as any process has the file open, of whatever program and release, nothing is taken for
// left: it may be the holder (R07).
func TestNothingIsLeftWhileAnybodyHasTheFile(t *testing.T) {
	dir := t.TempDir()
	first := backend.Open(t, dir, nil)
	begun(t, first)
	closeStore(t, first)
	left := func() int {
		t.Helper()
		s := backend.Open(t, dir, nil)
		heir, _ := stet.As[stet.Heir](s)
		n := len(heir.Left())
		closeStore(t, s)
		return n
	}
	file := filepath.Join(dir, "stet.db")

	other := exec.CommandContext(t.Context(), "sqlite3", file) // another process, without a lock of Stet's
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("SELECT count(*) FROM stet_records;\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "1\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if n := left(); n != 0 {
		t.Errorf("while another process has the file open, %d are left", n)
	}
	_ = in.Close()
	if err := other.Wait(); err != nil {
		t.Fatal(err)
	}

	pool, err := sql.Open("sqlite", sqlstore.SQLiteDSN(file)) // this process, beside any store
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := left(); n != 0 {
		t.Errorf("while this process has the file open, %d are left", n)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}

	if n := left(); n != 1 {
		t.Errorf("when nobody has the file open any more, %d are left", n)
	}
}

// A store whose pool has lost all its connections still has the file open (R07).
func TestAStoreIsPresentWithoutItsPool(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, backend.Open(t, dir, nil))
	pool := &faults{dsn: sqlstore.SQLiteDSN(filepath.Join(dir, "stet.db"))}
	db := sql.OpenDB(pool)
	defer db.Close()
	first := over(t, db, sqlstore.Config{})
	begun(t, first)
	broken := errors.New("no disk")
	pool.set(map[string]error{"connect": broken, "SELECT": broken, "BEGIN": broken, "ROLLBACK": broken}, nil)
	if _, err := first.Get(t.Context(), stet.ID{Scope: "s", Key: "k"}); !errors.Is(err, broken) {
		t.Errorf("read: %v", err)
	}
	if _, err := first.Create(t.Context(), sample()); !errors.Is(err, broken) {
		t.Errorf("written: %v", err)
	}
	if n := db.Stats().OpenConnections; n != 0 {
		t.Fatalf("the pool has %d connections", n)
	}
	second := backend.Open(t, dir, nil)
	if heir, _ := stet.As[stet.Heir](second); len(heir.Left()) != 0 {
		t.Error("what it runs is taken for left")
	}
	closeStore(t, second)
}

func begun(t *testing.T, s stet.Store) {
	t.Helper()
	r := stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Version: 7, State: stet.Running, DueIn: time.Minute}}
	if _, err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func closeStore(t *testing.T, s stet.Store) {
	t.Helper()
	if err := s.(owner).Close(); err != nil {
		t.Fatal(err)
	}
}
