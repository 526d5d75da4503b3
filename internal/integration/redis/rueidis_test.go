package redis

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/redisstore/rueidisclient"
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
