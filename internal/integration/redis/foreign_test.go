package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/redisstore"
)

// raised writes until the mark of the store has risen.
func raised(t testing.TB, s *redisstore.Store) stet.Identity {
	t.Helper()
	was, _, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := was
	eventually(t, "the mark rises", func() bool {
		_, err := s.Create(t.Context(), sample(fmt.Sprint("raised-", draw())))
		if err != nil && !errors.Is(err, stet.ErrUnconfirmed) { // a busy machine replicates late
			t.Fatal(err)
		}
		now, _, _ = s.Identity(t.Context())
		return now.Mark > was.Mark
	})
	return now
}

// refusesAll reports whether a write is refused for the store being another one.
func refusesAll(ctx context.Context, s stet.Store) bool {
	_, err := s.Create(ctx, sample(fmt.Sprint("refused-", draw())))
	return errors.Is(err, stet.ErrForeign)
}

// One master of a cluster that was emptied, or set back, makes the store another one: what ran in
// its slots is unknown to it. A handle that is opened later, and remembers nothing, sees it too
// (S-I).
func TestOneMasterIsSetBack(t *testing.T) {
	for _, a := range adapters {
		for what, change := range map[string]func(t *testing.T, r reached, s *redisstore.Store, addr string){
			"emptied": func(t *testing.T, r reached, _ *redisstore.Store, addr string) {
				c := goredis.NewClient(&goredis.Options{Addr: addr})
				defer c.Close()
				r.remove(t, c)
			},
			"set back": func(t *testing.T, r reached, s *redisstore.Store, addr string) {
				c := goredis.NewClient(&goredis.Options{Addr: addr})
				defer c.Close()
				restore := r.backup(t, c)
				now, _, _ := s.Identity(t.Context())
				s.Know(stet.Identity{ID: now.ID, Mark: now.Mark + 1000})
				if _, err := s.Accept(t.Context()); err != nil {
					t.Fatal(err)
				}
				raised(t, s)
				restore()
			},
		} {
			t.Run(a.name+" "+what, func(t *testing.T) {
				addrs := testserver.RedisCluster(t).Addrs()
				client, config := a.clustered(t, addrs), redisstore.Config{Prefix: "one-" + strings.ReplaceAll(t.Name(), "/", "-"), AllowVolatile: true}
				s, err := redisstore.Open(t.Context(), client, config)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				raised(t, s)
				r := reached{prefix: config.Prefix, addrs: addrs}
				at := slices.IndexFunc(addrs, func(addr string) bool { return isMaster(t, addr) })
				change(t, r, s, addrs[at])
				eventually(t, "writes are refused", func() bool { return refusesAll(t.Context(), s) })
				later, err := redisstore.Open(t.Context(), client, config)
				if err != nil {
					t.Fatal(err)
				}
				defer later.Close()
				if !refusesAll(t.Context(), later) {
					t.Error("a handle that was opened later takes new keys")
				}
				if _, _, err := later.Identity(t.Context()); !errors.Is(err, stet.ErrForeign) {
					t.Errorf("its identity: %v", err)
				}
				if _, err := later.Accept(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, s := range []*redisstore.Store{later, s} {
					eventually(t, "it was accepted", func() bool { return everywhere(t, s) })
				}
			})
		}
	}
}

// A program's advice that is followed by half loses everything at the next restart, which is said
// before it, and noticed after it. Followed as a whole it keeps all (S03).
func TestAdviceOnTheAppendOnlyFile(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprint("whole: ", whole), func(t *testing.T) {
			server, file := testserver.NewRedisWithFile(t)
			client := single(t, server.Addr)
			_, err := redisstore.Open(t.Context(), client, redisstore.Config{})
			if !errors.Is(err, stet.ErrVolatile) || !strings.Contains(err.Error(), "CONFIG SET appendonly yes, and then CONFIG REWRITE, or the same in "+file) {
				t.Fatalf("without an append-only file: %v", err)
			}
			configure(t, server.Addr, "appendfsync", "always") // a kill loses what everysec puts off
			configure(t, server.Addr, "appendonly", "yes")
			if whole {
				if err := lookInto(t, server.Addr).ConfigRewrite(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "the append-only file is complete", func() bool {
				info, err := lookInto(t, server.Addr).Info(t.Context(), "persistence").Result()
				return err == nil && strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0")
			})
			var said []string
			s, err := redisstore.Open(t.Context(), client, redisstore.Config{Warn: func(text string) { said = append(said, text) }})
			if err != nil {
				t.Fatal(err)
			}
			if warned := strings.Contains(strings.Join(said, "\n"), "not written into its configuration"); warned == whole {
				t.Errorf("warnings: %q", said)
			}
			if _, err := s.Create(t.Context(), sample("k")); err != nil {
				t.Fatal(err)
			}
			raised(t, s)
			server.Kill(t)
			server.Start(t)
			if !whole {
				eventually(t, "it is seen to be empty", func() bool { return refusesAll(t.Context(), s) })
				return
			}
			eventually(t, "it is back", func() bool {
				_, err = s.Create(t.Context(), sample("k"))
				return err != nil && (errors.Is(err, stet.ErrExists) || errors.Is(err, stet.ErrForeign))
			})
			if !errors.Is(err, stet.ErrExists) {
				t.Errorf("after a restart: %v", err)
			}
			server.Kill(t)
		})
	}
}

