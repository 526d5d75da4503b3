// Package redis tests redisstore on a real Redis and a real Redis Cluster.
package redis

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/clocks"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/redisstore/goredisclient"
	"github.com/stet-dev/stet/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// prefix is that of the store whose directory dir would be.
func prefix(dir string) string { return strings.ReplaceAll(filepath.ToSlash(dir), ":", "_") }

func single(t testing.TB, addr string) redisstore.Client {
	t.Helper()
	c := goredis.NewClient(goredisclient.Options(&goredis.Options{Addr: addr}))
	t.Cleanup(func() { _ = c.Close() })
	return goredisclient.New(c)
}

func clustered(t testing.TB, addrs []string) redisstore.Client {
	t.Helper()
	c := goredis.NewClusterClient(goredisclient.ClusterOptions(&goredis.ClusterOptions{Addrs: addrs}))
	t.Cleanup(func() { _ = c.Close() })
	return goredisclient.New(c)
}

// open opens a store on a server of the tests', which keeps nothing on a disk.
func open(t testing.TB, c redisstore.Client, config redisstore.Config) stet.Store {
	t.Helper()
	config.AllowVolatile = true
	s, err := redisstore.Open(t.Context(), c, config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Few shards keep the laws fast; what they promise does not depend on it.
const shards = 4

// The laws are kept through both clients, on one server, on one with a replica that confirms each
// write, and on a cluster.
func TestLaws(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			if a.name != adapters[0].name {
				tier.Campaign(t, "the laws run through another client in the gate")
			}
			storetest.Run(t, alone(a)(t))
		})
	}
}

func TestReplicaLaws(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			storetest.Run(t, law(t, a.name, 1, a.one, func(t testing.TB) []string {
				master, _ := testserver.RedisPair(t)
				return []string{master.Addr}
			}))
		})
	}
}

func TestClusterLaws(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			storetest.Run(t, law(t, a.name, 1, a.many, func(t testing.TB) []string { return testserver.RedisCluster(t).Addrs() }))
		})
	}
}

func alone(a adapter) func(t testing.TB) storetest.Backend {
	return func(t testing.TB) storetest.Backend {
		t.Helper()
		return law(t, a.name, 0, a.one, func(t testing.TB) []string { return []string{testserver.Redis(t).Addr} })
	}
}

// A server that reads less than others: what it would not read is not sent (K08).
func TestLawsOfSmallRecords(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	small := sync.OnceValue(func() []string { return []string{testserver.NewRedis(t, "--proto-max-bulk-len", "4194304").Addr} })
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			storetest.Run(t, law(t, a.name, 0, a.one, func(testing.TB) []string { return small() }))
		})
	}
}

func TestClocks(t *testing.T) { clocks.Run(t, alone(adapters[0])(t)) }
