package redis

import (
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet"
)

// kept is a key as a server keeps it.
type dumped struct{ key, value string }

// masters calls do with a connection to each server that has keys of the store.
func (r reached) masters(t testing.TB, do func(c *goredis.Client)) {
	t.Helper()
	for _, addr := range r.addrs {
		if isMaster(t, addr) {
			c := goredis.NewClient(&goredis.Options{Addr: addr})
			do(c)
			_ = c.Close()
		}
	}
}

// keysOf are the keys of the store that a server has.
func (r reached) keysOf(t testing.TB, c *goredis.Client) (all []string) {
	t.Helper()
	found, err := c.Keys(t.Context(), "*"+r.prefix+":*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range found {
		if strings.HasPrefix(strings.TrimPrefix(key, "{"), r.prefix+":") {
			all = append(all, key)
		}
	}
	return all
}

// empty is for [storetest.Backend].Empty: FLUSHALL, for one of the stores on a server.
func empty(t testing.TB, s stet.Store) {
	t.Helper()
	r := s.(reached)
	r.masters(t, func(c *goredis.Client) { r.remove(t, c) })
}

func (r reached) remove(t testing.TB, c *goredis.Client) {
	t.Helper()
	pipe := c.Pipeline()
	for _, key := range r.keysOf(t, c) {
		pipe.Del(t.Context(), key)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// backup is for [storetest.Backend].Backup.
func backup(t testing.TB, s stet.Store) (restore func()) {
	t.Helper()
	r := s.(reached)
	var all []func()
	r.masters(t, func(c *goredis.Client) { all = append(all, r.backup(t, c)) })
	return func() {
		for _, restore := range all {
			restore()
		}
	}
}

// backup copies what one server has.
func (r reached) backup(t testing.TB, c *goredis.Client) (restore func()) {
	t.Helper()
	var all []dumped
	for _, key := range r.keysOf(t, c) {
		value, err := c.Dump(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, dumped{key, value})
	}
	addr := c.Options().Addr
	return func() {
		c := goredis.NewClient(&goredis.Options{Addr: addr})
		defer c.Close()
		r.remove(t, c)
		for _, d := range all {
			if err := c.RestoreReplace(t.Context(), d.key, 0, d.value).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
