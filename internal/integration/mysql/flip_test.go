package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/sqlstore"
)

// verifier reads all of a store.
type verifier interface {
	Verify(ctx context.Context) ([]string, error)
}

func verify(t testing.TB, s stet.Store) ([]string, error) {
	t.Helper()
	v, ok := stet.As[verifier](s)
	if !ok {
		t.Fatal("the store cannot be verified")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return v.Verify(ctx)
}

// One bit of the table's file turns over while the server is stopped: each record is found as it
// was, or is refused, and what refuses it is found by reading all of the store. The server has a
// checksum for each page, and the rows lie in the tree that they are found by: none is new (S06).
func TestFlippedBitsForgetNothing(t *testing.T) {
	t.Parallel()
	server := testserver.NewMariaDB(t)
	dsn := fresh(t, server.Addr)
	db := migrated(t, dsn)
	s, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.MySQL})
	if err != nil {
		t.Fatal(err)
	}
	var kept []stet.Record
	for i := range 300 {
		kept = append(kept, create(t, s, fmt.Sprintf("kept-%03d", i)))
	}
	if found, err := verify(t, s); err != nil || len(found) > 0 {
		t.Fatalf("of a whole store %q are found, %v", found, err)
	}
	execute(t, db, "SET GLOBAL innodb_fast_shutdown = 1") // all pages are in the file then
	if err := errors.Join(s.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	server.Stop(t)
	restore := server.Keep(t)
	at := filepath.Join(server.Data(), dsn[strings.LastIndex(dsn, "/")+1:], "stet_records.ibd")
	good, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	flips := 8
	if os.Getenv("STET_SOAK") != "" {
		flips = 200
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	verdicts := map[string]int{}
	for range flips {
		bit := random.IntN(8 * len(good))
		for good[bit/8] == 0 {
			bit = random.IntN(8 * len(good))
		}
		testserver.Flip(t, at, bit)
		verdict := "the server does not start"
		if server.TryStart() == nil {
			verdict = judge(t, dsn, kept)
		}
		if strings.HasPrefix(verdict, "new") || verdict == "refused" { // what refuses a key is found by reading all
			t.Errorf("seed %d, bit %d: %s", seed, bit, verdict)
		}
		verdicts[verdict]++
		server.Kill(t)
		restore()
	}
	t.Logf("seed %d: %v", seed, verdicts)
	if verdicts["as before"] == flips {
		t.Error("none is noticed: the test does not reach what it is about")
	}
}

// judge makes each record again, and reads all of the store.
func judge(t testing.TB, dsn string, kept []stet.Record) string {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the server may have ended
	s, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.MySQL})
	if err != nil {
		return "not opened"
	}
	defer func() { _ = s.Close() }()
	fresh, refused := 0, 0
	for _, r := range kept {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		got, err := s.Create(ctx, named(string(r.Key)))
		cancel()
		switch {
		case errors.Is(err, stet.ErrExists) && got.Version == r.Version:
		case err == nil:
			fresh++
		default:
			refused++
		}
	}
	found, err := verify(t, s)
	switch noticed := len(found) > 0 || err != nil; {
	case fresh > 0 && noticed:
		return "new, and it is found"
	case fresh > 0:
		return "new, and nothing is found"
	case refused > 0 && noticed:
		return "refused, and it is found"
	case refused > 0:
		return "refused"
	case noticed:
		return "as before, and it is found"
	}
	return "as before"
}