// routed is a client of the server that is the master now.
type routed struct {
	to atomic.Pointer[redisstore.Client]
}

func (r *routed) Do(ctx context.Context, key string, command []string, then func(any) [][]string) ([]any, error) {
	return (*r.to.Load()).Do(ctx, key, command, then)
}

// A replica that has less than its master had is promoted: keys that it does not know are not new
// (S-I).
func TestAReplicaWithLessIsPromoted(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			master, replica := testserver.NewRedisPair(t)
			before, after := a.single(t, master.Addr), a.single(t, replica.Addr)
			client := &routed{}
			client.to.Store(&before)
			s, err := redisstore.Open(t.Context(), client, redisstore.Config{AllowVolatile: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			raised(t, s)
			kept, err := s.Create(t.Context(), sample("kept"))
			if err != nil {
				t.Fatal(err)
			}
			replica.CatchUp(t, master)
			replica.CutOff(t)
			if _, err := s.Create(t.Context(), sample("forgotten")); err != nil {
				t.Fatal(err)
			}
			raised(t, s)
			master.Kill(t)
			replica.Promote(t)
			client.to.Store(&after)
			for range 3 {
				if _, err := s.Create(t.Context(), sample("forgotten")); !errors.Is(err, stet.ErrForeign) {
					t.Fatalf("a key that was forgotten: %v", err)
				}
			}
			if got, err := s.Get(t.Context(), kept.ID); err != nil || got.Version != kept.Version {
				t.Errorf("what is there cannot be read: %v", err)
			}
		})
	}
}

