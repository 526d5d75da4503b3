package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/badnet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/pgxstore"
)

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func create(t testing.TB, s stet.Store, key string) stet.Record {
	t.Helper()
	r, err := s.Create(within(t, 30*time.Second), running(key))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eventually waits for something that has to come.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.NewTimer(time.Minute)
	defer end.Stop()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-end.C:
			t.Fatalf("still no %s", what)
		}
	}
}

// behind opens a store through a bad network. It does not listen: that would be one more
// connection.
func behind(t *testing.T) (pooled, *badnet.Proxy) {
	direct := database(t, address(t), t.Name())
	opened(t, direct, pgxstore.Config{})
	proxy := badnet.New(t, address(t))
	return opened(t, strings.Replace(direct, address(t), proxy.Addr(), 1), pgxstore.Config{ListenDSN: direct}), proxy
}

// A write whose answer is lost has happened, and its writer recognises it when it sends it again
// (I1, W2, W34).
func TestAnswersLost(t *testing.T) {
	s, proxy := behind(t)
	r := running("the-key-of-a-lost-create")
	lost := proxy.LoseAnswer(string(r.Key))
	if _, err := s.Create(within(t, 30*time.Second), r); err == nil || errors.Is(err, stet.ErrExists) {
		t.Fatalf("a Create without an answer is answered with %v", err)
	}
	<-lost
	made, err := s.Create(within(t, 30*time.Second), r)
	if !errors.Is(err, stet.ErrExists) || made.Version != r.Version {
		t.Fatalf("sent again: %v, version %d of %d", err, made.Version, r.Version)
	}
	h, b := completed(made.Head)
	lost = proxy.LoseAnswer(string(r.Key))
	if _, err := s.Replace(within(t, 30*time.Second), made.Version, h, b); err == nil || errors.Is(err, stet.ErrStale) {
		t.Fatalf("a Replace without an answer is answered with %v", err)
	}
	<-lost
	if shown, err := s.Replace(within(t, 30*time.Second), made.Version, h, b); !errors.Is(err, stet.ErrStale) || shown.Version != h.Version {
		t.Fatalf("sent again: %v, version %d of %d", err, shown.Version, h.Version)
	}
	for _, err := range []error{func() error { _, err := s.Get(within(t, 30*time.Second), made.ID); return err }()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// The answer to a whole group is lost: none of its callers has a verdict, and each recognises its
// write.
func TestAnswerToAGroupLost(t *testing.T) {
	s, proxy := behind(t)
	const callers = 48
	create(t, s, "warm")
	proxy.Delay(20 * time.Millisecond) // so that the others gather behind the first two
	records := make([]stet.Record, callers)
	lost := proxy.LoseAnswer("lost-with-its-group")
	var wg sync.WaitGroup
	var unanswered atomic.Int64
	for i := range records {
		records[i] = running(fmt.Sprintf("%03d", i))
		if i == callers-1 {
			records[i] = running("lost-with-its-group")
		}
		wg.Go(func() {
			if _, err := s.Create(within(t, 30*time.Second), records[i]); errors.Is(err, stet.ErrExists) {
				t.Errorf("record %d: %v", i, err)
			} else if err != nil {
				unanswered.Add(1)
			}
		})
	}
	wg.Wait()
	<-lost
	proxy.Delay(0)
	if n := unanswered.Load(); n < 1 || n > callers-2 {
		t.Errorf("%d have no answer", n)
	}
	for i, r := range records {
		if got, err := s.Create(within(t, 30*time.Second), r); err != nil && (!errors.Is(err, stet.ErrExists) || got.Version != r.Version) {
			t.Errorf("record %d, sent again: %v", i, err)
		}
	}
}

// A network that goes silent, is cut and refuses: calls end by their deadlines, and the store goes
// on afterwards.
func TestNetworkGone(t *testing.T) {
	s, proxy := behind(t)
	made := create(t, s, "k")
	proxy.Deafen(true)
	began := time.Now()
	if _, err := s.Get(within(t, 200*time.Millisecond), made.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent network: %v", err)
	}
	tier.Took(t, "a call of 200 ms", time.Since(began), 2*time.Second)
	proxy.Deafen(false)
	proxy.Refuse(true)
	proxy.Cut()
	if _, err := s.Get(within(t, 2*time.Second), made.ID); err == nil {
		t.Error("a network that refuses, and an answer")
	}
	proxy.Refuse(false)
	eventually(t, "answer", func() bool { _, err := s.Get(within(t, time.Second), made.ID); return err == nil })
}

// The server is killed while many write, and comes back: what was acknowledged is there, nothing is
// there by half, and the store goes on without being opened again (I5, W28).
func TestServerKilledMidGroup(t *testing.T) {
	server := testserver.NewPostgres(t)
	s := opened(t, dsn(server.Addr, "postgres"), pgxstore.Config{})
	var acknowledged sync.Map // numbers
	var n, failed atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				i := n.Add(1)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				made, err := s.Create(ctx, running(fmt.Sprint(i)))
				if err == nil {
					h, b := completed(made.Head)
					if _, err = s.Replace(ctx, made.Version, h, b); err == nil {
						acknowledged.Store(i, true)
					}
				}
				cancel()
				if err != nil {
					failed.Add(1)
					pause := time.NewTimer(5 * time.Millisecond)
					<-pause.C
				}
			}
		})
	}
	at := n.Load()
	eventually(t, "writes", func() bool { return n.Load() > at+200 })
	server.Kill(t)
	eventually(t, "failures", func() bool { return failed.Load() > 0 })
	server.Start(t)
	at, f := n.Load(), failed.Load()
	eventually(t, "writes after the start", func() bool { return n.Load()-failed.Load() > at-f+200 })
	close(stop)
	wg.Wait()
	for i := int64(1); i <= n.Load(); i++ {
		got, err := s.Get(within(t, 30*time.Second), running(fmt.Sprint(i)).ID)
		if _, ok := acknowledged.Load(i); ok && (err != nil || got.State != stet.Completed) {
			t.Errorf("record %d was acknowledged, and is %v (%v)", i, got.State, err)
		}
		if err != nil && !errors.Is(err, stet.ErrNotFound) || err == nil && (got.State == stet.Completed) != (got.Response != nil) {
			t.Errorf("record %d is there by half: %v (%v)", i, got.State, err)
		}
	}
}

