package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/badnet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/redisstore"
)

// adapter is a client, for one server and for a cluster.
type adapter struct {
	name      string
	single    func(t testing.TB, addr string) redisstore.Client
	clustered func(t testing.TB, addrs []string) redisstore.Client
}

var adapters = []adapter{
	{"go-redis", single, clustered},
	{"rueidis", func(t testing.TB, addr string) redisstore.Client { t.Helper(); return dialRueidis(t, addr) },
		func(t testing.TB, addrs []string) redisstore.Client { t.Helper(); return dialRueidis(t, addrs...) }},
}

func (a adapter) one(t testing.TB, addrs ...string) redisstore.Client {
	t.Helper()
	return a.single(t, addrs[0])
}

func (a adapter) many(t testing.TB, addrs ...string) redisstore.Client {
	t.Helper()
	return a.clustered(t, addrs)
}

// A master is killed while many write and have each write confirmed by a replica: what was
// acknowledged is there, the others are errors, and with the node back the store goes on without
// being opened again (I5, W11).
func TestMasterKilled(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			c := testserver.NewRedisCluster(t)
			s := open(t, a.clustered(t, c.Addrs()), redisstore.Config{Wait: 1, WaitTimeout: 500 * time.Millisecond})
			w := &writers{store: s}
			w.start(t)
			w.more(t)
			c.Nodes[0].Kill(t)
			eventually(t, "failures", func() bool { return w.failed.Load() > 0 })
			// A master without persistence that comes back before it is replaced is empty, and
			// empties its replica.
			eventually(t, "another master", func() bool { return isMaster(t, c.Nodes[3].Addr) })
			c.Nodes[0].Start(t)
			eventually(t, "a write to every shard", func() bool { return everywhere(t, s) })
			w.failed.Store(0)
			w.more(t)
			w.stop()
			w.check(t)
		})
	}
}

func isMaster(t testing.TB, addr string) bool {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr})
	defer c.Close()
	info, err := c.Info(t.Context(), "replication").Result()
	return err == nil && strings.Contains(info, "role:master")
}

// everywhere tries a write in so many places that no node is left out.
func everywhere(t *testing.T, s stet.Store) bool {
	t.Helper()
	for i := range 3 * 64 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := s.Create(ctx, sample(fmt.Sprintf("everywhere-%d-%d", i, draw())))
		cancel()
		if err != nil {
			return false
		}
	}
	return true
}

// The server is killed while many write, and comes back from its log, knowing no scripts: what was
// acknowledged is there (I5).
func TestServerKilled(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			server := testserver.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
			w := &writers{store: open(t, a.single(t, server.Addr), redisstore.Config{})}
			w.start(t)
			for range 2 {
				w.more(t)
				server.Kill(t)
				eventually(t, "failures", func() bool { return w.failed.Load() > 0 })
				server.Start(t)
				w.failed.Store(0)
			}
			w.more(t)
			w.stop()
			w.check(t)
		})
	}
}

// writers create and complete records, and remember which of them were acknowledged.
type writers struct {
	store        stet.Store
	acknowledged sync.Map // of versions by number
	done, failed atomic.Int64
	n            atomic.Int64
	ending       chan struct{}
	running      sync.WaitGroup
}

func (w *writers) start(t *testing.T) {
	w.ending = make(chan struct{})
	for range 16 {
		w.running.Go(func() {
			for {
				select {
				case <-w.ending:
					return
				default:
				}
				w.one(t, w.n.Add(1))
			}
		})
	}
}

func (w *writers) one(t *testing.T, i int64) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r, err := w.store.Create(ctx, sample(fmt.Sprint(i)))
	if err == nil {
		h, body := completed(r, fmt.Sprint(i))
		if h, err = w.store.Replace(ctx, r.Version, h, body); err == nil {
			w.acknowledged.Store(i, h.Version)
			w.done.Add(1)
			return
		}
	}
	w.failed.Add(1)
	if errors.Is(err, stet.ErrExists) || errors.Is(err, stet.ErrNotFound) {
		t.Errorf("record %d: %v: nobody else writes it, and nobody loses it", i, err)
	}
	<-time.After(5 * time.Millisecond) // what is down is not asked without a pause
}

// more waits for many more writes.
func (w *writers) more(t *testing.T) {
	t.Helper()
	at := w.done.Load()
	eventually(t, "writes", func() bool { return w.done.Load() > at+200 })
}

func (w *writers) stop() {
	close(w.ending)
	w.running.Wait()
}

