package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
)

// oldest is the first Redis whose scripts have flags.
const oldest = 7

// Check implements [stet.Checker]. It reads the settings of every server that has records again.
func (s *Store) Check(ctx context.Context) error {
	if s.volatile {
		return nil
	}
	if err := s.check(ctx, func(string) {}); err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	return nil
}

// check checks every server that has shards.
func (s *Store) check(ctx context.Context, warn func(string)) error {
	server, err := s.info(ctx, "", "INFO")
	if err != nil {
		return err
	}
	if server["cluster_enabled"] != "1" {
		return s.settings(server, warn)
	}
	servers, err := each(ctx, s, func(ctx context.Context, i int) (map[string]string, error) {
		const ask = "return redis.call('INFO')"
		return s.info(ctx, s.shard(i), "EVAL", ask, "1", s.shard(i))
	})
	for _, server := range servers { // one without an answer does not hide another that forgets
		if server == nil {
			continue
		}
		if wrong := s.settings(server, warn); wrong != nil {
			return wrong
		}
	}
	return err
}

// once makes warn report each text once. warn may be nil.
func once(warn func(string)) func(string) {
	said := map[string]bool{}
	return func(text string) {
		if warn != nil && !said[text] {
			warn(text)
		}
		said[text] = true
	}
}

// settings checks one server. A setting that cannot be read leads to a warning.
func (s *Store) settings(server map[string]string, warn func(string)) error {
	major, _, _ := strings.Cut(server["redis_version"], ".") // Valkey says whose equal it is
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		return fmt.Errorf("the server is Redis %s, and has to be %d or newer", server["redis_version"], oldest)
	}
	var forgets []string
	switch policy := server["maxmemory_policy"]; {
	case policy == "":
		warn("the server does not say its maxmemory-policy; it has to be noeviction")
	case policy != "noeviction" && server["maxmemory"] == "0":
		forgets = append(forgets, fmt.Sprintf("its maxmemory-policy is %s and would evict as soon as there is a maxmemory; it has to be noeviction", policy))
	case policy != "noeviction":
		forgets = append(forgets, fmt.Sprintf("its maxmemory-policy is %s, and has to be noeviction (CONFIG SET maxmemory-policy noeviction)", policy))
	}
	switch server["aof_enabled"] {
	case "":
		warn("the server does not say whether it writes an append-only file; without one a restart or a crash loses keys")
	case "0":
		forgets = append(forgets, "it writes no append-only file: a restart or a crash loses keys, and what they protect may run again (CONFIG SET appendonly yes)")
	}
	if n, err := strconv.Atoi(server["connected_slaves"]); err == nil && n < s.wait {
		warn(fmt.Sprintf("the server has %d replicas, and each write waits for %d: no key can be new before it has them", n, s.wait))
	}
	if len(forgets) > 0 && !s.volatile {
		return fmt.Errorf("%w: %s", stet.ErrVolatile, strings.Join(forgets, "; and "))
	}
	for _, text := range forgets {
		warn("the server may forget records: " + text)
	}
	return nil
}

// info returns what the server that has key reports about itself.
func (s *Store) info(ctx context.Context, key string, command ...string) (map[string]string, error) {
	got, err := s.client.Do(ctx, key, command, nil)
	if err != nil {
		return nil, err
	}
	text, _ := first(got).(string)
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[name] = value
		}
	}
	return values, nil
}

// agree lets the first Open decide the number of shards.
func (s *Store) agree(ctx context.Context) error {
	key := s.prefix + ":shards"
	mine := strconv.Itoa(s.shards)
	got, err := s.client.Do(ctx, key, []string{"SET", key, mine, "NX", "GET"}, nil)
	if err != nil {
		return fmt.Errorf("redisstore: open: %w", err)
	}
	if have := first(got); have != nil && have != mine {
		return fmt.Errorf("redisstore: the records are in %v shards, and the configuration says %s: keep what is there", have, mine)
	}
	return nil
}
