package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/paging"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/redisstore"
)

// counted is a client that counts the rows of what it is answered.
type counted struct {
	redisstore.Client
	rows atomic.Int64
}

func (c *counted) Do(ctx context.Context, key string, command []string, then func(any) [][]string) ([]any, error) {
	got, err := c.Client.Do(ctx, key, command, then)
	if err == nil {
		if list, ok := got[0].([]any); ok {
			c.rows.Add(int64(len(list)))
		}
	}
	return got, err
}

// overdue creates n records that are due at once, every last of them on another route.
func overdue(t *testing.T, s stet.Store, n, last int) {
	t.Helper()
	var wg sync.WaitGroup
	next := atomic.Int64{}
	for range 64 {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				r := sample(fmt.Sprintf("%06d", i))
				r.DueIn = 0
				if i%last == 0 {
					r.Route = "refunds"
				}
				if _, err := s.Create(t.Context(), r); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A page of Due reads about as much as it shows, wherever in the walk it is, and however the
// records are spread (A2).
func TestWhatAPageOfDueReads(t *testing.T) {
	const records, limit = 6000, 100
	for _, shards := range []int{1, 16, 64} {
		t.Run(strconv.Itoa(shards), func(t *testing.T) {
			c := &counted{Client: dialRueidis(t, testserver.Redis(t).Addr)}
			s := open(t, c, redisstore.Config{Prefix: fmt.Sprint("reads", shards), Shards: shards})
			overdue(t, s, records, records+1)
			seen, after := 0, ""
			for page := 0; ; page++ {
				c.rows.Store(0)
				heads, next, err := s.Due(t.Context(), stet.Query{Limit: limit, After: after})
				if err != nil {
					t.Fatal(err)
				}
				// Each shard reads twice its share and a few, and some of them once more.
				if most := int64(4*limit + 20*shards); c.rows.Load() > most {
					t.Fatalf("page %d reads %d rows, want at most %d", page, c.rows.Load(), most)
				}
				seen += len(heads)
				if after = next; next == "" {
					break
				}
				if len(heads) != limit {
					t.Errorf("page %d has %d records", page, len(heads))
				}
			}
			if seen != records {
				t.Errorf("the walk saw %d of %d", seen, records)
			}
		})
	}
}

// What a query does not select cannot make a page read without an end: it is short, and the walk
// goes on (A2).
func TestDueBehindManyOthers(t *testing.T) {
	const records, last = 25_000, 12_500
	c := &counted{Client: dialRueidis(t, testserver.Redis(t).Addr)}
	s := open(t, c, redisstore.Config{Prefix: "behind", Shards: shards})
	overdue(t, s, records, last)
	var seen []stet.Head
	pages := 0
	for after := ""; ; pages++ {
		c.rows.Store(0)
		heads, next, err := s.Due(t.Context(), stet.Query{Route: "refunds", After: after})
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, heads...); c.rows.Load() > 15_000 {
			t.Errorf("page %d reads %d rows", pages, c.rows.Load())
		}
		if after = next; next == "" {
			break
		}
	}
	if len(seen) != records/last || pages == 0 {
		t.Errorf("on %d pages %d are due, want %d", pages+1, len(seen), records/last)
	}
}

// Records that fall due in one place of the index, some of them in one microsecond, are each seen
// once, in the order of time, wherever a page ends; what has vanished or is damaged among them ends
// nothing (A2).
func TestDueInOnePlace(t *testing.T) {
	const records = 300
	for _, limit := range []int{1, 7, 100, 299, 300} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			s := openReached(t, single(t, testserver.Redis(t).Addr), redisstore.Config{Prefix: fmt.Sprint("place", limit), Shards: shards}).(reached)
			want := map[stet.ID]bool{}
			for i := range records {
				r := sample(fmt.Sprintf("%x", draw()))
				r.State, r.DueIn = []stet.State{stet.Running, stet.Unknown, stet.Completed}[i%3], 0
				made, err := s.Create(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				s.at(t, made.Head, 1795269344000010+int64(i%7))
				switch i % 10 {
				case 3:
					s.damage(t, r.ID)
				case 7:
					s.vanish(t, r.ID)
				default:
					want[r.ID] = true
				}
			}
			var seen []stet.Head
			for after, pages := "", 0; ; pages++ {
				heads, next, err := s.Due(t.Context(), stet.Query{Limit: limit, After: after})
				if err != nil || len(heads) > limit || pages > records {
					t.Fatalf("page %d: %d records, %v", pages, len(heads), err)
				}
				seen = append(seen, heads...)
				if after = next; next == "" {
					break
				}
			}
			if !slices.IsSortedFunc(seen, func(a, b stet.Head) int { return a.DueAt.Compare(b.DueAt) }) {
				t.Error("they are not in the order of time")
			}
			for i := range seen {
				if !want[seen[i].ID] {
					t.Errorf("%s is seen twice, or should not be", seen[i].Key)
				}
				delete(want, seen[i].ID)
			}
			if len(want) != 0 {
				t.Errorf("%d were not seen", len(want))
			}
		})
	}
}

// A cursor of another walk is refused.
func TestCursorsOfDue(t *testing.T) {
	s := open(t, single(t, testserver.Redis(t).Addr), redisstore.Config{Prefix: "cursors", Shards: 1})
	overdue(t, s, 3, 4)
	_, list, err := s.(stet.Lister).List(t.Context(), stet.Query{Limit: 1})
	if err != nil || list == "" {
		t.Fatal(err)
	}
	for _, cursor := range []string{"no cursor \x00", "again", list, "ZA", "ZCw", "ZC0xLA", "ZDk5OTk5OTk5OTk5OTk5OTk5LA"} {
		if _, _, err := s.Due(t.Context(), stet.Query{After: cursor}); err == nil {
			t.Errorf("%q was taken", cursor)
		}
	}
}

func TestAPageLooksThroughSoManyRecords(t *testing.T) { // D04
	s := open(t, dialRueidis(t, testserver.NewRedis(t).Addr), redisstore.Config{})
	const records, look = 12_000, 10_000
	overdue(t, s, records, 100)
	known, err := s.Get(t.Context(), sample("000001").ID)
	if err != nil {
		t.Fatal(err)
	}
	paging.Check(t, s, known, records, look)
}

// A record that vanished by itself, since it was not reaped, leaves no place of its id behind,
// neither where people look for it nor where new keys pass by.
func TestVanishedRecordsHaveNoIds(t *testing.T) {
	server := testserver.NewRedis(t)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer client.Close()
	s := open(t, dialRueidis(t, server.Addr), redisstore.Config{Shards: 1})
	r := sample("k")
	if _, err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	shard := "{stet:0}"
	places := func() int64 {
		n, err := client.ZCard(t.Context(), shard).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := places(); n != 3 {
		t.Fatalf("a record has %d places in the index, want 3", n)
	}
	keys, err := client.Keys(t.Context(), shard+":r:*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if err := client.Del(t.Context(), keys[0]).Err(); err != nil {
		t.Fatal(err)
	}
	l, _ := stet.As[stet.Lister](s)
	if heads, _, err := l.List(t.Context(), stet.Query{Tag: r.Tag}); err != nil || len(heads) != 0 {
		t.Errorf("found %d, %v", len(heads), err)
	}
	if n := places(); n != 0 {
		t.Errorf("%d places are left", n)
	}
}
