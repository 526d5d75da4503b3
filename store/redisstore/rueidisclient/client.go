// Package rueidisclient lets package redisstore work through github.com/redis/rueidis, which sends what many goroutines ask at
// the same time in one piece: the choice where many requests run at once.
package rueidisclient

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-dev/stet/store/redisstore"
)

// New returns a client over c, which stays the caller's: for one server or, by its options, for a cluster. A cluster's failover
// is followed without further settings. Commands that wait for replicas take a connection of their own for as long, up to
// ClientOption.BlockingPoolSize of them: on a shared one everybody would wait for each of them.
func New(c rueidis.Client) redisstore.Client { return client{c} }

// flushDelay gives a pipeline time to fill while there is more to send: fewer system calls, of the server's, too.
const flushDelay = 20 * time.Microsecond

// Options sets what New is best used with where o does not say, and returns o: one connection to each server, since what many
// ask at once is cheaper for the server in one piece than in four, and a pause of 20 µs between two pieces.
func Options(o rueidis.ClientOption) rueidis.ClientOption {
	o.DisableCache = true // nothing is read through it: a record read from memory could be stale
	if o.PipelineMultiplex == 0 {
		o.PipelineMultiplex = -1
	}
	if o.MaxFlushDelay == 0 {
		o.MaxFlushDelay = flushDelay
	}
	return o
}

type client struct{ rueidis.Client }

// Do implements [redisstore.Client]. Nothing is sent twice: the library repeats reads only, and takes none of these for one.
func (c client) Do(ctx context.Context, key string, command []string, then func(answer any) [][]string) ([]any, error) {
	if then == nil {
		got, err := answer(c.Client.Do(ctx, c.build(key, command)))
		return []any{got}, err
	}
	var all []any
	err := c.Client.Dedicated(func(d rueidis.DedicatedClient) error {
		got, err := answer(d.Do(ctx, c.build(key, command)))
		if err != nil {
			return err
		}
		all = append(all, got)
		var built []rueidis.Completed
		for _, command := range then(got) {
			built = append(built, c.build(key, command))
		}
		if len(built) == 0 {
			return nil
		}
		for _, r := range d.DoMulti(ctx, built...) {
			if got, err = answer(r); err != nil {
				return err
			}
			all = append(all, got)
		}
		return nil
	})
	return all, err
}

// build says which word of a command is its key, where it has one: that chooses the node.
func (c client) build(key string, words []string) rueidis.Completed {
	at := -1
	if key != "" {
		at = slices.Index(words, key)
	}
	if at < 1 {
		return c.B().Arbitrary(words[0]).Args(words[1:]...).Build()
	}
	return c.B().Arbitrary(words[0]).Args(words[1:at]...).Keys(key).Args(words[at+1:]...).Build()
}

// answer tells the server's errors from all others; nil is an answer, too.
func answer(r rueidis.RedisResult) (any, error) {
	got, err := r.ToAny()
	if err == nil || rueidis.IsRedisNil(err) {
		return got, nil
	}
	if said, ok := rueidis.IsRedisErr(err); ok {
		return nil, redisstore.ServerError(said.Error())
	}
	return nil, fmt.Errorf("rueidis: %w", err)
}
