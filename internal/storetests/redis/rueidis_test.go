package redis

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/storetests/testserver"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/redisstore/rueidisclient"
	"github.com/stet-dev/stet/store/storetest"
)

func dialRueidis(t testing.TB, addrs ...string) redisstore.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidisclient.Options(rueidis.ClientOption{InitAddress: addrs}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return rueidisclient.New(c)
}

func TestRueidisLaws(t *testing.T) {
	storetest.Run(t, storetest.Backend{ServerClock: true, Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
		return open(t, dialRueidis(t, testserver.Redis(t).Addr), redisstore.Config{Prefix: "r" + prefix(dir), Shards: shards})
	}})
}

func TestRueidisClusterLaws(t *testing.T) {
	c := testserver.RedisCluster(t)
	storetest.Run(t, storetest.Backend{ServerClock: true, Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
		return open(t, dialRueidis(t, c.Addrs()...), redisstore.Config{Prefix: "rc" + prefix(dir), Shards: shards, Wait: 1})
	}})
}
