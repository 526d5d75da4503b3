package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stet-dev/stet"
)

// masters is a cluster of which one master gives no answer, after the others have.
type masters struct {
	silent   string
	forgets  string
	answered sync.WaitGroup
}

func (m *masters) Do(ctx context.Context, key string, _ []string, then func(any) [][]string) ([]any, error) {
	const fine = "redis_version:7.2.0\r\ncluster_enabled:1\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n"
	if then != nil {
		return []any{int64(1), []any{"appendfsync", "always"}}, nil
	}
	switch key {
	case m.silent:
		m.answered.Wait()
		return nil, errors.New("no answer")
	}
	defer m.answered.Done()
	if key == m.forgets {
		return []any{"redis_version:7.2.0\r\naof_enabled:0\r\n"}, nil
	}
	return []any{fine}, nil
}

// Servers that do something else with the scripts are refused by their names (S22).
func TestStrangersAreRefusedByName(t *testing.T) {
	const fine = "aof_enabled:1\r\nmaxmemory_policy:noeviction\r\n"
	for says, want := range map[string]string{
		"redis_version:7.4.0\r\ndragonfly_version:df-v1.30.0\r\n" + fine:               "Dragonfly",
		"redis_version:6.3.4\r\nmvcc_depth:0\r\n" + fine:                               "KeyDB",
		"redis_version:7.0.0\r\nkvrocks_version:2.9.0\r\n" + fine:                      "Kvrocks",
		"redis_version:7.2.4\r\ngarnet_version:1.0.0\r\n" + fine:                       "Garnet",
		"redis_version:6.2.0\r\n" + fine:                                               "Redis 6.2.0",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\n" + fine: "",
	} {
		for _, config := range []Config{{}, {AllowVolatile: true}, {DurableByService: true}} {
			config.Shards = 2
			_, err := Open(t.Context(), stranger(says), config)
			refused := err != nil && !errors.Is(err, errSilent)
			if refused != (want != "") || refused && !strings.Contains(err.Error(), want) {
				t.Errorf("%q, %+v: %v", says, config, err)
			}
		}
	}
}

// stranger is a server that says this of itself, and answers nothing else.
type stranger string

var errSilent = errors.New("no answer")

func (s stranger) Do(_ context.Context, _ string, command []string, then func(any) [][]string) ([]any, error) {
	switch {
	case then != nil:
		return []any{int64(1), []any{"appendfsync", "always"}}, nil
	case strings.Contains(command[1], "INFO"):
		return []any{string(s)}, nil
	case command[1] == "return 1":
		return []any{int64(1)}, nil
	}
	return nil, errSilent
}

// A master that does not answer hides no other that forgets: the store is not ready then.
func TestSilentMasterHidesNoOther(t *testing.T) {
	m := &masters{silent: "{p:0}", forgets: "{p:2}"}
	s := &Store{client: m, shards: 3, sharded: true, names: []string{"{p:0}", "{p:1}", "{p:2}"}}
	m.answered.Add(2)
	if err := s.Check(t.Context()); !errors.Is(err, stet.ErrVolatile) {
		t.Errorf("one forgets: %v", err)
	}
	m.forgets = ""
	m.answered.Add(2)
	if err := s.Check(t.Context()); err == nil || errors.Is(err, stet.ErrVolatile) {
		t.Errorf("one is silent: %v", err)
	}
}
