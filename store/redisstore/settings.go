package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// oldest is the first Redis whose scripts have flags.
const oldest = 7

// check reads the settings that decide whether records stay, of every server that has shards.
func (s *Store) check(ctx context.Context, c *Config) error {
	said := map[string]bool{}
	warn := func(text string) {
		if c.Warn != nil && !said[text] {
			c.Warn(text)
		}
		said[text] = true
	}
	server, err := s.info(ctx, "", "INFO")
	if err == nil {
		err = settings(server, c, warn)
	}
	for i := 0; i < s.shards && err == nil && server["cluster_enabled"] == "1"; i++ {
		const ask = "return redis.call('INFO')"
		if server, err = s.info(ctx, s.shard(i), "EVAL", ask, "1", s.shard(i)); err == nil {
			err = settings(server, c, warn)
		}
	}
	if err != nil {
		return fmt.Errorf("redisstore: open: %w", err)
	}
	return nil
}

// settings judges one server. Where something cannot be read nothing is known, and that is said.
func settings(server map[string]string, c *Config, warn func(string)) error {
	major, _, _ := strings.Cut(server["redis_version"], ".") // Valkey says whose equal it is
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		return fmt.Errorf("the server is Redis %s, and has to be %d or newer", server["redis_version"], oldest)
	}
	switch policy := server["maxmemory_policy"]; {
	case policy == "":
		warn("the server does not say its maxmemory-policy; it has to be noeviction")
	case policy != "noeviction" && server["maxmemory"] != "0" && !c.AllowVolatile:
		return fmt.Errorf("%w: its maxmemory-policy is %s, and has to be noeviction (CONFIG SET maxmemory-policy noeviction)", ErrVolatile, policy)
	case policy != "noeviction" && !c.AllowVolatile:
		return fmt.Errorf("%w: its maxmemory-policy is %s and would evict as soon as somebody sets maxmemory; it has to be noeviction", ErrVolatile, policy)
	}
	if server["aof_enabled"] == "0" {
		warn("the server writes no append-only file: a restart or a crash loses keys, and what they protect may run again (CONFIG SET appendonly yes)")
	}
	return nil
}

// info is what the server that has key says of itself.
func (s *Store) info(ctx context.Context, key string, command ...string) (map[string]string, error) {
	got, err := s.client.Do(ctx, key, command)
	if err != nil {
		return nil, err
	}
	text, _ := got[0].(string)
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[name] = value
		}
	}
	return values, nil
}

// agree makes the first who opens the store decide the number of shards.
func (s *Store) agree(ctx context.Context) error {
	key := s.prefix + ":shards"
	mine := strconv.Itoa(s.shards)
	got, err := s.client.Do(ctx, key, []string{"SET", key, mine, "NX"}, []string{"GET", key})
	if err != nil {
		return fmt.Errorf("redisstore: open: %w", err)
	}
	if len(got) != 2 || got[1] != mine {
		return fmt.Errorf("redisstore: the records are in %v shards, and the configuration says %s: keep what is there", got[len(got)-1], mine)
	}
	return nil
}