func (w *writers) check(t *testing.T) {
	t.Helper()
	w.acknowledged.Range(func(i, version any) bool {
		got, err := w.store.Get(t.Context(), sample(fmt.Sprint(i)).ID)
		if err != nil || got.Version != version || got.State != stet.Completed || string(got.Response.Body) != fmt.Sprint(i) {
			t.Errorf("record %d was acknowledged, and is %v (%v)", i, got.State, err)
		}
		return true
	})
	t.Logf("%d of %d were acknowledged", w.done.Load(), w.n.Load())
}

// The answer to a write is lost: sent again, the same write meets its own version, which says that
// it happened (I3, W34).
func TestAnswerLost(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			p := badnet.New(t, testserver.Redis(t).Addr)
			s := open(t, a.single(t, p.Addr()), redisstore.Config{Prefix: "lost-" + a.name})
			warm := sample("warm")
			made, err := s.Create(t.Context(), warm) // the server knows the scripts
			if err != nil {
				t.Fatal(err)
			}
			h, body := completed(made, "warm")
			if _, err := s.Replace(t.Context(), made.Version, h, body); err != nil {
				t.Fatal(err)
			}

			r := sample("precious")
			lost := p.LoseAnswer("precious")
			if _, err := s.Create(within(t, patience), r); err == nil || errors.Is(err, stet.ErrExists) || errors.Is(err, stet.ErrFull) {
				t.Fatalf("Create whose answer was lost: %v", err)
			}
			<-lost
			made, err = s.Create(within(t, patience), r)
			if !errors.Is(err, stet.ErrExists) || made.Version != r.Version {
				t.Fatalf("the same Create again: %v, version is ours: %v", err, made.Version == r.Version)
			}

			h, body = completed(made, "result")
			lost = p.LoseAnswer("precious")
			if _, err := s.Replace(within(t, patience), made.Version, h, body); err == nil || errors.Is(err, stet.ErrStale) {
				t.Fatalf("Replace whose answer was lost: %v", err)
			}
			<-lost
			have, err := s.Replace(within(t, patience), made.Version, h, body)
			if !errors.Is(err, stet.ErrStale) || have.Version != h.Version {
				t.Fatalf("the same Replace again: %v, version is ours: %v", err, have.Version == h.Version)
			}
		})
	}
}

// A server that hangs holds no call beyond its deadline, and is used again when it goes on (W3).
func TestServerStandsStill(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			server := testserver.NewRedis(t)
			s := open(t, a.single(t, server.Addr), redisstore.Config{})
			if _, err := s.Create(t.Context(), sample("before")); err != nil {
				t.Fatal(err)
			}
			server.Pause(t)
			start := time.Now()
			if _, err := s.Get(within(t, 300*time.Millisecond), sample("before").ID); err == nil {
				t.Error("it answers while it stands still")
			}
			tier.Took(t, "a call with 300 ms", time.Since(start), 2*time.Second)
			server.Resume(t)
			eventually(t, "answers", func() bool {
				_, err := s.Get(within(t, time.Second), sample("before").ID)
				return err == nil
			})
		})
	}
}

// A server without room refuses new records, loses none, lets end what runs, and takes new ones
// when there is room again (LM-08, I10).
func TestServerFull(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			server := testserver.NewRedis(t, "--maxmemory", "8mb")
			s := open(t, a.single(t, server.Addr), redisstore.Config{})
			var made []stet.Record
			for {
				r := sample(fmt.Sprint("n", len(made)))
				r.Request = make([]byte, 100<<10)
				got, err := s.Create(t.Context(), r)
				if errors.Is(err, stet.ErrFull) {
					break
				}
				if err != nil || len(made) > 1000 {
					t.Fatalf("record %d: %v", len(made), err)
				}
				made = append(made, got)
			}
			for _, r := range made {
				if got, err := s.Get(t.Context(), r.ID); err != nil || len(got.Request) != 100<<10 {
					t.Fatalf("a record is gone or torn: %v", err)
				}
			}
			c := lookInto(t, server.Addr)
			if err := c.ConfigSet(t.Context(), "maxmemory", "2mb").Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Create(t.Context(), sample("too much")); !errors.Is(err, stet.ErrFull) {
				t.Errorf("Create beyond the limit: %v", err)
			}
			h, body := completed(made[9], "done while it is full")
			if _, err := s.Replace(t.Context(), made[9].Version, h, body); err != nil {
				t.Errorf("what runs cannot end: %v", err)
			}
			if err := c.ConfigSet(t.Context(), "maxmemory", "8mb").Err(); err != nil {
				t.Fatal(err)
			}
			for _, r := range made[:5] {
				if err := s.Delete(t.Context(), r.ID, r.Version); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Create(t.Context(), sample("with room")); err != nil {
				t.Error(err)
			}
		})
	}
}
