package redis

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/redisstore/goredisclient"
	"github.com/stet-dev/stet/store/redisstore/rueidisclient"
	"github.com/stet-dev/stet/store/storetest"
)

func BenchmarkLaws(b *testing.B) {
	addr := testserver.Redis(b).Addr
	storetest.Benchmark(b, storetest.Backend{ServerClock: true, Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
		return open(t, dialRueidis(t, addr), redisstore.Config{Prefix: prefix(dir)})
	}})
}

// slice is for how long one of the two clients works before it is the other's turn, and rounds how
// often each gets it.
const (
	slice  = 250 * time.Millisecond
	rounds = 7
)

// BenchmarkClients compares the two clients on one server and the same scripts, by turns: "ratio"
// is what rueidis does for one of a go-redis pool with a connection for each caller, the median of
// the turns.
func BenchmarkClients(b *testing.B) {
	addr := testserver.Redis(b).Addr
	for _, work := range []string{"new", "replay"} {
		for _, callers := range []int{1, 64, 256} {
			b.Run(fmt.Sprint(work, "/callers=", callers), func(b *testing.B) {
				pool := goredis.NewClient(goredisclient.Options(&goredis.Options{Addr: addr, PoolSize: callers}))
				defer pool.Close()
				piped, err := rueidis.NewClient(rueidisclient.Options(rueidis.ClientOption{InitAddress: []string{addr}}))
				if err != nil {
					b.Fatal(err)
				}
				defer piped.Close()
				name := fmt.Sprint("clients-", work, callers, "-", draw())
				plain := open(b, goredisclient.New(pool), redisstore.Config{Prefix: name + "p"})
				fast := open(b, rueidisclient.New(piped), redisstore.Config{Prefix: name + "r"})
				do := map[string]func(stet.Store, string) error{"new": request(b), "replay": replay(b)}[work]
				if work == "replay" {
					for _, s := range []stet.Store{plain, fast} {
						if err := request(b)(s, "k"); err != nil {
							b.Fatal(err)
						}
					}
				}
				for b.Loop() {
					var ratios, rates, others []float64
					for range rounds {
						p, r := turn(b, callers, func(key string) error { return do(plain, key) }), turn(b, callers, func(key string) error { return do(fast, key) })
						ratios, rates, others = append(ratios, r/p), append(rates, r), append(others, p)
					}
					b.ReportMetric(median(ratios), "ratio")
					b.ReportMetric(median(rates), "rueidis/s")
					b.ReportMetric(median(others), "pool/s")
				}
			})
		}
	}
}

// request is what a first request costs: a Create, and a Replace that completes.
func request(b *testing.B) func(s stet.Store, key string) error {
	return func(s stet.Store, key string) error {
		made, err := s.Create(b.Context(), sample(key))
		if err != nil {
			return err
		}
		h, body := completed(made, string(make([]byte, 200)))
		_, err = s.Replace(b.Context(), made.Version, h, body)
		return err
	}
}

// replay is the Create that finds a completed record.
func replay(b *testing.B) func(s stet.Store, key string) error {
	return func(s stet.Store, _ string) error {
		if _, err := s.Create(b.Context(), sample("k")); !errors.Is(err, stet.ErrExists) {
			return fmt.Errorf("a replay: %w", err)
		}
		return nil
	}
}

var turns atomic.Int64

// turn returns how often a second callers do something.
func turn(b *testing.B, callers int, do func(key string) error) float64 {
	b.Helper()
	prefix := strconv.FormatInt(turns.Add(1), 10) + "-"
	var n atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range callers {
		wg.Go(func() {
			for time.Since(start) < slice {
				if err := do(prefix + strconv.FormatInt(n.Add(1), 10)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(start).Seconds()
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkMemory is what a completed record of 200 bytes takes, with its places in the indexes.
func BenchmarkMemory(b *testing.B) {
	server := testserver.NewRedis(b)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer client.Close()
	used := func() int64 {
		n, err := client.InfoMap(b.Context(), "memory").Result()
		if err != nil {
			b.Fatal(err)
		}
		bytes, err := strconv.ParseInt(n["Memory"]["used_memory"], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return bytes
	}
	s := open(b, dialRueidis(b, server.Addr), redisstore.Config{})
	for b.Loop() {
		before := used()
		const records = 50_000
		var wg sync.WaitGroup
		var n atomic.Int64
		for range 64 {
			wg.Go(func() {
				for i := n.Add(1); i <= records; i = n.Add(1) {
					if err := request(b)(s, fmt.Sprintf("%08d-%x", i, draw())); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(used()-before)/records, "B/record")
	}
}
