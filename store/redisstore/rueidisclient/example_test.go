package rueidisclient_test

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/redisstore/rueidisclient"
)

func ExampleNew() {
	open := func(ctx context.Context) (*redisstore.Store, error) {
		options := rueidisclient.Options(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
		client, err := rueidis.NewClient(options)
		if err != nil {
			return nil, err
		}
		return redisstore.Open(ctx, rueidisclient.New(client), redisstore.Config{})
	}
	_ = open
}
