package postgres

import (
	"errors"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/store/pgxstore"
)

// tool runs a program of Postgres against a database.
func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		t.Skipf("%s is not installed", name)
	}
	if out, err := exec.Command(found[len(found)-1], args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// refusedSoon asserts that a store takes no write from soon on: what it tries before that may be
// stored.
func refusedSoon(t *testing.T, s stet.Store) {
	t.Helper()
	eventually(t, "refusal", func() bool {
		_, err := s.Create(within(t, 5*time.Second), running("tried "+time.Now().String()))
		return errors.Is(err, stet.ErrForeign)
	})
}

// A dump that is restored in the place of the store is refused until it is accepted, by the
// procedure of docs/operate.md (U11).
func TestRestoredDump(t *testing.T) {
	at := database(t, address(t), t.Name())
	s := opened(t, at, pgxstore.Config{})
	kept := create(t, s, "kept")
	raised(t, s)
	dump, plain := filepath.Join(t.TempDir(), "stet.dump"), strings.TrimSuffix(at, "&pool_max_conns=16")
	tool(t, "pg_dump", "--format=custom", "--table=stet_*", "--file="+dump, plain)
	now, _, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "forgotten")
	further(t, s, now.Mark)
	tool(t, "pg_restore", "--clean", "--if-exists", "--single-transaction", "--dbname="+plain, dump)
	refusedSoon(t, s)
	if got, err := s.Get(t.Context(), kept.ID); err != nil || got.Version != kept.Version {
		t.Errorf("what it has: %v", err)
	}
	if next, err := s.Accept(t.Context()); err != nil || len(next.Replaces) == 0 {
		t.Fatalf("%+v, %v", next, err)
	}
	if err := usable.Prove(t.Context(), s, true); err != nil {
		t.Error(err)
	}
}

// further has the mark of a store rise above one.
func further(t *testing.T, s stet.Store, mark int64) {
	t.Helper()
	i, _ := stet.As[stet.Identified](s)
	eventually(t, "higher mark", func() bool {
		err := s.Delete(t.Context(), running("none").ID, 1)
		now, _, looked := i.Identity(t.Context())
		return errors.Is(err, stet.ErrNotFound) && looked == nil && now.Mark > mark
	})
}

// A standby that had not everything takes the place of the primary: no key is new there (S03).
func TestPromotedStandbyThatLags(t *testing.T) {
	primary := testserver.NewPostgres(t)
	u, err := url.Parse(dsn(primary.Addr, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	_ = opened(t, u.String(), pgxstore.Config{}).Close() // migrates
	standby := primary.Standby(t, "standby")
	u.Host += "," + standby.Addr
	s := opened(t, with(t, u.String(), "target_session_attrs", "read-write"), pgxstore.Config{})
	raised(t, s)
	now, _, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	behind := connected(t, dsn(standby.Addr, "postgres"))
	eventually(t, "replay", func() bool {
		var mark int64
		err := behind.QueryRow(t.Context(), "SELECT mark FROM stet_store").Scan(&mark)
		return err == nil && mark >= now.Mark
	})
	execute(t, behind, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	eventually(t, "lag", func() bool {
		var n int
		err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_replication").Scan(&n)
		return err == nil && n == 0
	})
	create(t, s, "forgotten")
	now, _, err = s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	further(t, s, now.Mark)
	primary.Kill(t)
	promote(t, standby)
	refusedSoon(t, s)
	if _, err := s.Create(t.Context(), running("forgotten")); !errors.Is(err, stet.ErrForeign) {
		t.Errorf("a key that was lost is new: %v", err)
	}
}
