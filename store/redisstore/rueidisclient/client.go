// Package rueidisclient connects package redisstore to a server through github.com/redis/rueidis,
// which sends the commands of many goroutines together. It is the better choice where many requests
// run at once.
package rueidisclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-dev/stet/store/redisstore"
)

// New returns a client over c, for one server or, by its options, for a cluster. The caller keeps c
// and closes it. A cluster's failover is followed without further settings. A write that waits for
// replicas occupies a connection of its own during that time, and there are
// ClientOption.BlockingPoolSize of them; on a shared connection every other command would wait,
// too.
func New(c rueidis.Client) redisstore.Client { return &client{Client: c} }

// flushDelay gives a pipeline time to fill while there is more to send, which saves system calls of
// both sides.
const flushDelay = 20 * time.Microsecond

// Options sets the options that New works best with, unless o sets them, and returns o: one
// connection to each server, because one large piece is cheaper for the server than four small
// ones, and a pause of 20 µs between two pieces.
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

type client struct {
	rueidis.Client
	ending atomic.Bool // the shared connection is being ended
}

// Do implements [redisstore.Client]. Nothing is sent twice: the library repeats reads only, and
// takes none of these for one.
func (c *client) Do(ctx context.Context, key string, command []string, then func(answer any) [][]string) ([]any, error) {
	var on rueidis.CommandClient = c.Client
	hangUp := func() { c.hangUp(ctx, key) }
	if then != nil {
		d, release := c.Client.Dedicate()
		defer release()
		on, hangUp = d, d.Close
	}
	got, err := answer(on.Do(ctx, c.build(key, command)))
	if said, ok := errors.AsType[redisstore.ServerError](err); ok && said.Replica() {
		hangUp()
	}
	if err != nil || then == nil {
		return []any{got}, err
	}
	all := []any{got}
	var built []rueidis.Completed
	for _, command := range then(got) {
		built = append(built, c.build(key, command))
	}
	for _, r := range on.DoMulti(ctx, built...) {
		if got, err = answer(r); err != nil {
			return all, err
		}
		all = append(all, got)
	}
	return all, nil
}

// hangUp has the server of the shared connection end it, once: the library has no call for that,
// and dials again by itself. What else is on its way there has not happened, or is told so: the
// server is a replica.
func (c *client) hangUp(ctx context.Context, key string) {
	if c.ending.CompareAndSwap(false, true) {
		_ = c.Client.Do(ctx, c.build(key, []string{"QUIT", key})) // the key leads to that server, of which QUIT takes no notice
		c.ending.Store(false)
	}
}

// Subscribe implements [redisstore.Subscriber], on a connection of its own.
func (c *client) Subscribe(ctx context.Context, channel string, ready func(), heard func(message string)) error {
	d, release := c.Client.Dedicate()
	defer release()
	over := d.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "subscribe" {
				ready()
			}
		},
		OnMessage: func(m rueidis.PubSubMessage) { heard(m.Message) },
	})
	if err := d.Do(ctx, d.B().Subscribe().Channel(channel).Build()).Error(); err != nil {
		return fmt.Errorf("rueidis: %w", err)
	}
	select {
	case err := <-over:
		return fmt.Errorf("rueidis: the subscription has ended: %w", cmp.Or(err, rueidis.ErrClosing))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// build marks the word of a command that is its key, if it has one. The key selects the node.
func (c *client) build(key string, words []string) rueidis.Completed {
	at := -1
	if key != "" {
		at = slices.Index(words, key)
	}
	if at < 1 {
		return c.B().Arbitrary(words[0]).Args(words[1:]...).Build()
	}
	return c.B().Arbitrary(words[0]).Args(words[1:at]...).Keys(key).Args(words[at+1:]...).Build()
}

// answer tells the server's errors from all others. A nil answer is no error.
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
