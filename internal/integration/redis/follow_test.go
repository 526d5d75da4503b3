package redis

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/storetest"
	"github.com/stet-dev/stet/store/tierstore"

	"github.com/stet-dev/stet/internal/integration/testserver"
)

// A cache in front of Redis changes no law. What is tampered with behind its back it does not see.
func TestLawsBehindACache(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	storetest.Run(t, storetest.Backend{ServerClock: true, Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
		return follow(t, open(t, adapters[1].single(t, testserver.Redis(t).Addr), redisstore.Config{Prefix: prefix(dir), Shards: shards}), tierstore.Config{})
	}})
}

// follow puts a cache before s and lets it follow what others change.
func follow(t testing.TB, s stet.Store, c tierstore.Config) *tierstore.Store {
	t.Helper()
	cached, err := tierstore.New(tierstore.NewMemory(0), s, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- cached.Follow(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return cached
}

// settled makes a result.
func settled(t testing.TB, s stet.Store, key string) stet.Head {
	t.Helper()
	r, err := s.Create(t.Context(), sample(key))
	if err != nil {
		t.Fatal(err)
	}
	h, b := completed(r, "body")
	if h, err = s.Replace(t.Context(), r.Version, h, b); err != nil {
		t.Fatal(err)
	}
	return h
}

// What one process purges the copies of another do not replay, long before they are too old;
// through both clients, on one server and on a cluster.
func TestPurgeIsHeardElsewhere(t *testing.T) {
	cluster := testserver.RedisCluster(t)
	for _, a := range adapters {
		for on, dial := range map[string]func() redisstore.Client{
			"one server": func() redisstore.Client { return a.single(t, testserver.Redis(t).Addr) },
			"a cluster":  func() redisstore.Client { return a.clustered(t, cluster.Addrs()) },
		} {
			t.Run(fmt.Sprintf("%s, %s", a.name, on), func(t *testing.T) {
				config := redisstore.Config{Prefix: prefix(t.TempDir()), Shards: shards}
				here := follow(t, open(t, dial(), config), tierstore.Config{TTL: time.Hour})
				there := open(t, dial(), config)
				for name, change := range map[string]func(h stet.Head) error{
					"replace": func(h stet.Head) error {
						prev := h.Version
						h.Version, h.State, h.DueIn, h.Note = draw(), stet.Expired, 0, &stet.Note{Who: "ops", Why: "tests"}
						_, err := there.Replace(t.Context(), prev, h, &stet.Body{})
						return err
					},
					"delete": func(h stet.Head) error { return there.Delete(t.Context(), h.ID, h.Version) },
				} {
					n := 0
					eventually(t, "a copy is dropped after a "+name+", and it listens", func() bool {
						n++
						h := settled(t, here, fmt.Sprint(name, n))
						if err := change(h); err != nil {
							t.Fatal(err)
						}
						ctx := within(t, time.Second)
						for ctx.Err() == nil {
							if got, err := here.Get(t.Context(), h.ID); errors.Is(err, stet.ErrNotFound) || err == nil && got.Version != h.Version {
								return true
							}
						}
						return false // before it listened, nothing was heard
					})
				}
			})
		}
	}
}

// When the connection ends, nothing is known of what was announced meanwhile: all copies go.
func TestCopiesGoWithTheConnection(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			server := testserver.NewRedis(t)
			client := a.single(t, server.Addr)
			config := redisstore.Config{Prefix: prefix(t.TempDir()), Shards: shards}
			here, there := follow(t, open(t, client, config), tierstore.Config{TTL: time.Hour}), open(t, a.single(t, server.Addr), config)
			killed := func() int64 {
				got, err := client.Do(t.Context(), "", []string{"CLIENT", "KILL", "TYPE", "pubsub"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				n, _ := got[0].(int64)
				return n
			}
			eventually(t, "it listens", func() bool { return killed() == 1 })
			h := settled(t, here, "k")
			if err := there.Delete(t.Context(), h.ID, h.Version); err != nil { // perhaps before it listens again
				t.Fatal(err)
			}
			eventually(t, "the copy goes", func() bool {
				_, err := here.Get(t.Context(), h.ID)
				return errors.Is(err, stet.ErrNotFound)
			})
		})
	}
}

// What the reaper removes no cache has: nothing is announced.
func TestReapedResultsAreNotAnnounced(t *testing.T) {
	s := open(t, adapters[0].single(t, testserver.Redis(t).Addr), redisstore.Config{Prefix: prefix(t.TempDir()), Shards: shards}).(*redisstore.Store)
	listening, heard := make(chan struct{}), make(chan uint32, 9)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.Follow(ctx, func() { close(listening) }, func(hash uint32) { heard <- hash }) }()
	<-listening
	old := settled(t, s, "old")
	prev := old.Version
	old.Version, old.DueIn = draw(), 0 // its time is over
	old, err := s.Replace(t.Context(), prev, old, nil)
	if err != nil {
		t.Fatal(err)
	}
	young := settled(t, s, "young")
	for _, h := range []stet.Head{old, young} {
		if err := s.Delete(t.Context(), h.ID, h.Version); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := <-heard, <-heard; a != s.Hash(old.ID) || b != s.Hash(young.ID) || len(heard) > 0 {
		t.Errorf("%x and %x are announced: the Replace of %x, and the Delete of %x", a, b, s.Hash(old.ID), s.Hash(young.ID))
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What is published tells nothing of keys, and is what processes that listen go by.
func TestAnnouncementsNameNoKey(t *testing.T) {
	client, at := adapters[0].single(t, testserver.Redis(t).Addr), prefix(t.TempDir())
	s := open(t, client, redisstore.Config{Prefix: at, Shards: shards}).(*redisstore.Store)
	listening, heard := make(chan struct{}), make(chan string, 9)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- client.(redisstore.Subscriber).Subscribe(ctx, at+":results", func() { close(listening) }, func(m string) { heard <- m })
	}()
	<-listening
	h := settled(t, s, "secret")
	prev := h.Version
	h.Version, h.DueIn = draw(), time.Hour
	h, err := s.Replace(t.Context(), prev, h, nil)
	if err == nil {
		err = s.Delete(t.Context(), h.ID, h.Version)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, want := <-heard, fmt.Sprintf("%08x", s.Hash(h.ID)); got != want {
			t.Errorf("%q is published, want %q", got, want)
		}
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
