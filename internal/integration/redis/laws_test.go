// Package redis tests redisstore on a real Redis and a real Redis Cluster.
package redis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/clocks"
	"github.com/stet-dev/stet/internal/integration/testserver"
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
		t.Run(a.name, func(t *testing.T) { storetest.Run(t, alone(a)) })
	}
}

func TestReplicaLaws(t *testing.T) {
	master, _ := testserver.RedisPair(t)
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			storetest.Run(t, law(a.name, 1, func(t testing.TB) redisstore.Client { return a.single(t, master.Addr) }))
		})
	}
}

func TestClusterLaws(t *testing.T) {
	c := testserver.RedisCluster(t)
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			storetest.Run(t, law(a.name, 1, func(t testing.TB) redisstore.Client { return a.clustered(t, c.Addrs()) }))
		})
	}
}

func alone(a adapter) storetest.Backend {
	return law(a.name, 0, func(t testing.TB) redisstore.Client { return a.single(t, testserver.Redis(t).Addr) })
}

func TestClocks(t *testing.T) { clocks.Run(t, alone(adapters[0])) }
