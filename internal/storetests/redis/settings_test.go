package redis

import (
	"errors"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet/internal/storetests/testserver"
	"github.com/stet-dev/stet/store/redisstore"
)

// A server that may evict is refused by name of the setting, unless that is allowed; one that forgets at a restart is warned of
// (SF-08, C30).
func TestServersThatForget(t *testing.T) {
	for _, c := range []struct {
		options        []string
		refused, warns string
	}{
		{[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, "maxmemory-policy is allkeys-lru", "append-only"},
		{[]string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}, "maxmemory-policy is volatile-ttl", "append-only"},
		{[]string{"--maxmemory-policy", "volatile-lru"}, "maxmemory-policy is volatile-lru", "append-only"},
		{nil, "", "append-only"},
		{[]string{"--appendonly", "yes"}, "", ""},
	} {
		t.Run(strings.Join(c.options, " "), func(t *testing.T) {
			client := single(t, testserver.NewRedis(t, c.options...).Addr)
			var said []string
			config := redisstore.Config{Warn: func(text string) { said = append(said, text) }}
			_, err := redisstore.Open(t.Context(), client, config)
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refused != "" && (!errors.Is(err, redisstore.ErrVolatile) || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("it should be refused for %q: %v", c.refused, err)
			}
			said, config.AllowVolatile = nil, true
			if _, err := redisstore.Open(t.Context(), client, config); err != nil {
				t.Errorf("it was allowed: %v", err)
			}
			if all := strings.Join(said, "\n"); c.warns == "" && all != "" || !strings.Contains(all, c.warns) {
				t.Errorf("warnings: %q, want %q", said, c.warns)
			}
		})
	}
}

// In a cluster every master is looked at: one that evicts forgets the records of its slots.
func TestClusterWithOneThatForgets(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			cluster := testserver.NewRedisCluster(t)
			client := a.clustered(t, cluster.Addrs())
			config := redisstore.Config{Warn: func(string) {}}
			if _, err := redisstore.Open(t.Context(), client, config); err != nil {
				t.Fatal(err)
			}
			for _, addr := range cluster.Addrs()[:3] { // the masters, one after the other
				configure(t, addr, "maxmemory-policy", "allkeys-lru")
				if _, err := redisstore.Open(t.Context(), client, config); !errors.Is(err, redisstore.ErrVolatile) {
					t.Errorf("%s evicts: %v", addr, err)
				}
				configure(t, addr, "maxmemory-policy", "noeviction")
			}
		})
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

// The number of shards says where a record is: who comes with another would not find what is there, and run it again.
func TestNumberOfShardsIsForEver(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			client := a.clustered(t, testserver.RedisCluster(t).Addrs())
			prefix := "for-ever-" + a.name
			open(t, client, redisstore.Config{Prefix: prefix, Shards: 3})
			open(t, client, redisstore.Config{Prefix: prefix, Shards: 3})
			open(t, client, redisstore.Config{Prefix: prefix + "-other", Shards: 4})
			if _, err := redisstore.Open(t.Context(), client, redisstore.Config{Prefix: prefix, Shards: 4}); err == nil || !strings.Contains(err.Error(), "3") {
				t.Errorf("4 shards where there are 3: %v", err)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	client := single(t, testserver.Redis(t).Addr)
	for field, c := range map[string]redisstore.Config{
		"Prefix": {Prefix: "a{b}"}, "Shards": {Shards: redisstore.MaxShards + 1}, "Wait": {Wait: -1},
	} {
		if _, err := redisstore.Open(t.Context(), client, c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
