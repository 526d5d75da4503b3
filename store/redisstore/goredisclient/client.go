// Package goredisclient lets package redisstore work through github.com/redis/go-redis.
package goredisclient

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet/store/redisstore"
)

// New returns a client over c, which stays the caller's: a *redis.Client, or a *redis.ClusterClient. Options that matter:
// MaxRetries -1, or a command whose answer was lost is sent again; ContextTimeoutEnabled, or a server that hangs holds a call
// beyond its deadline; for a cluster ClusterStateReloadInterval of 500 ms, or a failover is noticed after a minute. [Options] and
// [ClusterOptions] set them.
func New(c redis.UniversalClient) redisstore.Client { return client{c} }

// Options sets what New needs, and returns o.
func Options(o *redis.Options) *redis.Options {
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	return o
}

type client struct{ redis.UniversalClient }

// Do implements [redisstore.Client].
func (c client) Do(ctx context.Context, key string, commands ...[]string) ([]any, error) {
	if len(commands) == 1 {
		got, err := c.UniversalClient.Do(ctx, list(commands[0])...).Result()
		if err = plain(err); err != nil {
			return nil, err
		}
		return []any{got}, nil
	}
	var on redis.Cmdable = c.UniversalClient
	if cluster, ok := c.UniversalClient.(*redis.ClusterClient); ok { // a command without a key goes to the node of the others
		node, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		on = node
	}
	pipe := on.Pipeline()
	var sent []*redis.Cmd
	for _, command := range commands {
		sent = append(sent, pipe.Do(ctx, list(command)...))
	}
	_, err := pipe.Exec(ctx)
	if err = plain(err); err != nil {
		if first := plain(sent[0].Err()); first != nil {
			return nil, first
		}
		return nil, err
	}
	var all []any
	for _, s := range sent {
		all = append(all, s.Val())
	}
	return all, nil
}

func list(command []string) []any {
	all := make([]any, len(command))
	for i, s := range command {
		all[i] = s
	}
	return all
}

// plain tells the server's answers from everything else; nil is an answer, too.
func plain(err error) error {
	var answer redis.Error
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return nil
	case errors.As(err, &answer):
		return redisstore.ServerError(answer.Error())
	}
	return err
}

// ClusterOptions sets what New needs, and returns o.
func ClusterOptions(o *redis.ClusterOptions) *redis.ClusterOptions {
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	o.ClusterStateReloadInterval = 500 * time.Millisecond
	return o
}
