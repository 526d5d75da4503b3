package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

// restricted makes a database with a store that another role owns, and a role that may do nothing.
func restricted(t *testing.T, role string) (owner, its string) {
	t.Helper()
	owner = database(t, address(t), t.Name()+role)
	_ = opened(t, owner, pgxstore.Config{})
	execute(t, connected(t, owner), "DROP ROLE IF EXISTS "+role, "CREATE ROLE "+role+" LOGIN")
	return owner, as(t, owner, role)
}

// grants are those that `stet migrate sql` prints, for a role.
func grants(t *testing.T, role string) (all []string) {
	t.Helper()
	for line := range strings.Lines(sqlstore.Postgres.SQL(0)) {
		if grant, ok := strings.CutPrefix(strings.TrimSpace(line), "-- GRANT "); ok {
			all = append(all, "GRANT "+strings.ReplaceAll(grant, "stet_gateway", role))
		}
	}
	if len(all) == 0 {
		t.Fatal("no grants are printed")
	}
	return all
}

// A role with the grants that are printed can do all that a store does (S07).
func TestPrintedGrantsSuffice(t *testing.T) {
	owner, its := restricted(t, "stet_granted")
	execute(t, connected(t, owner), grants(t, "stet_granted")...)
	for _, s := range []stet.Store{opened(t, its, pgxstore.Config{}), openedStandard(t, its)} {
		if err := usable.Prove(t.Context(), s, true); err != nil {
			t.Error(err)
		}
		reaper, _ := stet.As[stet.Reaper](s)
		if _, err := reaper.Reap(t.Context(), 10); err != nil {
			t.Error(err)
		}
		forgetter, _ := stet.As[stet.Forgetter](s)
		if n, err := forgetter.Erase(t.Context(), stet.HistoryQuery{Scope: stet.OwnScope}); n == 0 || err != nil {
			t.Errorf("%d entries were erased, %v", n, err)
		}
		if n, err := forgetter.Trim(t.Context(), 0, 10); n == 0 || err != nil {
			t.Errorf("%d entries were trimmed, %v", n, err)
		}
		raised(t, s)
		i, _ := stet.As[stet.Identified](s)
		if _, err := i.Accept(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func openedStandard(t *testing.T, address string) stet.Store {
	s := openStandard(t, strings.TrimSuffix(address, "&pool_max_conns=16"))
	t.Cleanup(func() { _ = s.Close() })
	return s.Store
}

// What a role lacks is said with what to do, when the store is opened or by the proof that it can
// be used (S08).
func TestRestrictedRoles(t *testing.T) {
	for role, c := range map[string]struct {
		less []string // than the grants
		want string
	}{
		"stet_reads":    {[]string{"REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public FROM stet_reads"}, "stet migrate sql"},
		"stet_keeps":    {[]string{"REVOKE DELETE ON stet_records FROM stet_keeps"}, "stet migrate sql"},
		"stet_unnoted":  {[]string{"REVOKE INSERT ON stet_history FROM stet_unnoted"}, "stet migrate sql"},
		"stet_unlisted": {[]string{"REVOKE SELECT ON stet_records FROM stet_unlisted"}, "stet migrate sql"},
		"stet_nameless": {[]string{"REVOKE SELECT ON stet_store FROM stet_nameless"}, "stet migrate sql"},
		"stet_standing": {[]string{"ALTER ROLE stet_standing SET default_transaction_read_only = on"}, "default_transaction_read_only"},
		"stet_filtered": {[]string{"ALTER TABLE stet_records ENABLE ROW LEVEL SECURITY"}, "BYPASSRLS"},
		"stet_hidden": {[]string{"ALTER TABLE stet_records ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON stet_records FOR SELECT USING (scope = 'x')",
			"CREATE POLICY q ON stet_records FOR INSERT WITH CHECK (true)"}, "BYPASSRLS"},
	} {
		t.Run(role, func(t *testing.T) {
			owner, its := restricted(t, role)
			admin := connected(t, owner)
			execute(t, admin, grants(t, role)...)
			s, err := pgxstore.Open(t.Context(), pool(t, its), pgxstore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			execute(t, admin, c.less...)
			if err := usable.Prove(t.Context(), s, true); role != "stet_standing" && (err == nil || !lends(err, c.want)) { // its session has begun
				t.Errorf("the proof: %v, want %s", err, c.want)
			}
			again, err := pgxstore.Open(t.Context(), pool(t, its), pgxstore.Config{})
			if err == nil {
				err = usable.Prove(t.Context(), again, true)
				_ = again.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("opened: %v, want %s", err, c.want)
			}
		})
	}
}

// lends reports whether an error says the mend. Where row-level security was enabled later, what it
// refuses names it as well.
func lends(err error, mend string) bool {
	return strings.Contains(err.Error(), mend) || strings.Contains(err.Error(), "row-level security")
}

// A standby takes no writes, and says so.
func TestReadOnlyTransactionsSayTheMend(t *testing.T) { // S08
	s := opened(t, database(t, address(t), t.Name()), pgxstore.Config{})
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SET TRANSACTION READ ONLY"); err != nil {
		t.Fatal(err)
	}
	in, err := s.Bind(tx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Create(t.Context(), running("k")); err == nil || errors.Is(err, stet.ErrBusy) || !strings.Contains(err.Error(), "default_transaction_read_only") {
		t.Error(err)
	}
}

// A store in a schema that the search_path does not lead to is named, and no second one is made
// beside it (S07).
func TestStoreInAnotherSchema(t *testing.T) {
	direct := database(t, address(t), t.Name())
	admin := connected(t, direct)
	execute(t, admin, "CREATE SCHEMA old_place")
	s := opened(t, with(t, direct, "search_path", "old_place"), pgxstore.Config{})
	create(t, s, "k")
	p := pool(t, direct)
	db := openDB(t, direct)
	_, _, status := pgxstore.Status(t.Context(), p)
	_, _, standard := sqlstore.Status(t.Context(), db, sqlstore.Postgres)
	_, open := pgxstore.Open(t.Context(), p, pgxstore.Config{})
	for what, err := range map[string]error{"Status": status, "Status of database/sql": standard, "Open": open,
		"Migrate": pgxstore.Migrate(t.Context(), p), "Migrate of database/sql": sqlstore.Migrate(t.Context(), db, sqlstore.Postgres)} {
		if !errors.Is(err, pgxstore.ErrSchema) && !errors.Is(err, sqlstore.ErrSchema) || !strings.Contains(err.Error(), "old_place") {
			t.Errorf("%s: %v", what, err)
		}
	}
	var n int
	if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_class WHERE relname = 'stet_records'").Scan(&n); err != nil || n != 1 {
		t.Errorf("there are %d stores, %v", n, err)
	}
	execute(t, admin, "CREATE TABLE stet_schema (version INTEGER PRIMARY KEY)") // as a script does that makes a second one
	if err := pgxstore.Migrate(t.Context(), p); err != nil {
		t.Error(err)
	}
}
