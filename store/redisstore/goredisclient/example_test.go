package goredisclient_test

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/redisstore/goredisclient"
)

func ExampleNew() {
	open := func(ctx context.Context) (*redisstore.Store, error) {
		options := goredisclient.Options(&redis.Options{Addr: "localhost:6379"})
		return redisstore.Open(ctx, goredisclient.New(redis.NewClient(options)), redisstore.Config{})
	}
	_ = open
}