// A server that stands still: every call ends by its own deadline, also those in one group, and
// when the server goes on, so does the store.
func TestServerStandsStill(t *testing.T) {
	server := testserver.NewPostgres(t)
	s := opened(t, dsn(server.Addr, "postgres"), pgxstore.Config{})
	create(t, s, "before")
	server.Pause(t)
	var wg sync.WaitGroup
	records := make([]stet.Record, 40)
	for i := range records {
		records[i] = running(fmt.Sprint(i))
		wg.Go(func() {
			began, allowed := time.Now(), 200*time.Millisecond+time.Duration(i)*10*time.Millisecond
			_, err := s.Create(within(t, allowed), records[i])
			if err == nil {
				t.Errorf("call %d has an answer", i)
			}
			tier.Took(t, fmt.Sprint("call ", i), time.Since(began), allowed+time.Second)
		})
	}
	wg.Wait()
	server.Resume(t)
	for i, r := range records {
		if got, err := s.Create(within(t, 30*time.Second), r); err != nil && (!errors.Is(err, stet.ErrExists) || got.Version != r.Version) {
			t.Errorf("record %d, sent again: %v", i, err)
		}
	}
}

// A pool without a free connection: calls end by their deadlines, nothing happened, and the next
// one goes on.
func TestPoolExhausted(t *testing.T) {
	s := opened(t, with(t, database(t, address(t), t.Name()), "pool_max_conns", "2"), pgxstore.Config{})
	var held []*pgxpool.Conn
	for range 2 {
		c, err := s.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	r := running("k")
	if _, err := s.Create(within(t, 100*time.Millisecond), r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an exhausted pool: %v", err)
	}
	for _, c := range held {
		c.Release()
	}
	if _, err := s.Create(within(t, 30*time.Second), r); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// The server's disk is full: nothing was stored, and the error says so. The trigger answers as the
// server would.
func TestDiskFull(t *testing.T) {
	s := opened(t, database(t, address(t), t.Name()), pgxstore.Config{})
	for _, q := range []string{"CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$",
		"CREATE TRIGGER full_disk BEFORE INSERT ON stet_records FOR EACH ROW EXECUTE FUNCTION full_disk()"} {
		if _, err := s.pool.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 20 { // alone, and in groups
		wg.Go(func() {
			if _, err := s.Create(within(t, 30*time.Second), running(fmt.Sprint(i))); !errors.Is(err, stet.ErrFull) {
				t.Errorf("Create: %v", err)
			}
		})
	}
	wg.Wait()
	if _, err := s.pool.Exec(t.Context(), "DROP TRIGGER full_disk ON stet_records"); err != nil {
		t.Fatal(err)
	}
	create(t, s, "0")
}

// Where no connection of the pool comes free in time, nothing was sent, and the caller is told that
// it may come again.
func TestNoConnectionFree(t *testing.T) {
	s := opened(t, with(t, database(t, address(t), t.Name()), "pool_max_conns", "1"), pgxstore.Config{})
	create(t, s, "before")
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(within(t, 50*time.Millisecond), running("k")); !errors.Is(err, stet.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a connection: %v", err)
	}
	conn.Release()
	create(t, s, "k")
}
