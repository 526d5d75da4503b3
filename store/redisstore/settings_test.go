package redisstore

import (
	"context"
	"errors"
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

func (m *masters) Do(ctx context.Context, key string, _ []string, _ func(any) [][]string) ([]any, error) {
	const fine = "redis_version:7.2.0\r\ncluster_enabled:1\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n"
	switch key {
	case "":
		return []any{fine}, nil
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

// A master that does not answer hides no other that forgets: the store is not ready then.
func TestSilentMasterHidesNoOther(t *testing.T) {
	m := &masters{silent: "{p:0}", forgets: "{p:2}"}
	s := &Store{client: m, shards: 3, names: []string{"{p:0}", "{p:1}", "{p:2}"}}
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
