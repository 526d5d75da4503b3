package postgres

import (
	"context"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/storetest"
)

// poolerEnv tells a child process where its parent's pooler is.
const poolerEnv = "STET_PGBOUNCER_ADDR"

// pooler is where a pooler in transaction mode is that lasts as long as the test.
func pooler(t *testing.T) string {
	t.Helper()
	if addr := os.Getenv(poolerEnv); addr != "" {
		return addr
	}
	_ = address(t)
	addr := testserver.PgBouncer(t, testserver.Postgres(t), "transaction").Addr
	t.Setenv(poolerEnv, addr)
	return addr
}

// through returns the DSN of the same database through the pooler at addr.
func through(t testing.TB, addr, direct, mode string) string {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = addr
	return with(t, u.String(), "default_query_exec_mode", mode)
}

// Behind a pooler in transaction mode every statement may be on another connection. pgx's own
// choice of mode fails there, because its statements are prepared on one.
func TestLawsPoolerDescribe(t *testing.T) { lawsThroughPooler(t, "cache_describe") }

func TestLawsPoolerExec(t *testing.T) { lawsThroughPooler(t, "exec") }

func TestLawsPoolerSimple(t *testing.T) { lawsThroughPooler(t, "simple_protocol") }

func lawsThroughPooler(t *testing.T, mode string) {
	if os.Getenv(poolerEnv) == "" { // the process that a law starts
		tier.Campaign(t, "the laws run without a pooler in the gate")
	}
	addr := pooler(t)
	b := overPgx(mode)
	b.Unconfirmed = nil // sessions of the pooler keep what they began with
	b.Open = func(t testing.TB, dir string, _ func() time.Time) stet.Store {
		direct := database(t, address(t), dir+mode)
		return open(t, through(t, addr, direct, mode), pgxstore.Config{ListenDSN: direct})
	}
	storetest.Run(t, b)
}

// No connection can listen through a pooler; the store notices, and those who wait look for
// themselves.
func TestWaitThroughPooler(t *testing.T) {
	s := opened(t, through(t, pooler(t), database(t, address(t), t.Name()), "exec"), pgxstore.Config{})
	woken(t, s, s)
}

// woken waits through one store for what another changes.
func woken(t *testing.T, waits stet.Waiter, changes stet.Store) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	made, err := changes.Create(ctx, running(t.Name()+time.Now().String()))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- waits.Wait(ctx, made.ID, made.Version) }()
	pause := time.NewTimer(60 * time.Millisecond) // it is waiting by then, or finds at once that there is nothing to wait for
	<-pause.C
	began := time.Now()
	h, b := completed(made.Head)
	if _, err := changes.Replace(ctx, made.Version, h, b); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}
