package redisstore_test

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/redisstore"
)

// The client comes from goredisclient.New or rueidisclient.New.
func ExampleOpen() {
	open := func(ctx context.Context, client redisstore.Client) (*stet.Engine, error) {
		store, err := redisstore.Open(ctx, client, redisstore.Config{
			Wait:        1, // a write needs one replica's confirmation
			WaitTimeout: 500 * time.Millisecond,
		})
		if err != nil {
			return nil, err
		}
		return stet.New(store, stet.Config{})
	}
	_ = open
}
