package mysql

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
)

// semiSync is a primary that waits for its replica, as the store wants it, and the replica.
func semiSync(t *testing.T) (primary, replica *testserver.Server) {
	t.Helper()
	primary = testserver.NewMariaDB(t, "--server-id=1", "--log-bin=log", "--sync-binlog=1", "--rpl-semi-sync-master-enabled",
		"--rpl-semi-sync-master-wait-point=AFTER_SYNC", "--rpl-semi-sync-master-timeout=3600000")
	replica = testserver.NewMariaDB(t, "--server-id=2", "--log-bin=log", "--sync-binlog=1", "--log-slave-updates", "--rpl-semi-sync-slave-enabled")
	host, port, err := net.SplitHostPort(primary.Addr)
	if err != nil {
		t.Fatal(err)
	}
	on := connect(t, replica.MariaDBDSN(""))
	execute(t, on, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos, "+
		"MASTER_CONNECT_RETRY = 1", host, port))
	execute(t, on, "START SLAVE")
	return primary, replica
}

// A write that no replica has is no yes, however often it is sent, and is seen by no other; with
// the replica back it is. After the primary's end the replica has all that was acknowledged, and a
// key that was not is new there, once (S01).
func TestSemiSynchronousReplication(t *testing.T) {
	t.Parallel()
	primary, replica := semiSync(t)
	dsn := fresh(t, primary.Addr)
	s := over(t, migrated(t, dsn))
	on := connect(t, replica.MariaDBDSN(""))
	checker, _ := stet.As[stet.Checker](s)
	if err := checker.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	kept, calm := create(t, s, "kept"), create(t, s, "calm")
	execute(t, on, "STOP SLAVE IO_THREAD")
	freshly := named("fresh")
	next, body := completed(kept, "answer")
	for try := range 3 {
		got, err := s.Create(within(t, 500*time.Millisecond), freshly)
		if err == nil || errors.Is(err, stet.ErrExists) && got.Version == freshly.Version {
			t.Errorf("Create, try %d, is a yes: %v", try, err)
		}
		head, err := s.Replace(within(t, 500*time.Millisecond), kept.Version, next, body)
		if err == nil || errors.Is(err, stet.ErrStale) && head.Version == next.Version {
			t.Errorf("Replace, try %d, is a yes: %v", try, err)
		}
	}
	if got, err := s.Create(within(t, 30*time.Second), named("calm")); !errors.Is(err, stet.ErrExists) || got.Version != calm.Version {
		t.Errorf("a duplicate of what was confirmed before: %v", err)
	}
	execute(t, on, "START SLAVE IO_THREAD")
	eventually(t, "a yes with the replica back", func() bool {
		got, err := s.Create(within(t, time.Second), freshly)
		head, rerr := s.Replace(within(t, time.Second), kept.Version, next, body)
		return (err == nil || errors.Is(err, stet.ErrExists) && got.Version == freshly.Version) &&
			(rerr == nil || errors.Is(rerr, stet.ErrStale) && head.Version == next.Version)
	})
	execute(t, on, "STOP SLAVE IO_THREAD")
	if _, err := s.Create(within(t, 500*time.Millisecond), named("lost")); err == nil {
		t.Error("a write that no replica has is a yes")
	}
	there := connect(t, strings.Replace(dsn, primary.Addr, replica.Addr, 1))
	eventually(t, "the replica carries out what it has acknowledged", func() bool {
		var n int
		err := there.QueryRowContext(t.Context(), fmt.Sprintf("SELECT COUNT(*) FROM stet_records WHERE `version` IN (%d, %d)", freshly.Version, next.Version)).Scan(&n)
		return err == nil && n == 2
	})
	primary.Kill(t)
	execute(t, on, "STOP SLAVE")
	execute(t, on, "RESET SLAVE ALL")
	promoted := over(t, there)
	for key, version := range map[string]stet.Version{"fresh": freshly.Version, "kept": next.Version, "calm": calm.Version} {
		if got, err := promoted.Get(t.Context(), named(key).ID); err != nil || got.Version != version {
			t.Errorf("%s was acknowledged, and is version %d there, %v", key, got.Version, err)
		}
	}
	create(t, promoted, "lost")
}

// Where a server may acknowledge alone, or show a write before a replica has it, Check says so
// (S01).
func TestSemiSynchronousSettingsAreChecked(t *testing.T) {
	t.Parallel()
	primary, replica := semiSync(t)
	db := migrated(t, fresh(t, primary.Addr))
	s := over(t, db)
	checker, _ := stet.As[stet.Checker](s)
	for name, c := range map[string]struct{ set, reset, tells string }{
		"a short wait": {"rpl_semi_sync_master_timeout = 10000", "rpl_semi_sync_master_timeout = 3600000", "rpl_semi_sync_master_timeout is 10000"},
		"after commit": {"rpl_semi_sync_master_wait_point = AFTER_COMMIT", "rpl_semi_sync_master_wait_point = AFTER_SYNC", "has to be AFTER_SYNC"},
	} {
		execute(t, db, "SET GLOBAL "+c.set)
		if err := checker.Check(t.Context()); !errors.Is(err, stet.ErrVolatile) || !strings.Contains(err.Error(), c.tells) {
			t.Errorf("%s: %v", name, err)
		}
		execute(t, db, "SET GLOBAL "+c.reset)
		if err := checker.Check(t.Context()); err != nil {
			t.Errorf("%s, afterwards: %v", name, err)
		}
	}
	execute(t, db, "SET GLOBAL rpl_semi_sync_master_timeout = 200")
	execute(t, connect(t, replica.MariaDBDSN("")), "STOP SLAVE IO_THREAD")
	create(t, s, "alone")
	execute(t, db, "SET GLOBAL rpl_semi_sync_master_timeout = 3600000")
	if err := checker.Check(t.Context()); !errors.Is(err, stet.ErrVolatile) || !strings.Contains(err.Error(), "without a replica") {
		t.Errorf("a server that goes on alone: %v", err)
	}
}

// A write that waits for the replica and is killed is there, and is acknowledged: Check says that
// there are such.
func TestKilledWaitsAreSaid(t *testing.T) { // S01
	t.Parallel()
	primary, replica := semiSync(t)
	db := migrated(t, fresh(t, primary.Addr))
	s := over(t, db)
	checker, _ := stet.As[stet.Checker](s)
	create(t, s, "first")
	execute(t, connect(t, replica.MariaDBDSN("")), "STOP SLAVE IO_THREAD")
	done := make(chan struct{})
	go func() { _, _ = s.Create(within(t, time.Minute), named("waits")); close(done) }()
	eventually(t, "an end of the wait", func() bool {
		var id int
		if db.QueryRow("SELECT id FROM information_schema.processlist WHERE state LIKE '%semi-sync%'").Scan(&id) == nil {
			_, _ = db.Exec(fmt.Sprintf("KILL QUERY %d", id))
		}
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if err := checker.Check(t.Context()); !errors.Is(err, stet.ErrVolatile) || !strings.Contains(err.Error(), "rpl_semi_sync_master_no_tx") {
		t.Errorf("Check: %v", err)
	}
	if err := checker.Check(t.Context()); err != nil {
		t.Errorf("Check, once it was said: %v", err)
	}
}
