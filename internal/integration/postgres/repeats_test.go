package postgres

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/pgxstore"
)

// sends counts statements that look, and statements that would write.
type sends struct{ looks, writes atomic.Int64 }

func (s *sends) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	switch {
	case strings.Contains(q.SQL, "INSERT INTO stet_records"):
		s.writes.Add(1)
	case strings.Contains(q.SQL, "FROM stet_records"):
		s.looks.Add(1)
	}
	return ctx
}

func (*sends) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A storm of retries is answered by look-ups alone; when it is over, new keys take one round trip
// again.
func TestRepeatsAreLookedUp(t *testing.T) {
	address := database(t, address(t), t.Name())
	_ = opened(t, address, pgxstore.Config{}) // migrates
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	var sent sends
	config.ConnConfig.Tracer = &sent
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := pgxstore.Open(t.Context(), pool, pgxstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	made := create(t, s, "repeated")
	repeat := func(n int) {
		for range n {
			r := running("repeated")
			if have, err := s.Create(t.Context(), r); !errors.Is(err, stet.ErrExists) || have.Version != made.Version {
				t.Fatalf("version %d, %v", have.Version, err)
			}
		}
	}
	repeat(20)
	if n := sent.writes.Load(); n < 2 || n > 12 {
		t.Errorf("of 20 repeats %d were sent as writes", n-1)
	}
	for i := range 20 {
		create(t, s, "new-"+strings.Repeat("x", i))
	}
	sent.looks.Store(0)
	sent.writes.Store(0)
	create(t, s, "after")
	if looks, writes := sent.looks.Load(), sent.writes.Load(); looks != 0 || writes != 1 {
		t.Errorf("after the storm a new key took %d looks and %d writes", looks, writes)
	}
}
