package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/pgxstore"
)

// unconfirmed is for [storetest.Backend].Unconfirmed: the commits of one database wait for a
// standby that is away, until an administrator ends the wait, which leaves them on this server
// alone.
func unconfirmed(t testing.TB, s stet.Store) (restore func()) {
	p := s.(pooled).pool
	conn := unwaiting(t, p.Config().ConnConfig)
	wait := func(how string) {
		t.Helper()
		name := pgx.Identifier{conn.Config().Database}.Sanitize()
		if _, err := conn.Exec(context.Background(), "ALTER DATABASE "+name+" SET synchronous_commit = "+how); err != nil {
			t.Fatal(err)
		}
		p.Reset()
	}
	wait("on")
	stop := endWaits(t, p.Config().ConnConfig)
	return func() {
		stop()
		wait("local")
		_ = conn.Close(context.Background())
	}
}

// unwaiting connects for what does not wait for a standby.
func unwaiting(t testing.TB, c *pgx.ConnConfig) *pgx.Conn {
	t.Helper()
	c = c.Copy()
	c.RuntimeParams["synchronous_commit"] = "local"
	conn, err := pgx.ConnectConfig(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// endWaits ends, until it is stopped, what waits for a standby in a database: by turns the wait and
// the session.
func endWaits(t testing.TB, c *pgx.ConnConfig) (stop func()) {
	t.Helper()
	conn := unwaiting(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { _ = conn.Close(context.Background()) }()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for how := 0; ctx.Err() == nil; how++ {
			_, err := conn.Exec(context.Background(), "SELECT "+[]string{"pg_cancel_backend", "pg_terminate_backend"}[how%2]+
				"(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()")
			if err != nil {
				t.Error(err)
				return
			}
			<-tick.C
		}
	})
	return func() { cancel(); wg.Wait() }
}

// A commit whose wait for its standby was cancelled, or ended with its session, is on the primary
// alone. No key is granted by it, also not by the engine's next try, which finds it there: after
// the primary is gone and the standby is promoted, no key that was granted is granted again (S01).
func TestPromotedStandby(t *testing.T) {
	primary := testserver.NewPostgres(t, "synchronous_commit=on")
	standby := primary.Standby(t, "standby")
	at := dsn(primary.Addr, "postgres")
	s := opened(t, at, pgxstore.Config{})
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = standby", "SELECT pg_reload_conf()"} {
		if _, err := s.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "synchronous standby", func() bool {
		var n int
		err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").Scan(&n)
		return err == nil && n == 1
	})
	patient, err := stet.New(s, stet.Config{StoreTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := stet.New(s, stet.Config{StoreTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var granted sync.Map
	begin := func(e *stet.Engine, n int) {
		id := stet.ID{Scope: "tenant", Key: stet.Key(fmt.Sprint("key-", n))}
		if d, err := e.Begin(t.Context(), stet.Request{ID: id}); err == nil && d.Verdict == stet.Execute {
			if _, before := granted.Swap(id, true); before {
				t.Errorf("%s was granted again", id.Key)
			}
		}
	}
	for n := range 5 { // the standby confirms these, however busy the machine is
		begin(patient, n)
	}
	standby.Pause(t)
	stop := endWaits(t, s.pool.Config().ConnConfig)
	var wg sync.WaitGroup
	for n := range 40 {
		wg.Go(func() { begin(engine, n) })
	}
	wg.Wait()
	confirmed := 0
	granted.Range(func(any, any) bool { confirmed++; return true })
	if confirmed != 5 {
		t.Errorf("%d keys are granted, 5 of them could be confirmed", confirmed)
	}
	stop()
	primary.Kill(t)
	standby.Resume(t)
	admin := promote(t, standby)
	if _, err := admin.Exec(t.Context(), "ALTER SYSTEM RESET synchronous_standby_names"); err != nil {
		t.Fatal(err)
	}
	promoted := opened(t, dsn(standby.Addr, "postgres"), pgxstore.Config{})
	next, err := stet.New(promoted, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		begin(next, n)
	}
	if err := next.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// promote makes a standby a primary.
func promote(t *testing.T, standby *testserver.Server) *pgx.Conn {
	t.Helper()
	admin := connected(t, dsn(standby.Addr, "postgres"))
	eventually(t, "promotion", func() bool { // a statement may be in the way of recovery, and is ended then
		var stands bool
		_, _ = admin.Exec(t.Context(), "SELECT pg_promote(false)")
		err := admin.QueryRow(t.Context(), "SELECT pg_is_in_recovery()").Scan(&stands)
		return err == nil && !stands
	})
	return admin
}

// A Delete that is not confirmed is no yes either, also when it finds the record gone (S01).
func TestUnconfirmedDelete(t *testing.T) {
	s := opened(t, database(t, address(t), t.Name()), pgxstore.Config{})
	made := create(t, s, "k")
	restore := unconfirmed(t, s)
	for range 3 {
		if err := s.Delete(within(t, 5*time.Second), made.ID, made.Version); err == nil || errors.Is(err, stet.ErrNotFound) {
			t.Errorf("a Delete on one server alone: %v", err)
		}
	}
	restore()
	if err := s.Delete(t.Context(), made.ID, made.Version); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("confirmed again: %v", err)
	}
}

// A transaction that a handler commits is told as well.
func TestCommitOfACallersTransaction(t *testing.T) { // S01
	s := opened(t, database(t, address(t), t.Name()), pgxstore.Config{})
	restore := unconfirmed(t, s)
	defer restore()
	begin := pgxstore.Begin(s.pool, pgx.TxOptions{})
	cancelled := 0
	for n := range 20 { // the session that waits is ended as well, by turns
		tx, err := begin(t.Context())
		if err != nil {
			continue
		}
		_, err = tx.Tx().(pgx.Tx).Exec(t.Context(), fmt.Sprintf("CREATE TABLE made_%d ()", n))
		if err != nil {
			t.Fatal(err)
		}
		switch err := tx.Commit(t.Context()); {
		case err == nil:
			t.Error("a commit on one server alone is told as done")
		case errors.Is(err, stet.ErrUnconfirmed):
			cancelled++
		case strings.Contains(err.Error(), "made_"):
			t.Error(err)
		}
		if err := tx.Rollback(t.Context()); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("Rollback after Commit: %v", err)
		}
	}
	if cancelled == 0 {
		t.Error("no wait was cancelled")
	}
}
