package mysql

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/sqlstore"
	"github.com/stet-dev/stet/store/storetest"
)

// user makes a user of the name with these rights on the database of a data source name, and
// returns its own.
func user(t testing.TB, admin *sql.DB, dsn, name, rights string) string {
	t.Helper()
	database := dsn[strings.LastIndex(dsn, "/")+1:]
	execute(t, admin, "CREATE OR REPLACE USER "+name)
	if rights != "" {
		execute(t, admin, "GRANT "+rights+" ON "+database+".* TO "+name)
	}
	return strings.Replace(dsn, "root@", name+"@", 1)
}

const plainRights = "SELECT, INSERT, UPDATE, DELETE"

// sequence is [written], and counted: that is asked with the pool, and not with the store's own
// connections.
func sequence(t testing.TB, s stet.Store, db *sql.DB) {
	t.Helper()
	written(t, s, db)
	counter, _ := stet.As[stet.Counter](s)
	if n, err := counter.Count(t.Context(), stet.Query{}); n != 32 || err != nil {
		t.Errorf("%d are counted, %v", n, err)
	}
}

// written writes in all ways, alone and in groups, and asserts that another connection sees it.
func written(t testing.TB, s stet.Store, db *sql.DB) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			r, err := s.Create(ctx, named(fmt.Sprint("many-", i)))
			if err != nil {
				t.Error(err)
				return
			}
			h, body := completed(r, "answer")
			if i%8 == 0 {
				h.Note = &stet.Note{Who: "ops", Why: "asked"}
			}
			if i%4 == 0 {
				h.DueIn = 0
			}
			if h, err = s.Replace(ctx, r.Version, h, body); err != nil {
				t.Error(err)
			}
			if i%4 == 1 {
				if err := s.Delete(ctx, r.ID, h.Version); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	reaper, _ := stet.As[stet.Reaper](s)
	if n, err := reaper.Reap(ctx, 100); n != 16 || err != nil {
		t.Errorf("%d were reaped, %v", n, err)
	}
	var records, notes int
	err := db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM stet_records WHERE state = 'completed' AND status = 201), (SELECT COUNT(*) FROM stet_history)").
		Scan(&records, &notes)
	if err != nil || records != 32 || notes != 8 {
		t.Errorf("another connection sees %d records and %d notes, %v", records, notes, err)
	}
	got, err := s.Get(ctx, named("many-2").ID)
	if off := time.Since(got.UpdatedAt).Abs(); err != nil || off > time.Minute {
		t.Errorf("the store's clock is off by %v, %v", off, err)
	}
}

// Whatever a server or init_connect makes of a session, the store's own are set up as its
// statements need them; a pool whose sessions it cannot use is refused, with the setting (S02).
func TestSessionsAreSetUp(t *testing.T) {
	t.Parallel()
	addr := testserver.NewMariaDB(t).Addr
	for name, c := range map[string]struct {
		sets   string // as a global variable
		reset  string
		refuse string // what the error tells, where the pool itself is not set up
	}{
		"autocommit":       {"autocommit = 0", "autocommit = 1", "autocommit"},
		"completion":       {"completion_type = CHAIN", "completion_type = NO_CHAIN", "completion_type"},
		"mode":             {"sql_mode = ''", "sql_mode = DEFAULT", "sql_mode"},
		"quotes":           {"sql_mode = 'ANSI,STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE'", "sql_mode = DEFAULT", ""},
		"clock":            {"init_connect = 'SET timestamp = 1000000000'", "init_connect = ''", "clock"},
		"isolation":        {"tx_isolation = 'SERIALIZABLE'", "tx_isolation = 'REPEATABLE-READ'", ""},
		"dirty reads":      {"tx_isolation = 'READ-UNCOMMITTED'", "tx_isolation = 'REPEATABLE-READ'", ""},
		"read only":        {"init_connect = 'SET SESSION TRANSACTION READ ONLY'", "init_connect = ''", "the session is read only"},
		"safe updates":     {"init_connect = 'SET sql_safe_updates = 1'", "init_connect = ''", ""},
		"select limit":     {"sql_select_limit = 1", "sql_select_limit = DEFAULT", "sql_select_limit"},
		"joins":            {"init_connect = 'SET sql_big_selects = 0, max_join_size = 1'", "init_connect = ''", "sql_big_selects"},
		"time zone":        {"time_zone = '-08:00'", "time_zone = 'SYSTEM'", ""},
		"other names":      {"init_connect = 'SET NAMES gbk'", "init_connect = ''", ""},
		"waits for rows":   {"innodb_lock_wait_timeout = 1", "innodb_lock_wait_timeout = DEFAULT", ""},
		"null is the last": {"init_connect = 'SET sql_auto_is_null = 1'", "init_connect = ''", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := fresh(t, addr)
			db := migrated(t, root)
			dsn := user(t, db, root, "plain", plainRights)
			execute(t, db, "SET GLOBAL "+c.sets)
			defer execute(t, db, "SET GLOBAL "+c.reset)
			s, err := sqlstore.Open(t.Context(), connect(t, dsn), sqlstore.Config{Dialect: sqlstore.MySQL})
			if err == nil {
				defer s.Close()
			}
			switch {
			case c.refuse == "" && err == nil:
				sequence(t, s, db)
			case c.refuse == "" || err == nil || !strings.Contains(err.Error(), c.refuse):
				t.Errorf("Open: %v, want %q", err, c.refuse)
			}
		})
	}
}

