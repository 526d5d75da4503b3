package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A store with few connections, by a limit of the server's or of the pool, has its calls wait for
// each other. None fails under a load that these connections can bear, and lists go on (S17).
func TestFewConnections(t *testing.T) {
	t.Parallel()
	server := testserver.NewMariaDB(t)
	for name, c := range map[string]struct{ server, pool int }{"of the user": {6, 0}, "of the pool": {0, 6}, "of both": {4, 4}} {
		t.Run(name, func(t *testing.T) {
			root := fresh(t, server.Addr)
			admin := migrated(t, root)
			dsn := user(t, admin, root, "few", plainRights)
			if c.server > 0 {
				execute(t, admin, fmt.Sprintf("ALTER USER few WITH MAX_USER_CONNECTIONS %d", c.server))
			}
			db := connect(t, dsn)
			db.SetMaxOpenConns(c.pool)
			s, err := breakerstore.New(over(t, db), breakerstore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			var done, other atomic.Int64
			for i := range 200 {
				all.Go(func() {
					ctx := within(t, time.Minute)
					r, err := s.Create(ctx, named(fmt.Sprint("k-", i)))
					if err == nil {
						h, body := completed(r, "answer")
						_, err = s.Replace(ctx, r.Version, h, body)
					}
					if err == nil {
						_, err = s.Get(ctx, r.ID)
					}
					if err == nil {
						l, _ := stet.As[stet.Lister](s)
						_, _, err = l.List(ctx, stet.Query{Limit: 3})
					}
					if done.Add(1); err != nil && other.Add(1) <= 3 {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if n := other.Load(); n > 0 || s.State() != breakerstore.Closed {
				t.Errorf("%d of %d failed; the breaker is %v", n, done.Load(), s.State())
			}
		})
	}
}

// Calls that have had no connection by their deadline, while others had, are ErrBusy: nothing was
// stored, and the breaker stays closed. Where no call has an answer, the store is not busy but
// away.
func TestBusyIsNotAway(t *testing.T) { // S17
	t.Parallel()
	server := testserver.NewMariaDB(t)
	root := fresh(t, server.Addr)
	admin := migrated(t, root)
	db := connect(t, root)
	db.SetMaxOpenConns(2)
	s := over(t, db)
	made := create(t, s, "first")
	tx, err := admin.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLES stet_records WRITE"); err != nil {
		t.Fatal(err)
	}
	held := make(chan error, 1)
	waiting, giveUp := context.WithTimeout(t.Context(), time.Minute)
	defer giveUp()
	go func() { _, err := s.Get(waiting, made.ID); held <- err }()
	eventually(t, "a call that has the connection", func() bool {
		var waits int
		err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'").Scan(&waits)
		return err == nil && waits > 0
	})
	if _, err := s.Create(within(t, 100*time.Millisecond), named("second")); err == nil || errors.Is(err, stet.ErrBusy) {
		t.Errorf("while no call has an answer: %v", err)
	}
	giveUp()
	<-held
	if _, err := tx.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	stop, busy := make(chan struct{}), error(nil)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for ctx := context.WithoutCancel(t.Context()); ; {
				select {
				case <-stop:
					return
				default:
					_, _ = s.Get(ctx, made.ID)
				}
			}
		})
	}
	n := 0
	eventually(t, "a call without a connection", func() bool {
		n++
		r := named(fmt.Sprint("busy-", n))
		_, busy = s.Create(within(t, 2*time.Millisecond), r)
		return errors.Is(busy, stet.ErrBusy)
	})
	close(stop)
	all.Wait()
	if _, err := s.Get(t.Context(), named(fmt.Sprint("busy-", n)).ID); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("a busy store has stored it: %v", err)
	}
	quiet(t, busy, "busy-")
}

// A server without a connection for the first call of all is busy as well, and says what to raise.
func TestNoConnectionAtAll(t *testing.T) { // S17
	t.Parallel()
	root := fresh(t, testserver.NewMariaDB(t).Addr)
	admin := migrated(t, root)
	dsn := user(t, admin, root, "few", plainRights)
	execute(t, admin, "ALTER USER few WITH MAX_USER_CONNECTIONS 1")
	other, err := connect(t, dsn).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = sqlstore.Open(t.Context(), connect(t, dsn), sqlstore.Config{Dialect: sqlstore.MySQL})
	if !errors.Is(err, stet.ErrBusy) || !strings.Contains(err.Error(), "onnections") {
		t.Errorf("Open: %v", err)
	}
	execute(t, admin, "ALTER USER few WITH MAX_USER_CONNECTIONS 10")
	s := over(t, connect(t, dsn))
	create(t, s, "before")
	execute(t, admin, "KILL USER few")
	execute(t, admin, "ALTER USER few WITH MAX_USER_CONNECTIONS 1")
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	only := connect(t, dsn)
	eventually(t, "the one connection", func() bool { other, err = only.Conn(t.Context()); return err == nil })
	eventually(t, "a write that says that it had no connection", func() bool {
		_, err = s.Create(within(t, 300*time.Millisecond), named("after"))
		return errors.Is(err, stet.ErrBusy) && strings.Contains(err.Error(), "MAX_USER_CONNECTIONS")
	})
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}
