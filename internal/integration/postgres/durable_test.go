package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A server that may lose what it acknowledged is refused, with the setting and what to do; an open
// store says so, once asked, of one that became so; and AllowVolatile opens it (B05, W30).
func TestVolatileServers(t *testing.T) {
	direct := dsn(testserver.NewPostgres(t).Addr, "postgres")
	s := opened(t, direct, pgxstore.Config{})
	also := openStandard(t, strings.TrimSuffix(direct, "&pool_max_conns=16"))
	t.Cleanup(func() { _ = also.Close() })
	allowed := opened(t, direct, pgxstore.Config{AllowVolatile: true})
	admin := connected(t, direct)
	check := func(s stet.Store) error {
		t.Helper()
		c, ok := stet.As[stet.Checker](s)
		if !ok {
			t.Fatal("the store cannot be asked")
		}
		return c.Check(within(t, 30*time.Second))
	}
	for what, err := range map[string]error{"pgx": check(s), "database/sql": check(also.Store)} {
		if err != nil {
			t.Fatalf("%s: a server that syncs: %v", what, err)
		}
	}
	const reload = "SELECT pg_reload_conf()"
	for _, c := range []struct {
		name, mend string
		set, reset []string
	}{
		{"fsync", "set fsync to on", []string{"ALTER SYSTEM SET fsync = off", reload}, []string{"ALTER SYSTEM RESET fsync", reload}},
		{"full_page_writes", "set full_page_writes to on", []string{"ALTER SYSTEM SET full_page_writes = off", reload},
			[]string{"ALTER SYSTEM RESET full_page_writes", reload}},
		{"synchronous_commit", "set it to on or local", []string{"ALTER SYSTEM SET synchronous_commit = off", reload},
			[]string{"ALTER SYSTEM RESET synchronous_commit", reload}},
		{"unlogged", "SET LOGGED", []string{"ALTER TABLE stet_records SET UNLOGGED"}, []string{"ALTER TABLE stet_records SET LOGGED"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			execute(t, admin, c.set...)
			for _, s := range []stet.Store{s, also.Store} {
				eventually(t, "word of "+c.name, func() bool { return errors.Is(check(s), stet.ErrVolatile) })
				if err := check(s); !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), c.mend) {
					t.Errorf("Check: %v", err)
				}
			}
			if err := check(allowed); err != nil {
				t.Errorf("Check of a store that takes it: %v", err)
			}
			if _, err := pgxstore.Open(t.Context(), pool(t, direct), pgxstore.Config{}); !errors.Is(err, stet.ErrVolatile) {
				t.Errorf("Open: %v", err)
			}
			if _, err := sqlstore.Open(t.Context(), also.db, sqlstore.Config{Dialect: sqlstore.Postgres}); !errors.Is(err, stet.ErrVolatile) {
				t.Errorf("Open: %v", err)
			}
			opened(t, direct, pgxstore.Config{AllowVolatile: true})
			execute(t, admin, c.reset...)
			for _, s := range []stet.Store{s, also.Store} {
				eventually(t, "all clear", func() bool { return check(s) == nil })
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := check(s.Store); err == nil || errors.Is(err, stet.ErrVolatile) {
		t.Errorf("what cannot be asked is %v", err)
	}
}
