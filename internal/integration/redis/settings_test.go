package redis

import (
	"errors"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/sealstore"
)

// A server that may evict, or that forgets at a restart, is refused, and the setting named, unless
// that is allowed; then it is said (B05, SF-08).
func TestServersThatForget(t *testing.T) {
	const aof = "append-only"
	for _, c := range []struct {
		options []string
		refused string
	}{
		{[]string{"--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, "maxmemory-policy is allkeys-lru"},
		{[]string{"--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}, "maxmemory-policy is volatile-ttl"},
		{[]string{"--appendonly", "yes", "--maxmemory-policy", "volatile-lru"}, "maxmemory-policy is volatile-lru"},
		{[]string{"--save", "60 1"}, aof},
		{nil, aof},
		{[]string{"--appendonly", "yes", "--appendfsync", "no"}, "appendfsync is no"}, // S19
		{[]string{"--appendonly", "yes", "--appendfsync", "always"}, ""},
		{[]string{"--appendonly", "yes"}, ""},
	} {
		t.Run(strings.Join(c.options, " "), func(t *testing.T) {
			client := single(t, testserver.NewRedis(t, c.options...).Addr)
			var said []string
			config := redisstore.Config{Warn: func(text string) { said = append(said, text) }}
			_, err := redisstore.Open(t.Context(), client, config)
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refused != "" && (!errors.Is(err, stet.ErrVolatile) || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("it should be refused for %q: %v", c.refused, err)
			}
			said, config.AllowVolatile = nil, true
			s, err := redisstore.Open(t.Context(), client, config)
			if err != nil {
				t.Fatalf("it was allowed: %v", err)
			}
			if all := strings.Join(said, "\n"); c.refused == "" && all != "" || !strings.Contains(all, c.refused) {
				t.Errorf("warnings: %q, want %q", said, c.refused)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Errorf("it was allowed, and Check says %v", err)
			}
		})
	}
}

// What is set while a store is open is noticed by the next check, also through wrappers, and so is
// its mending (B05).
func TestServerThatBeginsToForget(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			server := testserver.NewRedis(t, "--appendonly", "yes")
			s, err := redisstore.Open(t.Context(), a.single(t, server.Addr), redisstore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			guarded, err := breakerstore.New(s, breakerstore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			sealed, err := sealstore.New(guarded, sealstore.Config{Keys: sealstore.Keys{Primary: "k", Keys: map[string][]byte{"k": make([]byte, sealstore.KeySize)}}})
			if err != nil {
				t.Fatal(err)
			}
			checker, ok := stet.As[stet.Checker](sealed)
			if !ok {
				t.Fatal("wrapped, it cannot be checked")
			}
			for name, values := range map[string][2]string{"maxmemory-policy": {"allkeys-lru", "noeviction"}, "appendfsync": {"no", "everysec"}, "appendonly": {"no", "yes"}} {
				configure(t, server.Addr, name, values[0])
				if err := checker.Check(t.Context()); !errors.Is(err, stet.ErrVolatile) {
					t.Errorf("%s is %s: %v", name, values[0], err)
				}
				configure(t, server.Addr, name, values[1])
				if err := checker.Check(t.Context()); err != nil {
					t.Errorf("%s is %s: %v", name, values[1], err)
				}
			}
			server.Pause(t)
			if err := checker.Check(within(t, 200*time.Millisecond)); err == nil || errors.Is(err, stet.ErrVolatile) {
				t.Errorf("it says nothing of its settings, and Check %v", err)
			}
			server.Kill(t) // Redis does not end cleanly while it writes its first append-only file
		})
	}
}

// In a cluster every master is looked at, at the beginning and later: one that evicts forgets the
// records of its slots (B05).
func TestClusterWithOneThatForgets(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			cluster := testserver.NewRedisCluster(t)
			masters := cluster.Addrs()[:3]
			for _, addr := range masters {
				configure(t, addr, "appendonly", "yes")
			}
			client := a.clustered(t, cluster.Addrs())
			s, err := redisstore.Open(t.Context(), client, redisstore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			for _, addr := range masters {
				configure(t, addr, "maxmemory-policy", "allkeys-lru")
				if _, err := redisstore.Open(t.Context(), client, redisstore.Config{}); !errors.Is(err, stet.ErrVolatile) {
					t.Errorf("%s evicts: Open: %v", addr, err)
				}
				if err := s.Check(t.Context()); !errors.Is(err, stet.ErrVolatile) {
					t.Errorf("%s evicts: Check: %v", addr, err)
				}
				configure(t, addr, "maxmemory-policy", "noeviction")
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server with fewer replicas than have to confirm a write takes no new key, and that is said
// before the first (B01).
func TestTooFewReplicas(t *testing.T) {
	var said []string
	warn := func(text string) { said = append(said, text) }
	master, _ := testserver.RedisPair(t)
	for wait, want := range []bool{false, false, true} {
		said = nil
		config := redisstore.Config{Prefix: "few", AllowVolatile: true, Wait: wait, Warn: warn}
		if _, err := redisstore.Open(t.Context(), single(t, master.Addr), config); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(said, "\n"), "replicas"); got != want {
			t.Errorf("one replica, and writes wait for %d: %q", wait, said)
		}
	}
}

func configure(t *testing.T, addr, name, value string) {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr})
	defer c.Close()
	if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
		t.Fatal(err)
	}
}

// The number of shards says where a record is: who comes with another would not find what is there,
// and run it again.
func TestNumberOfShardsIsForEver(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			client := a.clustered(t, testserver.RedisCluster(t).Addrs())
			prefix := "for-ever-" + a.name
			open(t, client, redisstore.Config{Prefix: prefix, Shards: 3})
			open(t, client, redisstore.Config{Prefix: prefix, Shards: 3})
			open(t, client, redisstore.Config{Prefix: prefix + "-other", Shards: 4})
			if _, err := redisstore.Open(t.Context(), client, redisstore.Config{Prefix: prefix, Shards: 4, AllowVolatile: true}); err == nil || !strings.Contains(err.Error(), "3") {
				t.Errorf("4 shards where there are 3: %v", err)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	client := single(t, testserver.Redis(t).Addr) // what is wrong is found before the server is asked
	for field, c := range map[string]redisstore.Config{
		"Prefix": {Prefix: "a{b}"}, "Shards": {Shards: 1025}, "Wait": {Wait: -1},
	} {
		if _, err := redisstore.Open(t.Context(), client, c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
