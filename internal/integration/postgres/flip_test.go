package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/pgxstore"
)

// files are those of the store's table and of its indexes, by name, in the directory of a server.
func files(t testing.TB, db *sql.DB, s *testserver.Server) map[string]string {
	t.Helper()
	all := map[string]string{}
	rows, err := db.QueryContext(t.Context(), `SELECT c.relname, pg_relation_filepath(c.oid) FROM pg_class c
		WHERE c.oid = 'stet_records'::regclass OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'stet_records'::regclass)`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name, path string
		if err := rows.Scan(&name, &path); err != nil {
			t.Fatal(err)
		}
		all[name] = filepath.Join(s.Data(), path)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// One bit of one page turns over while the server is stopped: each record is found as it was, or is
// refused, or the damage is found by reading all of the store. With checksums the server refuses
// the page itself; without them an index may hide a row, whose key is new then: that is what Verify
// and Reap look for. A row that hides itself is not found without them, of which the doctor warns
// (S06).
func TestFlippedBitsAreFound(t *testing.T) {
	for _, checksums := range []bool{true, false} {
		t.Run(fmt.Sprintf("checksums %v", checksums), func(t *testing.T) {
			t.Parallel()
			server := testserver.NewPostgres(t)
			if checksums {
				server.Stop(t)
				server.Checksums(t)
				server.Start(t)
			}
			dsn := server.PostgresDSN("postgres")
			db := openDB(t, dsn)
			s := open(t, dsn, pgxstore.Config{})
			var kept []stet.Record
			for i := range 300 {
				r, err := s.Create(t.Context(), running(fmt.Sprintf("kept-%03d", i)))
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, r)
			}
			found, err := s.Verify(t.Context())
			if err != nil || len(damages(found)) > 0 || len(found) > 0 == checksums {
				t.Fatalf("of a whole store %q are found, %v", found, err)
			}
			at := files(t, db, server)
			if err := errors.Join(s.Close(), db.Close()); err != nil {
				t.Fatal(err)
			}
			server.Stop(t)
			restore := server.Keep(t)
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			verdicts := map[string]int{}
			for _, name := range []string{"stet_records_pkey", "stet_records"} {
				good, err := os.ReadFile(at[name])
				if err != nil {
					t.Fatal(err)
				}
				for range flips() {
					bit := place(random, good)
					testserver.Flip(t, at[name], bit)
					server.Start(t)
					verdict := judge(t, dsn, kept)
					if strings.HasPrefix(verdict, "new") && checksums || verdict == unnoticed && name == "stet_records_pkey" {
						t.Errorf("seed %d, bit %d of %s: %s", seed, bit, name, verdict)
					}
					verdicts[name+": "+verdict]++
					server.Kill(t)
					restore()
				}
			}
			t.Logf("seed %d: %v", seed, verdicts)
		})
	}
}

// flips is how many bits of a file are turned over.
func flips() int {
	if os.Getenv("STET_SOAK") != "" {
		return 200
	}
	return 6
}

// place is a bit of a page that is in use: pages end with what they hold, and begin with where.
func place(random *rand.Rand, file []byte) int {
	for {
		at := random.IntN(len(file))
		if file[at] != 0 || at%8192 < 24 {
			return 8*at + random.IntN(8)
		}
	}
}

// damages are those of what is found that are not about the server.
func damages(found []string) []string {
	return slices.DeleteFunc(slices.Clone(found), func(text string) bool { return strings.Contains(text, "data_checksums is off") })
}

// unnoticed may be the verdict where a row says of itself that it was deleted, and no checksum
// contradicts it.
const unnoticed = "new, and nothing is found"

// judge reads all of the store, and then makes each record again.
func judge(t testing.TB, dsn string, kept []stet.Record) string {
	t.Helper()
	s, err := tryOpen(dsn)
	if err != nil {
		return "not opened"
	}
	defer func() { _ = s.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	found, err := s.Verify(ctx)
	noticed := len(damages(found)) > 0 || err != nil
	fresh, refused := 0, 0
	for _, r := range kept {
		again := running(string(r.Key))
		switch got, err := s.Create(ctx, again); {
		case errors.Is(err, stet.ErrExists) && got.Version == r.Version:
		case err == nil:
			fresh++
		default:
			refused++
		}
	}
	switch {
	case fresh > 0 && noticed:
		return "new, and it is found"
	case fresh > 0:
		return unnoticed
	case refused > 0:
		return "refused"
	case noticed:
		return "as before, and it is found"
	}
	return "as before"
}

// A row that the index by names, or one of those that due records are found by, does not lead to is
// found by reading all of the store. One that the index by names hides is found by the reaper in
// time. The extension amcheck sees the same, where it is there (S06).
func TestRowsThatAnIndexHidesAreFound(t *testing.T) {
	for _, amcheck := range []bool{false, true} {
		for index, says := range map[string]string{"stet_records_pkey": "1 records are not found by scope and key", "stet_records_running": "leads to 19 rows of 20"} {
			t.Run(fmt.Sprintf("%s, %v", index, amcheck), func(t *testing.T) {
				dsn := database(t, address(t), t.Name())
				s, db := opened(t, dsn, pgxstore.Config{}), openDB(t, dsn)
				for i := range 20 {
					if _, err := s.Create(t.Context(), running(fmt.Sprint("kept-", i))); err != nil {
						t.Fatal(err)
					}
				}
				if amcheck {
					statement(t, db, "CREATE EXTENSION amcheck")
				}
				if found, err := s.Verify(t.Context()); err != nil || len(damages(found)) > 0 {
					t.Fatalf("of a whole store %q are found, %v", found, err)
				}
				if _, err := s.Reap(t.Context(), 10); err != nil {
					t.Fatal(err)
				}
				hide(t, db, index)
				found, err := s.Verify(t.Context())
				found = damages(found)
				if err != nil || len(found) == 0 || !strings.Contains(found[0], says) {
					t.Errorf("found %q, %v", found, err)
				}
				if seen := strings.Contains(strings.Join(found, " "), "XX001"); seen != amcheck {
					t.Errorf("found by amcheck: %v, %q", seen, found)
				}
				if _, err := s.Reap(t.Context(), 10); errors.Is(err, stet.ErrCorrupt) != (index == "stet_records_pkey") {
					t.Errorf("Reap: %v", err)
				}
			})
		}
	}
}

// hide has an index not lead to one row, as a damaged page of it would.
func hide(t testing.TB, db *sql.DB, index string) {
	t.Helper()
	for _, text := range []string{
		"CREATE TEMP TABLE moved AS SELECT * FROM stet_records WHERE key = 'kept-7'",
		"UPDATE pg_index SET indisready = false WHERE indexrelid = '" + index + "'::regclass",
		"DELETE FROM stet_records WHERE key = 'kept-7'",
		"INSERT INTO stet_records OVERRIDING SYSTEM VALUE SELECT * FROM moved",
		"UPDATE pg_index SET indisready = true WHERE indexrelid = '" + index + "'::regclass",
	} {
		statement(t, db, text)
	}
}

func statement(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// tryOpen is open, for a server that may be damaged.
func tryOpen(dsn string) (pooled, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return pooled{}, err
	}
	pgxstore.Prepare(config)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return pooled{}, err
	}
	s, err := pgxstore.Open(context.Background(), pool, pgxstore.Config{})
	if err != nil {
		pool.Close()
		return pooled{}, err
	}
	return pooled{s, pool}, nil
}
