// Package redis tests redisstore on a real Redis and a real Redis Cluster.
package redis

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/storetests/clocks"
	"github.com/stet-dev/stet/internal/storetests/testserver"
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

var backend = storetest.Backend{ServerClock: true, Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
	return open(t, single(t, testserver.Redis(t).Addr), redisstore.Config{Prefix: prefix(dir), Shards: shards})
}}

func TestLaws(t *testing.T) { storetest.Run(t, backend) }

func TestClocks(t *testing.T) { clocks.Run(t, backend) }

func TestClusterLaws(t *testing.T) {
	c := testserver.RedisCluster(t)
	storetest.Run(t, storetest.Backend{ServerClock: true, Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
		return open(t, clustered(t, c.Addrs()), redisstore.Config{Prefix: fmt.Sprint("c", prefix(dir)), Shards: shards, Wait: 1})
	}})
}
