package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/redisstore"
)

// between is a client that does something once, after the first batch of a copy of the history.
type between struct {
	redisstore.Client
	then func()
}

func (b *between) Do(ctx context.Context, key string, command []string, then func(any) [][]string) ([]any, error) {
	got, err := b.Client.Do(ctx, key, command, then)
	copies := slices.ContainsFunc(command[:min(9, len(command))], func(arg string) bool { return strings.HasSuffix(arg, ":copy") })
	if do := b.then; copies && do != nil && err == nil {
		b.then = nil
		do()
	}
	return got, err
}

// What others do to the history while it is copied is in the copy, or the copy begins again: no
// entry is lost, none that was trimmed comes back, and none that was erased has its names again.
func TestHistoryIsCopiedAmongOthers(t *testing.T) { // S15, N10
	addr := testserver.Redis(t).Addr
	const each = 300 // more than a batch, of both together
	for what, c := range map[string]struct {
		others func(s stet.Forgetter)
		want   map[string]int // how many entries have these scopes
	}{
		"appended": {func(s stet.Forgetter) { tell(t, s, "late", 2) }, map[string]int{"": each, "stays": each, "late": 2}},
		"trimmed": {func(s stet.Forgetter) {
			if n, err := s.Trim(t.Context(), 0, 100); n != 100 || err != nil {
				t.Errorf("Trim: %d, %v", n, err)
			}
		}, map[string]int{"": each - 50, "stays": each - 50}},
		"erased": {func(s stet.Forgetter) {
			if n, err := s.Erase(t.Context(), stet.HistoryQuery{Scope: "stays", Limit: stet.MaxLimit}); n != each || err != nil {
				t.Errorf("Erase: %d, %v", n, err)
			}
		}, map[string]int{"": 2 * each}},
	} {
		t.Run(what, func(t *testing.T) {
			config := redisstore.Config{Prefix: "copied-" + what, Shards: 1}
			client := &between{Client: single(t, addr)}
			s := open(t, client, config).(stet.Forgetter)
			other := open(t, single(t, addr), config).(stet.Forgetter)
			for range each {
				tell(t, s, "subject", 1)
				tell(t, s, "stays", 1)
			}
			client.then = func() { c.others(other) }
			erased := 0
			for n := -1; n != 0; erased += n {
				var err error
				if n, err = s.Erase(t.Context(), stet.HistoryQuery{Scope: "subject", Limit: stet.MaxLimit}); err != nil {
					t.Fatal(err)
				}
			}
			got, last := map[string]int{}, ""
			h := s.(stet.Historian)
			for q := (stet.HistoryQuery{Limit: 100}); ; {
				changes, next, err := h.History(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range changes {
					got[string(e.ID.Scope)]++
					if last != "" && e.At.Format("150405.000000") > last {
						t.Error("the order is another one")
					}
					last = e.At.Format("150405.000000")
				}
				if q.After = next; next == "" {
					break
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("the entries are of %v; want %v", got, c.want)
			}
			raw := goredis.NewClient(&goredis.Options{Addr: addr})
			defer raw.Close()
			keys, err := raw.Keys(t.Context(), "{copied-"+what+":*").Result()
			if err != nil || slices.ContainsFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":copy") || strings.HasSuffix(key, ":turn") }) {
				t.Errorf("left behind: %q, %v", keys, err)
			}
			stored, err := raw.Dump(t.Context(), "{copied-"+what+":0}:history").Result()
			if err != nil || strings.Contains(stored, "subject") {
				t.Errorf("the server still has what was erased (%v)", err)
			}
			if ttl, err := raw.TTL(t.Context(), "{copied-"+what+":0}:history").Result(); err != nil || ttl >= 0 {
				t.Errorf("the history goes by itself in %v, %v", ttl, err)
			}
		})
	}
}

func tell(t *testing.T, s stet.Forgetter, scope stet.Scope, n int) {
	t.Helper()
	for range n {
		err := s.(stet.Historian).Append(t.Context(), stet.Change{ID: stet.ID{Scope: scope, Key: "k"}, Note: stet.Note{Who: "ann", Why: string(scope)}})
		if err != nil {
			t.Fatal(err)
		}
	}
}