// The first script that meets another store is told so: nothing waits for the look of each second
// (S-I).
func TestTheWriteItselfIsRefused(t *testing.T) {
	s := openReached(t, single(t, testserver.Redis(t).Addr), redisstore.Config{Prefix: "itself", Shards: 2}).(reached)
	s.addrs = []string{testserver.Redis(t).Addr}
	r, err := s.Create(t.Context(), sample("k"))
	if err != nil {
		t.Fatal(err)
	}
	empty(t, s)
	for verb, err := range map[string]error{
		"Create": second(s.Create(t.Context(), sample("k"))),
		"Append": s.Append(t.Context(), stet.Change{ID: r.ID, Note: stet.Note{Who: "ann", Action: "show"}}),
		"Delete": s.Delete(t.Context(), r.ID, r.Version),
	} {
		if !errors.Is(err, stet.ErrForeign) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	s.masters(t, func(c *goredis.Client) {
		if left := s.keysOf(t, c); len(left) > 0 {
			t.Errorf("something was written: %q", left)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// A store of copies takes an emptied server: its records are elsewhere.
func TestCopiesHaveNoIdentity(t *testing.T) {
	server := testserver.NewRedis(t)
	s, err := redisstore.Open(t.Context(), single(t, server.Addr), redisstore.Config{Copies: true, AllowVolatile: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), sample("k")); err != nil {
		t.Fatal(err)
	}
	if err := lookInto(t, server.Addr).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), sample("k")); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Identity(t.Context()); !errors.Is(err, stet.ErrUnsupported) {
		t.Errorf("its identity: %v", err)
	}
}

// sending counts what is sent.
type sending struct {
	redisstore.Client
	n atomic.Int64
}

func (c *sending) Do(ctx context.Context, key string, command []string, then func(any) [][]string) ([]any, error) {
	c.n.Add(1)
	return c.Client.Do(ctx, key, command, then)
}

// Each verb is one round trip, on a server and on a cluster; what is known of the store costs one a
// second, and in a cluster one for each shard, behind the writes (S-I).
func TestRoundTrips(t *testing.T) {
	for name, dial := range map[string]func() redisstore.Client{
		"server":  func() redisstore.Client { return single(t, testserver.Redis(t).Addr) },
		"cluster": func() redisstore.Client { return clustered(t, testserver.RedisCluster(t).Addrs()) },
	} {
		t.Run(name, func(t *testing.T) {
			c := &sending{Client: dial()}
			s := open(t, c, redisstore.Config{Prefix: "trips-" + name, Shards: 2})
			const turns = 200
			turn := func(i int) {
				t.Helper()
				r, err := s.Create(t.Context(), sample(fmt.Sprint(i)))
				if err != nil {
					t.Fatal(err)
				}
				h, b := completed(r, "done")
				if h, err = s.Replace(t.Context(), r.Version, h, b); err == nil {
					_, err = s.Get(t.Context(), h.ID)
				}
				if err == nil {
					err = s.Delete(t.Context(), h.ID, h.Version)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for i := range 20 { // the server learns the scripts
				turn(-1 - i)
			}
			before, began := c.n.Load(), time.Now()
			for i := range turns {
				turn(i)
			}
			marks := 2 * (int64(time.Since(began)/time.Second) + 2)
			if n := c.n.Load() - before - 4*turns; n > marks {
				t.Errorf("%d round trips more than verbs", n)
			}
		})
	}
}

// The procedure of docs/operate.md for a backup of a Redis, followed while a gateway's store is
// open (U11).
func TestRestoreOfABackup(t *testing.T) {
	server, conf := testserver.NewRedisWithFile(t)
	c := lookInto(t, server.Addr)
	switchOn := func() {
		t.Helper()
		configure(t, server.Addr, "appendfsync", "always") // a kill loses what everysec puts off
		configure(t, server.Addr, "appendonly", "yes")
		eventually(t, "the append-only file is complete", func() bool {
			info, err := c.Info(t.Context(), "persistence").Result()
			return err == nil && strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0")
		})
		if err := c.ConfigRewrite(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	switchOn()
	s, err := redisstore.Open(t.Context(), single(t, server.Addr), redisstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kept, err := s.Create(t.Context(), sample("kept"))
	if err != nil {
		t.Fatal(err)
	}
	raised(t, s)
	if err := c.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	dump := filepath.Join(server.Dir(), "dump.rdb")
	backup, err := os.ReadFile(dump)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), sample("later")); err != nil {
		t.Fatal(err)
	}
	raised(t, s)
	server.Kill(t)

	if err := os.Rename(filepath.Join(server.Dir(), "appendonlydir"), filepath.Join(server.Dir(), "damaged")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	off := strings.Replace(string(text), "appendonly yes", "appendonly no", 1)
	if err := errors.Join(os.WriteFile(dump, backup, 0o600), os.WriteFile(conf, []byte(off), 0o600)); err != nil || off == string(text) {
		t.Fatal(err, off)
	}
	server.Start(t)
	switchOn()
	eventually(t, "it is seen to be set back", func() bool { return refusesAll(t.Context(), s) })
	if got, err := s.Get(t.Context(), kept.ID); err != nil || got.Version != kept.Version {
		t.Errorf("what is there: %v", err)
	}
	if _, err := s.Create(t.Context(), sample("later")); !errors.Is(err, stet.ErrForeign) {
		t.Errorf("what was lost: %v", err)
	}
	if _, err := s.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), sample("later")); err != nil {
		t.Errorf("once it is accepted: %v", err)
	}
	server.Kill(t)
	server.Start(t)
	eventually(t, "it keeps that", func() bool {
		_, err := s.Create(t.Context(), sample("later"))
		return errors.Is(err, stet.ErrExists)
	})
	server.Kill(t)
}

// A replica that has all that was confirmed is the same store, however long the master went on
// without it (S-I).
func TestAReplicaWithAllThatWasConfirmed(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			master, replica := testserver.NewRedisPair(t)
			before, after := a.single(t, master.Addr), a.single(t, replica.Addr)
			client := &routed{}
			client.to.Store(&before)
			s, err := redisstore.Open(t.Context(), client, redisstore.Config{AllowVolatile: true, Wait: 1, WaitTimeout: 500 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			raised(t, s)
			replica.CatchUp(t, master)
			replica.CutOff(t)
			was, _ := lookInto(t, master.Addr).Get(t.Context(), "{stet:0}:store").Result()
			eventually(t, "the mark of the master rises", func() bool {
				if _, err := s.Create(t.Context(), sample(fmt.Sprint("unconfirmed-", draw()))); !errors.Is(err, stet.ErrUnconfirmed) {
					t.Fatal(err)
				}
				now, _ := lookInto(t, master.Addr).Get(t.Context(), "{stet:0}:store").Result()
				return now[:16] > was[:16]
			})
			if _, _, err := s.Identity(t.Context()); err != nil {
				t.Error(err)
			}
			master.Kill(t)
			replica.Promote(t)
			client.to.Store(&after)
			if _, err := s.Create(t.Context(), sample("new")); !errors.Is(err, stet.ErrUnconfirmed) { // it has no replica
				t.Errorf("it is another store: %v", err)
			}
			if _, _, err := s.Identity(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
