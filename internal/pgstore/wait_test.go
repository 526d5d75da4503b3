package pgstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet/internal/rest"
)

// When the connection that listens breaks, those who wait look at once: what has changed while it
// broke is not told (S13).
func TestWaitersAreRungWhenTheListenerBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaks := make(chan struct{})
		version := func(n int64) answer { return func([]any) [][]any { return [][]any{{n}} } }
		pool := &server{t: t, answers: []answer{version(8), version(7), version(8)}}
		s := newStore(pool, Config{Package: "tests", Listen: func(ctx context.Context, _ string, ready func(), _ func(string)) error {
			ready()
			select {
			case <-breaks:
			case <-ctx.Done():
			}
			return errors.New("it broke")
		}})
		id := sampled("k").ID
		if err := s.Wait(t.Context(), id, 7); err != nil { // from then on it listens
			t.Fatal(err)
		}
		synctest.Wait()
		began, done := time.Now(), make(chan error)
		go func() { done <- s.Wait(t.Context(), id, 7) }()
		synctest.Wait() // it has looked, and waits
		close(breaks)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took >= rest.LastLook/2 {
			t.Errorf("it looks after %v", took)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A server that is not Postgres is refused by its name, before it is asked what it may not know.
func TestOtherServersAreRefused(t *testing.T) {
	for says, name := range map[string]string{
		"CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27 01:53:43, go1.19.10)":                "CockroachDB",
		"PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 16.0.6, 64-bit":     "YugabyteDB",
		"PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017, Redshift 1.0.63590": "Redshift",
	} {
		pool := &server{t: t, answers: []answer{func([]any) [][]any { return [][]any{{says}} }}}
		_, err := Open(t.Context(), pool, Config{Package: "tests"})
		if err == nil || !strings.Contains(err.Error(), name) || len(pool.asked) != 1 {
			t.Errorf("%s: %v, after %d statements", name, err, len(pool.asked))
		}
	}
}
