// Package goredisclient connects package redisstore to a server through github.com/redis/go-redis.
package goredisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet/store/redisstore"
)

// New returns a client over c, a *redis.Client or a *redis.ClusterClient. The caller keeps c and
// closes it.
//
// Three options of c matter, and [Options] and [ClusterOptions] set them. MaxRetries has to be -1,
// or a command whose answer was lost is sent again. ContextTimeoutEnabled has to be true, or a
// server that hangs delays a call beyond its deadline. For a cluster, ClusterStateReloadInterval
// should be 500 ms, or a failover is noticed after a minute.
func New(c redis.UniversalClient) redisstore.Client { return client{c} }

// Options sets the options that New needs for one server, and returns o.
func Options(o *redis.Options) *redis.Options {
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	return o
}

type client struct{ redis.UniversalClient }

// Do implements [redisstore.Client].
func (c client) Do(ctx context.Context, key string, command []string, then func(answer any) [][]string) ([]any, error) {
	if then == nil {
		got, err := c.UniversalClient.Do(ctx, list(command)...).Result()
		if err = plain(err); err != nil {
			return nil, err
		}
		return []any{got}, nil
	}
	conn, err := c.conn(ctx, key)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // it goes back to its pool
	got, err := conn.Do(ctx, list(command)...).Result()
	if err = plain(err); err != nil {
		return nil, err
	}
	all := []any{got}
	more := then(got)
	if len(more) == 0 {
		return all, nil
	}
	pipe := conn.Pipeline()
	for _, command := range more {
		pipe.Do(ctx, list(command)...)
	}
	sent, err := pipe.Exec(ctx)
	if err = plain(err); err != nil {
		return nil, err
	}
	for _, s := range sent {
		all = append(all, s.(*redis.Cmd).Val())
	}
	return all, nil
}

// quiet is how long a subscription may be silent before the server is asked whether it is there.
const quiet = 5 * time.Second

// Subscribe implements [redisstore.Subscriber], on a connection of its own.
func (c client) Subscribe(ctx context.Context, channel string, ready func(), heard func(message string)) error {
	sub := c.UniversalClient.Subscribe(ctx, channel)
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // which ends a wait for messages
	defer func() { _ = sub.Close() }()
	for asked := false; ; {
		got, err := sub.ReceiveTimeout(ctx, quiet)
		var late net.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &late) && late.Timeout() && !asked:
			if err := sub.Ping(ctx); err != nil {
				return err
			}
			asked = true
			continue
		case err != nil:
			return plain(err)
		}
		asked = false
		switch got := got.(type) {
		case *redis.Subscription:
			ready()
		case *redis.Message:
			heard(got.Payload)
		}
	}
}

// conn returns a connection to the node that serves key. The caller closes it.
func (c client) conn(ctx context.Context, key string) (*redis.Conn, error) {
	switch on := c.UniversalClient.(type) {
	case *redis.Client:
		return on.Conn(), nil
	case *redis.ClusterClient:
		node, err := on.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		return node.Conn(), nil
	}
	return nil, fmt.Errorf("goredisclient: a %T has no connections of its own; give a *redis.Client or a *redis.ClusterClient", c.UniversalClient)
}

func list(command []string) []any {
	all := make([]any, len(command))
	for i, s := range command {
		all[i] = s
	}
	return all
}

// plain turns an answer of the server that is an error into a [redisstore.ServerError]. A nil
// answer is no error.
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

// ClusterOptions sets the options that New needs for a cluster, and returns o.
func ClusterOptions(o *redis.ClusterOptions) *redis.ClusterOptions {
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	o.ClusterStateReloadInterval = 500 * time.Millisecond
	return o
}
