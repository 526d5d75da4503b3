package mysql

import (
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A server or data source name that would break a promise is refused, with what to change.
func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	addr := testserver.NewMariaDB(t, "--log-bin", "--sync-binlog=1").Addr
	good := fresh(t, addr)
	db := migrated(t, good)
	over(t, db)
	for name, tt := range map[string]struct {
		dsn, set, reset string // statements
		conns           int
		want            string
	}{
		"found rows are counted": {dsn: good + "?clientFoundRows=true", want: "clientFoundRows"},
		"no strict mode":         {dsn: good + "?sql_mode=%27%27", want: "sql_mode"},
		"a small pool":           {dsn: good, conns: 1, want: "SetMaxOpenConns"},
		"no sync on commit": {dsn: good, set: "SET GLOBAL innodb_flush_log_at_trx_commit = 2", reset: "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
			want: "innodb_flush_log_at_trx_commit"},
		"no sync of the binary log": {dsn: good, set: "SET GLOBAL sync_binlog = 0", reset: "SET GLOBAL sync_binlog = 1", want: "sync_binlog"},
		"small packets": {dsn: good, set: "SET GLOBAL max_allowed_packet = 1048576", reset: "SET GLOBAL max_allowed_packet = 16777216",
			want: "max_allowed_packet"},
		"a replica": {dsn: good, set: "SET GLOBAL read_only = 1", reset: "SET GLOBAL read_only = 0", want: "read_only"},
		"another engine": {dsn: good, set: "ALTER TABLE stet_records ENGINE = Aria", reset: "ALTER TABLE stet_records ENGINE = InnoDB",
			want: "InnoDB"},
		"no schema": {dsn: fresh(t, addr), want: "stet migrate up"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.set != "" {
				execute(t, db, tt.set)
				defer execute(t, db, tt.reset)
			}
			other := connect(t, tt.dsn)
			other.SetMaxOpenConns(tt.conns)
			s, err := sqlstore.Open(t.Context(), other, sqlstore.Config{Dialect: sqlstore.MySQL})
			if err == nil {
				_ = s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v", err)
			}
			if n := other.Stats().InUse; n != 0 {
				t.Errorf("%d connections are held", n)
			}
		})
	}
}

// A server that is too old is refused: MariaDB before 10.6 and MySQL before 8.0.16.
func TestOldServers(t *testing.T) {
	for _, version := range []string{"10.5.29-MariaDB", "8.0.12", "5.7.44-log"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			db := migrated(t, fresh(t, testserver.NewMariaDB(t, "--version="+version).Addr))
			if _, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.MySQL}); err == nil || !strings.Contains(err.Error(), version) {
				t.Errorf("got %v", err)
			}
		})
	}
}
