package mysql

import (
	"errors"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A server that may lose what it acknowledged is refused, with the setting and what to do; an open
// store says so, once asked, of one that became so; and AllowVolatile opens it (B05, W30).
func TestVolatileServers(t *testing.T) {
	t.Parallel()
	check := func(s stet.Store) error {
		t.Helper()
		c, ok := stet.As[stet.Checker](s)
		if !ok {
			t.Fatal("the store cannot be asked")
		}
		return c.Check(t.Context())
	}
	volatile := sqlstore.Config{Dialect: sqlstore.MySQL, AllowVolatile: true}
	db := migrated(t, fresh(t, testserver.NewMariaDB(t, "--log-bin", "--sync-binlog=1").Addr))
	s := over(t, db)
	allowed, err := sqlstore.Open(t.Context(), db, volatile)
	if err != nil {
		t.Fatal(err)
	}
	defer allowed.Close()
	if err := check(s); err != nil {
		t.Errorf("a server that syncs: %v", err)
	}
	for name, c := range map[string]struct{ set, reset string }{
		"innodb_flush_log_at_trx_commit": {"2", "1"},
		"sync_binlog":                    {"0", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			execute(t, db, "SET GLOBAL "+name+" = "+c.set)
			if err := check(s); !errors.Is(err, stet.ErrVolatile) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "has to be 1") {
				t.Errorf("Check: %v", err)
			}
			if err := check(allowed); err != nil {
				t.Errorf("Check of a store that takes it: %v", err)
			}
			if _, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.MySQL}); !errors.Is(err, stet.ErrVolatile) {
				t.Errorf("Open: %v", err)
			}
			execute(t, db, "SET GLOBAL "+name+" = "+c.reset)
			if err := check(s); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
	torn := migrated(t, fresh(t, testserver.NewMariaDB(t, "--skip-innodb-doublewrite").Addr))
	if _, err := sqlstore.Open(t.Context(), torn, sqlstore.Config{Dialect: sqlstore.MySQL}); !errors.Is(err, stet.ErrVolatile) {
		t.Errorf("a server without a doublewrite buffer: %v", err)
	}
}
