package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// After a kill, one bit of one of the files turns over: each record is found as it was, or its key
// is refused. None is new, because a log that was cut has a lower mark, and a row that one index
// hides is found by the other (S06).
func TestFlippedBitsForgetNothing(t *testing.T) {
	for _, in := range []string{"stet.db", "stet.db-wal"} {
		t.Run(in, func(t *testing.T) {
			killed, kept := killedStore(t, in == "stet.db-wal")
			good, err := os.ReadFile(filepath.Join(killed, in))
			must(t, err)
			asBefore, refused := 0, 0
			places := everyIndex(good, "kept-")
			for range 10 {
				places = append(places, rand.N(len(good)))
			}
			if os.Getenv("STET_SOAK") == "" {
				rand.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
				places = places[:40]
			}
			for _, at := range places {
				bit := rand.N(5)
				dir := t.TempDir()
				must(t, os.CopyFS(dir, os.DirFS(killed)))
				bad := append([]byte{}, good...)
				bad[at] ^= 1 << bit
				must(t, os.WriteFile(filepath.Join(dir, in), bad, 0o600))
				as, no, err := verdicts(filepath.Join(dir, "stet.db"), kept)
				if err != nil {
					t.Fatalf("bit %d of byte %d: %v", bit, at, err)
				}
				asBefore, refused = asBefore+as, refused+no
			}
			t.Logf("%d verdicts are as before, %d are refused", asBefore, refused)
			if asBefore == 0 && in == "stet.db" || refused == 0 {
				t.Errorf("%d verdicts are as before, %d are refused: the test does not reach what it is about", asBefore, refused)
			}
		})
	}
}

// Without what is remembered beside the file, a log that is cut by one bit would forget its keys:
// the test above reaches what it is about (S06).
func TestFlippedBitIsNoticedByWhatIsRemembered(t *testing.T) {
	dir, kept := killedStore(t, true)
	path := filepath.Join(dir, "stet.db")
	log, err := os.ReadFile(path + "-wal")
	must(t, err)
	log[bytes.Index(log, []byte("kept-"))] ^= 1
	must(t, errors.Join(os.WriteFile(path+"-wal", log, 0o600), os.Remove(path+"-seen")))
	if _, _, err := verdicts(path, kept); err == nil {
		t.Error("no key is new: the bit is in no record")
	}
}

// killedStore is the directory that a process leaves which is killed, and what it has acknowledged.
// The records are in the log alone, or in the file.
func killedStore(t *testing.T, inLog bool) (dir string, kept []stet.Record) {
	t.Helper()
	from := t.TempDir()
	db := database(t, filepath.Join(from, "stet.db"))
	s := over(t, db, sqlstore.Config{})
	for i := range 20 {
		kept = append(kept, create(t, s, fmt.Sprintf("kept-%02d", i)))
	}
	marked(t, s, 0)
	if !inLog {
		_, err := db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)")
		must(t, err)
	}
	dir = t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(from)))
	_ = os.Remove(filepath.Join(dir, "stet.db-shm")) // of the processes that had it open
	return dir, kept
}

func everyIndex(b []byte, text string) (all []int) {
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte(text))
		if i < 0 {
			return all
		}
		at += i + 1
		all = append(all, at+rand.N(len(text)))
	}
}

// verdicts opens the store and makes each record again. The error says that one was new.
func verdicts(path string, kept []stet.Record) (asBefore, refused int, err error) {
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(path))
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	ctx := context.Background()
	s, err := sqlstore.Open(ctx, db, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		return 0, len(kept), nil
	}
	defer s.Close()
	for _, r := range kept {
		again := r
		again.Version = draw()
		got, err := s.Create(ctx, again)
		switch {
		case errors.Is(err, stet.ErrExists) && got.Version == r.Version:
			asBefore++
		case err == nil:
			return 0, 0, fmt.Errorf("%s is new", string(r.Key))
		default:
			refused++
		}
	}
	return asBefore, refused, nil
}
