package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// late is another process on the file, whose host's clock was set back by an hour. It makes the
// record that each line names.
func late(path string) int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(path))
	if err != nil {
		return fail(err)
	}
	defer db.Close()
	s, err := sqlstore.Open(context.Background(), db, sqlstore.Config{Dialect: sqlstore.SQLite,
		Clock: func() time.Time { return time.Now().Add(-time.Hour) }})
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		r := sample()
		r.Key = stet.Key(lines.Text())
		if _, err := s.Create(context.Background(), r); err != nil {
			return fail(err)
		}
		fmt.Println("made")
	}
	return 0
}

// The clock is set back between the starts of two processes on one file: no lease of either is over
// early for the other, also after a restart (S05, W10).
func TestClockSetBackBetweenProcesses(t *testing.T) {
	path := file(t)
	s := open(t, path)
	create(t, s, "before")
	for i := range 2 {
		in, out := process(t, "late", path)
		key := fmt.Sprint("granted-", i)
		if _, err := fmt.Fprintln(in, key); err != nil {
			t.Fatal(err)
		}
		if !out.Scan() || out.Text() != "made" {
			t.Fatalf("it says %q", out.Text())
		}
		for _, key := range []string{key, "before"} {
			got, err := s.Get(t.Context(), stet.ID{Scope: "tenant-1", Key: stet.Key(key)})
			if left := got.DueAt.Sub(got.AsOf); err != nil || left < time.Minute-20*time.Second {
				t.Errorf("%s: %s of its minute are left (%v)", key, left, err)
			}
		}
		must(t, in.Close())
	}
	if heads, _, err := s.Due(t.Context(), stet.Query{}); err != nil || len(heads) != 0 {
		t.Errorf("%d are due (%v)", len(heads), err)
	}
}

// process starts this binary in a part.
func process(t testing.TB, part, path string) (io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0]) // it ends with its input
	cmd.Env = append(os.Environ(), "STET_SQLITE_PART="+part, "STET_SQLITE_FILE="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return in, bufio.NewScanner(out)
}
