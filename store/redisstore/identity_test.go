package redisstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/storeid"
)

// slow is a cluster each of whose servers answers after a while.
type slow struct {
	after time.Duration
	value string
}

func (c slow) Do(ctx context.Context, _ string, _ []string, _ func(any) [][]string) ([]any, error) {
	select {
	case <-time.After(c.after):
		return []any{c.value}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A cluster of which each server is slow is waited for as long as its caller has time, instead of
// being taken for one that is away.
func TestSlowClusterIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := stet.Identity{ID: "st_known", Mark: 3, Made: time.UnixMicro(1)}
		s := &Store{client: slow{3 * lookFor, formatIdentity(known)}, sharded: true, shards: 2, names: []string{"{a:0}", "{a:1}"}, gate: &storeid.Gate{}}
		s.gate.Know(known)
		now, err := s.lookAtIdentity(t.Context())
		if err != nil || now.ID != known.ID || now.Mark != known.Mark {
			t.Errorf("%+v, %v", now, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*lookFor)
		defer cancel()
		if _, err := s.lookAtIdentity(ctx); err == nil {
			t.Error("it has answered before its servers have")
		}
	})
}
