package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/redisstore"
)

// A record that was not reaped vanishes by itself, and leaves its name in the index of what is due.
// A new life under that name is due when its own time is over, and not before: a reaper that begins
// to work then must not end it (I10).
func TestDueAfterALifeThatVanished(t *testing.T) {
	s := open(t, single(t, testserver.Redis(t).Addr), redisstore.Config{Prefix: prefix(t.TempDir()), Shards: 1, Linger: time.Millisecond})
	first, err := s.Create(t.Context(), sample("k"))
	if err != nil {
		t.Fatal(err)
	}
	h := first.Head
	h.State, h.Version, h.DueIn = stet.Retryable, draw(), 0
	if _, err := s.Replace(t.Context(), first.Version, h, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the record vanishes", func() bool { _, err := s.Get(t.Context(), h.ID); return errors.Is(err, stet.ErrNotFound) })

	second, err := s.Create(t.Context(), sample("k"))
	if err != nil {
		t.Fatal(err)
	}
	h, b := completed(second, "result")
	if _, err := s.Replace(t.Context(), second.Version, h, b); err != nil {
		t.Fatal(err)
	}
	due, _, err := s.Due(t.Context(), stet.Query{States: []stet.State{stet.Completed, stet.Retryable, stet.Expired}})
	if err != nil || len(due) != 0 {
		t.Errorf("%d are due, %v", len(due), err)
	}
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := e.Operator().Reap(t.Context(), "", 10); n != 0 || err != nil {
		t.Errorf("%d were reaped, %v", n, err)
	}
	if r, err := s.Get(t.Context(), h.ID); err != nil || r.State != stet.Completed {
		t.Errorf("the result is gone: %s, %v", r.State, err)
	}
}
