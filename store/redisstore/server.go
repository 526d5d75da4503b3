package redisstore

import (
	"context"
	"fmt"
	"strings"
)

// strangers are servers that speak Redis, and do something else with the scripts of this store:
// what INFO has of them, and their names.
var strangers = map[string]string{
	"dragonfly_version": "Dragonfly",
	"mvcc_depth":        "KeyDB",
	"kvrocks_version":   "Kvrocks",
	"garnet_version":    "Garnet",
}

// made refuses a server that this store was not made for.
func made(server map[string]string) error {
	for field, name := range strangers {
		if _, is := server[field]; is {
			return fmt.Errorf("the server is %s, which Stet was not made for: its scripts may do half of what they should; use Redis %d or newer, or Valkey", name, oldest)
		}
	}
	return nil
}

// serves proves that the server runs scripts, and learns whether a script sees all keys of the
// store, as on a server by itself, or those of one slot.
func (s *Store) serves(ctx context.Context) error {
	_, err := s.client.Do(ctx, s.shard(0), []string{"EVAL", "return 1", "2", s.shard(0), shardName(s.prefix, 1)}, nil)
	if s.sharded = answered(err, "CROSSSLOT"); s.sharded {
		return nil
	}
	return err
}

// rights proves that the user may use each command of the store, on each server of it.
func (s *Store) rights(ctx context.Context) error {
	return s.inPlaces(ctx, 0, func(ctx context.Context, i int) error {
		p := s.whole(i)
		got, err := s.again(ctx, func() ([]any, error) {
			return s.client.Do(ctx, p.record, []string{"EVAL", rightsScript.text, "1", p.record, s.waitFor}, nil)
		})
		if err != nil {
			return err
		}
		var missing []string
		all, _ := first(got).([]any)
		for _, command := range all {
			text, _ := command.(string)
			missing = append(missing, text)
		}
		if len(missing) == 0 {
			return nil
		}
		return fmt.Errorf("the user of the server has not all rights that it needs: ACL SETUSER NAME %s ~{%s:* ~%[2]s:*", strings.Join(missing, " "), s.prefix)
	})
}