// pins are settings of a session that the store's statements rest on: what they would be otherwise,
// and what they have to be.
var pins = []struct{ name, otherwise, want string }{
	{"tx_isolation", "'SERIALIZABLE'", "READ-COMMITTED"},
	{"tx_read_only", "1", "0"},
	{"character_set_client", "latin1", "utf8mb4"},
	{"character_set_connection", "latin1", "utf8mb4"},
	{"character_set_results", "latin1", "utf8mb4"},
	{"autocommit", "0", "1"},
	{"completion_type", "CHAIN", "NO_CHAIN"},
	{"time_zone", "'-08:00'", "+00:00"},
	{"sql_mode", "'ANSI,NO_BACKSLASH_ESCAPES'", "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"},
	{"sql_safe_updates", "1", "0"},
	{"sql_auto_is_null", "1", "0"},
	{"sql_select_limit", "1", "18446744073709551615"},
	{"sql_big_selects", "0", "1"},
	{"unique_checks", "0", "1"},
	{"innodb_lock_wait_timeout", "50", "0"},
	{"max_statement_time", "3", "0"},
}

// What the store says to a new connection makes a session what it has to be in which each setting
// was another. With one of them left out this fails, whether a statement of today breaks or not
// (S02, S13).
func TestEachSettingOfASessionIsPinned(t *testing.T) {
	t.Parallel()
	root := fresh(t, testserver.NewMariaDB(t).Addr)
	db := migrated(t, root)
	execute(t, db, "SET GLOBAL log_output = 'TABLE', GLOBAL general_log = ON")
	create(t, over(t, connect(t, user(t, db, root, "plain", plainRights))), "first")
	execute(t, db, "SET GLOBAL general_log = OFF")
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	say := func(statement string) {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	said := texts(t, db, `SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE argument LIKE 'SET %' AND thread_id =
		(SELECT MIN(thread_id) FROM mysql.general_log WHERE argument LIKE 'SET %' AND user_host LIKE 'plain%') ORDER BY event_time`)
	for _, pin := range pins {
		say("SET SESSION " + pin.name + " = " + pin.otherwise)
	}
	say("SET SESSION timestamp = 1000000000")
	for _, statement := range said {
		say(statement)
	}
	for _, pin := range pins {
		var is string
		if err := conn.QueryRowContext(t.Context(), "SELECT @@SESSION."+pin.name).Scan(&is); err != nil || is != pin.want {
			t.Errorf("%s is %s and has to be %s (%v)", pin.name, is, pin.want, err)
		}
	}
	var behind int
	if err := conn.QueryRowContext(t.Context(), "SELECT ABS(TIMESTAMPDIFF(SECOND, NOW(), SYSDATE()))").Scan(&behind); err != nil || behind > 60 {
		t.Errorf("the session's clock is off by %d s (%v)", behind, err)
	}
	if len(said) == 0 {
		t.Error("nothing was said: the test does not reach what it is about")
	}
}

func texts(t testing.TB, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// A server that is changed while the store is open: its next connections are set up all the same.
// With any of these settings left as they are, something is lost, or nothing goes on.
func TestNewConnectionsAreSetUp(t *testing.T) { // S02
	t.Parallel()
	addr := testserver.NewMariaDB(t).Addr
	for name, pin := range map[string]struct{ sets, reset string }{
		"autocommit":  {"autocommit = 0", "autocommit = 1"},
		"completion":  {"completion_type = CHAIN", "completion_type = NO_CHAIN"},
		"dirty reads": {"tx_isolation = 'READ-UNCOMMITTED'", "tx_isolation = 'REPEATABLE-READ'"},
		"read only":   {"tx_read_only = 1", "tx_read_only = 0"},
		"names":       {"init_connect = 'SET character_set_client = latin1'", "init_connect = ''"},
		"clock":       {"init_connect = 'SET timestamp = 1000000000'", "init_connect = ''"},
		"big selects": {"init_connect = 'SET sql_big_selects = 0, max_join_size = 1'", "init_connect = ''"},
		"time":        {"max_statement_time = 0.000001", "max_statement_time = 0"},
	} {
		t.Run(name, func(t *testing.T) {
			root := fresh(t, addr)
			db := migrated(t, root)
			s := over(t, connect(t, user(t, db, root, "plain", plainRights)))
			check := connect(t, root+"?autocommit=1&completion_type=0&tx_read_only=0&max_statement_time=0")
			execute(t, db, "SET GLOBAL "+pin.sets)
			defer execute(t, check, "SET GLOBAL "+pin.reset)
			execute(t, check, "KILL USER plain")
			first := named("first")
			first.Scope = "Zürich"
			eventually(t, "a write on another connection", func() bool {
				_, err := s.Create(within(t, 30*time.Second), first)
				return err == nil
			})
			h, err := s.Get(t.Context(), first.ID)
			if err != nil || h.Scope != first.Scope {
				t.Errorf("%q: %v", h.Scope, err)
			}
			unseen(t, s, check, h.Head)
			if err := s.Delete(t.Context(), h.ID, h.Version); err != nil {
				t.Fatal(err)
			}
			written(t, s, check)
		})
	}
}

// A server whose new sessions have no autocommit, or read only: what is listed is of now, and no
// connection stays in a transaction. A store that is opened on such sessions is refused, with the
// setting.
func TestReadersSeeWhatIsThere(t *testing.T) { // Q05, Q18
	t.Parallel()
	addr := testserver.NewMariaDB(t).Addr
	for _, setting := range []string{"autocommit = 0", "tx_read_only = 1"} {
		t.Run(setting, func(t *testing.T) {
			root := fresh(t, addr)
			db := migrated(t, root)
			other, s := over(t, db), over(t, connect(t, user(t, db, root, "plain", plainRights)))
			execute(t, db, "SET GLOBAL "+setting)
			defer execute(t, db, "SET GLOBAL autocommit = 1, tx_read_only = 0")
			execute(t, db, "KILL USER plain") // its next connections have the setting
			eventually(t, "it goes on", func() bool {
				_, err := s.Create(within(t, 30*time.Second), named("first"))
				return err == nil
			})
			for n := range 4 {
				listed, _, err := s.List(t.Context(), stet.Query{Limit: stet.DefaultLimit})
				if err != nil || len(listed) != n+1 {
					t.Errorf("%d records are listed, %v; there are %d", len(listed), err, n+1)
				}
				create(t, other, fmt.Sprint("k", n))
			}
			open := func() []string { // those of 0 are the server's own
				return texts(t, db, "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_mysql_thread_id > 0")
			}
			tick := time.NewTicker(250 * time.Millisecond) // the table is not renewed as long as it is read more often than each 100 ms
			defer tick.Stop()
			for over := within(t, time.Minute); len(open()) > 0 && over.Err() == nil; <-tick.C { // one may be on its way
			}
			if left := open(); len(left) > 0 {
				t.Errorf("transactions stay open: %q", left)
			}
			_, err := sqlstore.Open(t.Context(), connect(t, strings.Replace(root, "root@", "plain@", 1)), sqlstore.Config{Dialect: sqlstore.MySQL})
			if name, _, _ := strings.Cut(setting, " "); err == nil || !strings.Contains(err.Error(), "set "+name) {
				t.Errorf("Open: %v", err)
			}
		})
	}
}

// unseen checks that what another transaction has not committed is not seen.
func unseen(t testing.TB, s stet.Store, db *sql.DB, h stet.Head) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), "UPDATE stet_records SET `version` = `version` + 1"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(within(t, 30*time.Second), h.ID); err != nil || got.Version != h.Version {
		t.Errorf("while another transaction writes it: version %d, %v", got.Version, err)
	}
}

// The store's own connections need nothing of what the data source name sets.
func TestLawsOnOtherSessions(t *testing.T) { // S02
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	server(t, testserver.MariaDB, "?sql_safe_updates=1&sql_auto_is_null=1&unique_checks=0&charset=latin1&time_zone=%27%2B09%3A00%27")
	storetest.Run(t, backend)
}

// A session without autocommit would lose the number of the step that was taken last.
func TestMigrateWithoutAutocommit(t *testing.T) { // S02
	dsn := fresh(t, testserver.MariaDB(t).Addr)
	migrated(t, dsn+"?autocommit=0")
	if have, want, err := sqlstore.Status(t.Context(), connect(t, dsn), sqlstore.MySQL); have != want || err != nil {
		t.Errorf("version %d of %d, %v", have, want, err)
	}
}
